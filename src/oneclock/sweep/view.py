"""What the user sees of a sweep: a live table in a terminal or notebook, plain lines elsewhere, and `status`."""

from __future__ import annotations

import io
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from oneclock.plain_text import printable
from oneclock.runs.best import short_beta
from oneclock.runs.lock import holder, workers
from oneclock.runs.record import RunRecord
from oneclock.sweep.exec.slurm import in_queue

if TYPE_CHECKING:
    from oneclock.sweep.exec.execution import Engine
    from oneclock.sweep.exec.scheduler import Driver
    from oneclock.sweep.plan import Plan

COLOURS = {"running": "cyan", "finished": "green", "diverged": "yellow", "failed": "red", "damaged": "red"}


class Display:
    """Shows the progress of a sweep; `quiet` shows nothing."""

    def __init__(self, progress: Driver, engine: Engine, quiet: bool = False) -> None:
        self._progress, self._engine = progress, engine
        self._console = Console(quiet=quiet)
        self._live: Live | _InNotebook | None = None
        if not quiet and self._console.is_jupyter:
            self._live = _InNotebook()
        elif not quiet and self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
            self.update()
        elif self._engine.dashboard:
            self.say(f"dashboard {self._engine.dashboard}")
        return self

    def __exit__(self, *_: Any) -> None:
        if self._live:
            self.update()
            self._live.stop()

    def say(self, line: str) -> None:
        """Print one line, above the live table if there is one."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def update(self) -> None:
        """Draw the table again."""
        if self._live:
            foot = [f"dashboard {self._engine.dashboard}"] if self._engine.dashboard else []
            most = max(self._console.height - 4, 8)
            words = [self._progress.summary(self._engine.workers), *foot]
            self._live.update(Group(table(self._progress.rows(), most), *map(Text, words)))

    def ended(self, row: RunRecord) -> None:
        """Report that a run has ended."""
        if self._live is None:
            self.say(f"{run_in_words(row)}  [{self._progress.summary(self._engine.workers)}]")


class _InNotebook:
    """The live table below a notebook's cell, redrawn in place; rich's own would need ipywidgets."""

    def start(self) -> None:
        from IPython.display import display

        self._shown = display({"text/plain": ""}, raw=True, display_id=True)

    def update(self, drawn: Group) -> None:
        console = Console(file=io.StringIO(), record=True, width=100, force_jupyter=False)
        console.print(drawn)
        text = console.export_text(clear=False)
        pre = "<pre style='white-space:pre;overflow-x:auto;line-height:normal'>{code}</pre>"
        page = console.export_html(inline_styles=True, code_format=pre)
        self._shown.update({"text/plain": text, "text/html": page}, raw=True)

    def stop(self) -> None:
        """Stop; the last table stays."""


def table(rows: Sequence[RunRecord], most: int = 40, progress: bool = True) -> Table:
    """Rows as a table, with what 80 columns need; of a long list, those that wait or are well finished are left out."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    many, has_lrs = len({row.experiment for row in rows}) > 1, any(row.lr is not None for row in rows)
    if many:
        drawn.add_column("run", overflow="ellipsis")  # the one that gives way in a narrow terminal
    heads = {"beta": 7, "lr": 7, "seed": 4, "state": 8, "progress": 10, "best loss": 9, "at step": 7, "time": 8}
    for name, width in heads.items():
        if (has_lrs or name != "lr") and (progress or name != "progress"):
            left = name in ("state", "progress")
            drawn.add_column(name, justify="left" if left else "right", no_wrap=True, min_width=width)
    busy = [row for row in rows if row.status not in ("waiting", "finished")]
    for row in rows if len(rows) <= most else busy[:most]:
        cells: dict[str, str | Text] = {
            "run": Text(printable(row.experiment)),
            "beta": beta_text(row),
            "lr": "" if row.lr is None else f"{row.lr:g}",
            "seed": str(row.seed),
            "state": Text(row.status, COLOURS.get(row.status, "")),
            "progress": _bar(row),
            "best loss": "" if row.best_loss is None else f"{row.best_loss:.5g}",
            "at step": "" if row.best_step is None else f"{row.best_step:,}",
            "time": "" if row.seconds is None else span(row.seconds),
        }
        drawn.add_row(*(cells[str(column.header)] for column in drawn.columns))
    return drawn


