"""A report on disk: the page, the tables, the figures and the data behind them, in one folder."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from oneclock.plain_text import plain_cell
from oneclock.report import plot
from oneclock.report.chart import Figure
from oneclock.report.page import page
from oneclock.report.several import overview_figure, overview_table
from oneclock.report.surfaces import surface_figures
from oneclock.report.sweeps import curve_figures, sweep_figure
from oneclock.report.tables import save_table, write_csv
from oneclock.rule import Rule
from oneclock.runs.columns import STATES
from oneclock.runs.record import RunRecord
from oneclock.runs.sweeps import Sweep, Sweeps
from oneclock.stats import Analysis, analyse, as_json, read
from oneclock.stats.tables import EVERY, Table


@dataclass(frozen=True)
class Subject:
    """The subject of a report: a title, the data and their analysis. `progress` describes an unfinished study."""

    title: str
    study: Sweeps
    analysis: Analysis
    notes: tuple[str, ...] = ()
    progress: str = ""


def subject_of(source: Path, rules: Sequence[Rule] = ()) -> Subject:
    """A study's folder, or a CSV or Parquet table of runs, analysed with these rules beside the others."""
    study = read(source)
    title = source.resolve().name if source.is_dir() else source.stem
    return Subject(title, study, analyse(study, rules), progress=progress_of(study.states))


def progress_of(states: Mapping[str, int]) -> str:
    """How the runs of a folder ended, in words; empty if all finished.

    >>> progress_of({"finished": 2}), progress_of({"finished": 2, "failed": 1})
    ('', 'Of 3 runs: 2 finished, 1 failed.')
    """
    if not {*states} - {"finished"}:
        return ""
    parts = [f"{states[kind]} {kind}" for kind in ("finished", "diverged", "failed", "unfinished") if states.get(kind)]
    far = " so far" if states.get("unfinished") else ""
    return f"Of {sum(states.values())} runs{far}: {', '.join(parts)}."


def check_installed() -> None:
    """ImportError with the install command if a drawing package is missing."""
    if missing := [name for name in ("jinja2", "matplotlib") if find_spec(name) is None]:
        raise ImportError(f"a report needs {' and '.join(missing)}: pip install 'oneclock[report]'")


def tables_of(analysis: Analysis) -> list[Table]:
    """The overview where there are several experiments, then every table that has rows."""
    made = (make(analysis) for make in EVERY)
    first = [overview_table(analysis)] if len(analysis.experiments) > 1 else []
    return [*first, *(table for table in made if table.rows)]


def figures_of(analysis: Analysis) -> list[Figure]:
    """The figures of the page beside the curves; the first is that of the first screen."""
    first = [overview_figure(analysis)] if len(analysis.experiments) > 1 else []
    return [*first, sweep_figure(analysis), *surface_figures(analysis)]


def write_report(source: str | Path, out: str | Path | None = None, *, rules: Sequence[Rule] = ()) -> Path:
    """Write the report of a study: the page, its tables, figures and data. Returns the path of the page.

    Args:
        source: A study's folder, or a CSV, TSV or Parquet file of runs.
        out: The folder to write; by default `report` below a study's folder, where a sweep writes it too, and `report`
            beside you for a file.
        rules: Other rules to put side by side.

    Raises:
        ImportError: If matplotlib or jinja2 is missing.
        ValueError: If the source holds nothing to report.
    """
    out = default_folder(Path(source)) if out is None else Path(out)
    typed = shlex.join(["oneclock", "report", Path(source).resolve().name, "--out", out.resolve().name])
    return write_subject(subject_of(Path(source), rules), out, typed)


def default_folder(source: Path) -> Path:
    """The default folder of a report: below a study's folder, or `report` for a file."""
    return source / "report" if source.is_dir() else Path("report")


def write_subject(subject: Subject, out: Path, command: str, formats: Sequence[str] = plot.FORMATS) -> Path:
    """Write the whole report below `out`, with printed figures in these formats. Returns the path of its page."""
    check_installed()
    tables = tables_of(subject.analysis)
    figures = figures_of(subject.analysis)
    curves = list(curve_figures(subject.study, subject.analysis))
    try:
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"{out} is a file and cannot be the report's folder; name another (--out)") from None
    for table in tables:
        save_table(table, out / "tables")
    _write_data(subject, out / "data")
    if formats:
        for figure in (*figures, *curves):
            plot.save_figure(figure, out / "figures", formats)
    aside = out / f".report.html.{os.getpid()}-{os.urandom(4).hex()}"  # a browser that reloads sees a complete page
    aside.write_text(page(subject, tables, figures, curves, command, formats), encoding="utf-8")
    return aside.replace(out / "report.html")


_RUN = ("experiment", "split", "budget", "t_es", "beta", "beta2", "lr", "seed", "status")


def _write_data(subject: Subject, folder: Path) -> None:
    """Every run, every evaluation, and the analysis: the numbers behind the figures, in full precision."""
    runs = [(_head(sweep, run), run) for sweep in subject.study.sweeps for run in sweep.runs]
    losses = ((*head, run.best_loss, run.best_train_loss) for head, run in runs)
    write_csv(folder / "runs.csv", (*_RUN, "min_val_loss", "min_train_loss"), losses)
    evaluations = ((*head, *one) for head, run in runs for one in _evaluations(run))
    write_csv(folder / "curves.csv", (*_RUN, "step", "val_loss", "train_loss"), evaluations)
    text = json.dumps(as_json(subject.analysis), indent=1, allow_nan=False)
    (folder / "analysis.json").write_text(text + "\n", encoding="utf-8")


def _head(sweep: Sweep, run: RunRecord) -> tuple[Any, ...]:
    """The cells that name a run. With its status: otherwise a diverged run would look like a good one."""
    beta, beta2 = (run.beta, None) if run.key.is_tied else run.key.betas
    status = "diverged" if run.diverged else run.status if run.status in STATES else "unfinished"
    return plain_cell(sweep.name), sweep.split, sweep.budget, sweep.t_es, beta, beta2, run.lr, run.seed, status


def _evaluations(run: RunRecord) -> Iterator[tuple[float, float | None, float | None]]:
    """Step and losses; a run without a finite loss keeps one row, otherwise it would be missing."""
    val, train = ({} if one is None else dict(zip(one.steps, one.losses, strict=True)) for one in (run.val, run.train))
    for step in sorted(val | train) or [0]:
        yield step, val.get(step), train.get(step)
