"""`oneclock report`: tables, figures and one interactive page of a study, or of the paper's data."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from oneclock.cli.analyse import Rules
from oneclock.rule import rule_from


def command(
    study: Annotated[
        Path | None, typer.Argument(help="A study's folder, or a CSV or Parquet table of runs.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write. Default: STUDY/report, where a sweep writes it too.")
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Report on the paper's published data instead.")] = False,
    rules: Rules = None,
    watch: Annotated[bool, typer.Option("--watch", help="Write it again and again until the sweep is done.")] = False,
    every: Annotated[int, typer.Option(help="Seconds between two of these.", min=1)] = 10,
) -> None:
    """Write tables, figures and report.html, one page to read and to share.

    oneclock report STUDY --out DIR

    oneclock report STUDY --out DIR --watch

    oneclock report --paper --out DIR
    """
    from rich.console import Console

    from oneclock.lab.paper.subject import published
    from oneclock.report import folder

    if paper == (study is not None):
        raise ValueError("give a study, or --paper, and not both")
    if watch and study is None:
        raise ValueError("--watch goes with a study: the paper's data never change")
    others = [rule_from(text) for text in rules or ()]
    out = out or (Path("report") if study is None else folder.default_folder(study))
    # The page shows names instead of paths, so that it can be shared.
    typed = ["oneclock", "report", "--paper" if study is None else study.resolve().name, "--out", out.resolve().name]
    typed += [word for text in rules or () for word in ("--rule", text)]
    with Console(stderr=True).status("watching: Ctrl-C ends it" if watch else "analysing and drawing"):
        if study is None:
            page = folder.write_subject(published(others), out, shlex.join(typed))
        elif watch:
            read = partial(folder.subject_of, study, others)
            page = folder.watch(read, _is_done(study), study.name, out, shlex.join(typed), every)
        else:
            page = folder.write_subject(folder.subject_of(study, others), out, shlex.join(typed))
    print(page)


def _is_done(study: Path) -> Callable[[], bool]:
    """Whether nothing is left to do: by the study's protocol, or, without one, when no run is unfinished."""
    import oneclock.lab.sweep_target  # noqa: F401 (a target of the study may be an experiment)
    from oneclock.runs import folder as run_folder
    from oneclock.sweep import Plan

    def done() -> bool:
        if (study / "study.json").exists():
            plan = Plan.read(study)
            return not any(plan.step(target).runs for target in plan.targets)
        runs = list(run_folder.runs_of(study))
        return bool(runs) and all(run.result is not None for run in runs)

    return done