def _bar(row: RunRecord, width: int = 10) -> str:
    share = 1.0 if row.status == "finished" else min(row.steps / row.budget, 1.0)
    return f"{'█' * round(share * width):·<{width}}" if share else ""


def status(plan: Plan) -> dict[str, Any]:
    """The status as plain data: runs, best beta and remaining work per target, and the active processes."""
    owner, at_work = holder(plan.path), workers(plan.path)
    rows = plan.rows()
    targets: dict[str, dict[str, Any]] = {}
    for target in plan.targets:
        step, best, losses = plan.step(target), plan.study.best(target.name), plan.losses(target)
        targets[target.name] = {
            "best_beta": best.beta,
            "best_lr": best.lr,
            "best_interval": None if best.interval is None else asdict(best.interval),
            "tied_with": list(best.tied_with),
            "best_note": best.note,
            "best_summary": best.summary,
            "ended": len(losses),
            "left_at_most": step.at_most,
            "done": step.reason,
        }
    running = sum(row.status == "running" for row in rows)
    left = {name: target["left_at_most"] for name, target in targets.items()}
    return {
        "study": str(plan.path),
        "sweep": str(owner) if owner else None,
        "workers": [str(worker) for worker in at_work],
        "jobs": in_queue(plan.path),
        "seconds_left": time_left(rows, left, running) if owner or at_work else None,
        "targets": targets,
        "runs": [{**row.as_row(), "output": _output(plan, row), "hangs": _hangs(plan, row)} for row in rows],
    }


def _output(plan: Plan, row: RunRecord) -> str | None:
    """The file with the run's printed output, if there is one."""
    path = f"{plan.path}/runs/{row.key.folder}/output.log"  # for ten thousand runs, Paths take time
    return path if os.path.exists(path) else None


def _hangs(plan: Plan, row: RunRecord) -> str | None:
    return hang_in_words(plan.path / "runs" / row.key.folder) if row.status == "running" else None


def _line(row: RunRecord, output: str | None, hangs: str | None) -> str:
    """One run with its progress or the path of its output."""
    far = f" (step {row.steps:,} of {row.budget:,})" if row.status == "running" else ""
    far += f"; {hangs}" if hangs else ""
    return run_in_words(row) + far + (f"; its output: {output}" if output and row.status == "failed" else "")


def show(study: dict[str, Any]) -> None:
    """Print what `status` says: how far it is and who works on it, the targets, the runs, and what to type next."""
    console = Console(highlight=False, markup=False)
    console.soft_wrap = not console.is_terminal  # a program that reads it gets a line per run
    rows = [RunRecord.from_row(run) for run in study["runs"]]
    console.print(f"{_how_far(study)}; {_at_work(study)}")
    if len(study["targets"]) > 1 and console.is_terminal:
        console.print("", _targets(study["targets"]), "", sep="\n")
    else:
        for name, target in study["targets"].items():
            state = f"done: {target['done']}" if target["done"] else f"at most {target['left_at_most']} to go"
            console.print(printable(f"{name}: {target['best_summary']}; {have_ended(target['ended'])}; {state}"))
    for job in study["jobs"] or ():
        console.print(printable(f"job {job['job']}: {job['state'].lower()} for {job['time']}, {job['where']}"))
    drawn = table(rows, progress=any(row.status == "running" for row in rows))
    if console.is_terminal and drawn.row_count:
        console.print(drawn)
    lines = [
        _line(row, run["output"], run["hangs"])
        for row, run in zip(rows, study["runs"], strict=True)
        if row.reason or run["hangs"] or not console.is_terminal
    ]
    if lines:
        console.print("\n".join(lines))
    if (command := _next(study)) is not None:
        console.print(printable(f"Next: oneclock {command} {study['study']}"))


def _how_far(study: dict[str, Any]) -> str:
    """How many runs have ended, failed and are left.

    >>> targets = {"a": {"ended": 2, "left_at_most": 3}}
    >>> _how_far({"targets": targets, "runs": [{"status": "failed", "hangs": None}], "seconds_left": 60})
    '2 runs have ended, 1 failed, at most 3 to go, about 1 min 00 s left'
    """
    ended, left = (sum(target[key] for target in study["targets"].values()) for key in ("ended", "left_at_most"))
    failed = sum(run["status"] == "failed" for run in study["runs"])
    hangs = any(run["hangs"] for run in study["runs"])
    parts = [
        have_ended(ended),
        *([f"{failed:,} failed"] if failed else ()),
        *([f"at most {left:,} to go"] if left else ()),
    ]
    if study["seconds_left"] is not None and not hangs:
        parts.append(f"about {span(study['seconds_left'])} left")
    return ", ".join(parts)


def _targets(targets: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each of several targets: how far it is, and its best beta so far."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("experiment", overflow="fold")
    for name in ("ended", "to go", "best beta", "95 % CI"):
        drawn.add_column(name, justify="right", no_wrap=True)
    for name, target in targets.items():
        beta, interval = target["best_beta"], target["best_interval"]
        ends = () if interval is None else (short_beta(interval["lower"]), short_beta(interval["upper"]))
        counts = (f"{target['ended']:,}", f"{target['left_at_most']:,}")
        drawn.add_row(
            Text(printable(name)), *counts, "-" if beta is None else short_beta(beta), " to ".join(ends) or "-"
        )
    return drawn


def _next(study: dict[str, Any]) -> str | None:
    """The command that comes next, if nobody is at work and something has ended."""
    targets, failed = study["targets"].values(), any(run["status"] == "failed" for run in study["runs"])
    if study["sweep"] or study["workers"] or any(target["left_at_most"] for target in targets):
        return None
    return "retry" if failed else "analyse"


def _at_work(study: dict[str, Any]) -> str:
    """Who works on the study.

    >>> _at_work({"sweep": None, "workers": ["process 7 on a", "process 9 on b"]})
    '2 worker(s) are running: process 7 on a, process 9 on b'
    """
    if study["workers"]:
        return f"{len(study['workers'])} worker(s) are running: {', '.join(study['workers'])}"
    return f"a sweep is running: {study['sweep']}" if study["sweep"] else "no sweep is running"


def span(seconds: float) -> str:
    """Seconds in words.

    >>> span(4.2), span(90), span(7500)
    ('4.2 s', '1 min 30 s', '2 h 05 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def run_name(row: RunRecord) -> str:
    """The name of a run: experiment, beta, learning rate if it was swept, and seed.

    >>> from oneclock.runs.key import RunKey
    >>> run_name(RunRecord(RunKey("digits", 0.9, 1, 100, lr=0.5), "running"))
    'digits beta 0.9 lr 0.5 seed 1'
    """
    lr = "" if row.lr is None else f" lr {row.lr:g}"
    return f"{row.experiment} beta {beta_text(row)}{lr} seed {row.seed}"


def beta_text(row: RunRecord) -> str:
    """A run's beta, or its untied pair.

    >>> from oneclock.runs.key import RunKey
    >>> beta_text(RunRecord(RunKey("a", (0.9, 0.999), 1, 10), "waiting"))
    '0.9/0.999'
    """
    return "/".join(f"{one:g}" for one in row.beta) if isinstance(row.beta, tuple) else f"{row.beta:g}"


def have_ended(runs: int) -> str:
    """How many runs have ended, in words.

    >>> have_ended(1), have_ended(0)
    ('1 run has ended', '0 runs have ended')
    """
    return f"{runs:,} run{' has' if runs == 1 else 's have'} ended"


def run_in_words(row: RunRecord) -> str:
    """A run in one line, safe to print on a terminal."""
    loss = "" if row.best_loss is None else f": best loss {row.best_loss:.6g} at step {row.best_step:,}"
    time = "" if row.seconds is None else f" in {span(row.seconds)}"
    return printable(f"{row.status:11} {run_name(row)}{loss}{time}{f' ({row.reason})' if row.reason else ''}")


HANG = 10
"""A run may hang if it is silent for this many times the usual time between its evaluations."""

SOON = 60.0
"""Seconds of silence that are never called a hang."""


def hang_in_words(path: Path) -> str | None:
    """A warning for a run without an evaluation for a long time; None if one came in time."""
    try:
        started, last = (path / "run.json").stat().st_mtime, (path / "curve.jsonl").stat().st_mtime
        count = (path / "curve.jsonl").read_bytes().count(b"\n")
    except OSError:
        return None
    usual, silent = max(last - started, 0.0) / max(count, 1), time.time() - last
    if not count or silent < max(HANG * usual, SOON):
        return None
    return f"no evaluation for {span(silent)}, usually every {span(usual)}: it may hang (timeout ends such runs)"


@dataclass
class _Took:
    """The time of an experiment's finished runs."""

    budget: int
    runs: int = 0
    seconds: float = 0.0


class Pace:
    """How long runs take, from those that finished; `budgets` are the steps of a run of each experiment.

    >>> from oneclock.runs.key import RunKey
    >>> pace = Pace({"a": 100, "b": 50}, [RunRecord(RunKey("a", 0.9, 1, 100), "finished", 100, seconds=60.0)])
    >>> pace.left({"a": 4}, workers=2), pace.left({"b": 4}, workers=2)
    (120.0, 60.0)
    """

    def __init__(self, budgets: Mapping[str, int], rows: Iterable[RunRecord] = ()) -> None:
        self._took = {name: _Took(budget) for name, budget in budgets.items()}
        for row in rows:
            self.add(row)

    def add(self, row: RunRecord) -> None:
        """Count one more run, if it finished."""
        if row.status == "finished" and row.seconds:
            took = self._took[row.experiment]
            took.runs, took.seconds = took.runs + 1, took.seconds + row.seconds

    def left(self, left: Mapping[str, float], workers: int) -> float | None:
        """Seconds until the runs `left` of each experiment are done; None before any has finished.

        It uses the mean of the experiment's finished runs, or if it has none, the pace of all.
        """
        steps = sum(took.runs * took.budget for took in self._took.values())
        if not steps or not any(left.values()):
            return None
        pace = math.fsum(took.seconds for took in self._took.values()) / steps
        seconds = 0.0
        for name, count in left.items():
            took = self._took[name]
            seconds += count * (took.seconds / took.runs if took.runs else pace * took.budget)
        return seconds / max(workers, 1)


def time_left(rows: Sequence[RunRecord], left: Mapping[str, int], workers: int) -> float | None:
    """Seconds until the runs `left` of each experiment are done; running ones count with their remaining steps.

    >>> from oneclock.runs.key import RunKey
    >>> done = RunRecord(RunKey("a", 0.9, 1, 100), "finished", 100, seconds=60.0)
    >>> time_left([done, RunRecord(RunKey("b", 0.9, 1, 50), "waiting")], {"a": 4, "b": 2}, workers=2)
    150.0
    """
    begun, budgets = dict.fromkeys(left, 0.0), dict.fromkeys(left, 0) | {row.experiment: row.budget for row in rows}
    for row in rows:
        if row.status == "running" and row.experiment in begun:
            begun[row.experiment] += row.steps / row.budget
    return Pace(budgets, rows).left({name: max(count - begun[name], 0.0) for name, count in left.items()}, workers)
