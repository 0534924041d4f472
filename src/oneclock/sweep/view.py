"""What the user sees of a sweep: a live table in a terminal or notebook, plain lines elsewhere, and `status`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
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
        self._live = Live(console=self._console, refresh_per_second=4)
        self._draw: Callable[[Table], Any] | None = None  # draws the table in place of the one before

    def __enter__(self) -> Display:
        if self._console.is_jupyter and not self._console.quiet:  # here rich's own table would need ipywidgets
            from IPython.display import display

            self._draw = display(Text(), display_id=True).update
        elif self._console.is_terminal and not self._console.quiet:
            self._live.start()
            self._draw = self._live.update
        elif self._engine.dashboard:
            self.say(f"dashboard {self._engine.dashboard}")
        self.update()
        return self

    def __exit__(self, *_: Any) -> None:
        self.update()
        self._live.stop()

    def say(self, line: str) -> None:
        """Print one line, above the live table if there is one."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def update(self) -> None:
        """Draw the table again."""
        if self._draw:
            drawn = Table.grid()
            drawn.add_row(table(self._progress.rows(), most=max(self._console.height - 4, 8)))
            drawn.add_row(Text(self._progress.summary(self._engine.workers)))
            if self._engine.dashboard:
                drawn.add_row(Text(f"dashboard {self._engine.dashboard}"))
            self._draw(drawn)

    def ended(self, row: RunRecord) -> None:
        """Report that a run has ended."""
        if self._draw is None:
            run, *more = run_in_words(row)
            self.say(" ".join([f"{run}\n{'':11}", *more, f"[{self._progress.summary(self._engine.workers)}]"]))


def table(rows: Sequence[RunRecord], most: int, progress: bool = True) -> Table:
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
            "beta": row.key.beta_in_words,
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
        "runs": [_run(plan, row) for row in rows],
    }


def _run(plan: Plan, row: RunRecord) -> dict[str, Any]:
    folder = f"{plan.path}/runs/{row.key.folder}"  # for ten thousand runs, Paths take time
    return row.as_row() | {
        "output": f"{folder}/output.log" if os.path.exists(f"{folder}/output.log") else None,
        "hangs": hang_in_words(Path(folder)) if row.status == "running" else None,
    }


def show(study: dict[str, Any]) -> None:
    """Print what `status` says: how far it is and who works on it, the targets, the runs, and what to type next."""
    console = Console(highlight=False, markup=False)
    console.soft_wrap = not console.is_terminal  # a program that reads it gets each sentence as one line
    rows, targets = [RunRecord.from_row(run) for run in study["runs"]], study["targets"]
    left, failed = sum(one["left_at_most"] for one in targets.values()), sum(row.status == "failed" for row in rows)
    console.print(_how_far(study, left, failed))
    if len(targets) > 1:
        console.print("", _targets(targets), "", sep="\n", soft_wrap=False)
    else:
        ((name, only),) = targets.items()
        state = f"done: {only['done']}" if only["done"] else f"at most {left} to go"
        console.print(printable(f"{name}: {only['best_summary']}; {have_ended(only['ended'])}; {state}"))
    for job in study["jobs"] or ():
        console.print(printable(f"job {job['job']}: {job['state'].lower()} for {job['time']}, {job['where']}"))
    most = 40 if console.is_terminal else len(rows)
    drawn = table(rows, most, progress=any(row.status == "running" for row in rows))
    if drawn.row_count:
        console.print(drawn, soft_wrap=False)
    for row, run in zip(rows, study["runs"], strict=True):
        if row.reason or run["hangs"]:
            output = f"its output: {run['output']}" if run["output"] and row.status == "failed" else None
            console.print("; ".join(filter(None, (" ".join(run_in_words(row)), run["hangs"], output))))
    if not (study["sweep"] or study["workers"] or left):
        console.print(printable(f"Next: oneclock {'retry' if failed else 'analyse'} {study['study']}"))


def _how_far(study: dict[str, Any], left: int, failed: int) -> str:
    """How many runs have ended, failed and are left, and who works on them."""
    parts = [have_ended(sum(target["ended"] for target in study["targets"].values()))]
    parts += [f"{failed:,} failed"] if failed else []
    parts += [f"at most {left:,} to go"] if left else []
    if study["seconds_left"] is not None and not any(run["hangs"] for run in study["runs"]):
        parts.append(f"about {span(study['seconds_left'])} left")
    who = f"a sweep is running: {study['sweep']}" if study["sweep"] else "no sweep is running"
    if study["workers"]:
        who = f"{len(study['workers'])} worker(s) are running: {', '.join(study['workers'])}"
    return f"{', '.join(parts)}; {who}"


def _targets(targets: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row for each of several targets: how far it is, and its best beta so far."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("experiment", overflow="fold")
    for name in ("ended", "to go", "best beta", "95 % CI"):
        drawn.add_column(name, justify="right", no_wrap=True)
    for name, target in targets.items():
        best, interval = target["best_beta"], target["best_interval"] or {}
        ends = " to ".join(short_beta(interval[end]) for end in ("lower", "upper") if interval)
        counts = (f"{target['ended']:,}", f"{target['left_at_most']:,}")
        drawn.add_row(Text(printable(name)), *counts, "-" if best is None else short_beta(best), ends or "-")
    return drawn


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
    return f"{row.experiment} beta {row.key.beta_in_words}{lr} seed {row.seed}"


def have_ended(runs: int) -> str:
    """How many runs have ended, in words.

    >>> have_ended(1), have_ended(0)
    ('1 run has ended', '0 runs have ended')
    """
    return f"{runs:,} run{' has' if runs == 1 else 's have'} ended"


def run_in_words(row: RunRecord) -> list[str]:
    """A run with its loss, its time and its reason, each safe to print on a terminal."""
    loss = "" if row.best_loss is None else f": best loss {row.best_loss:.6g} at step {row.best_step:,}"
    time = None if row.seconds is None else f"in {span(row.seconds)}"
    words = (f"{row.status:11} {run_name(row)}{loss}", time, row.reason and f"({row.reason})")
    return [printable(one) for one in words if one]


HANG, SOON = 10, 60.0
"""A run may hang if it is silent for this many times the usual time between its evaluations, and for these seconds."""


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


class Pace:
    """How long runs take, from those that finished; `budgets` are the steps of a run of each experiment.

    >>> from oneclock.runs.key import RunKey
    >>> pace = Pace({"a": 100, "b": 50}, [RunRecord(RunKey("a", 0.9, 1, 100), "finished", 100, seconds=60.0)])
    >>> pace.left({"a": 4}, workers=2), pace.left({"b": 4}, workers=2)
    (120.0, 60.0)
    """

    def __init__(self, budgets: Mapping[str, int], rows: Iterable[RunRecord] = ()) -> None:
        self._budgets, self._runs = budgets, dict.fromkeys(budgets, 0)
        self._seconds = dict.fromkeys(budgets, 0.0)
        for row in rows:
            self.add(row)

    def add(self, row: RunRecord) -> None:
        """Count one more run, if it finished."""
        if row.status == "finished" and row.seconds:
            self._runs[row.experiment] += 1
            self._seconds[row.experiment] += row.seconds

    def left(self, left: Mapping[str, float], workers: int) -> float | None:
        """Seconds until the runs `left` are done, by the mean time of each experiment or, without one, of all."""
        steps = sum(runs * self._budgets[name] for name, runs in self._runs.items())
        if not steps or not any(left.values()):
            return None
        pace = sum(self._seconds.values()) / steps
        usual = {
            name: self._seconds[name] / runs if runs else pace * self._budgets[name]
            for name, runs in self._runs.items()
        }
        return sum(count * usual[name] for name, count in left.items()) / max(workers, 1)


def time_left(rows: Sequence[RunRecord], left: Mapping[str, int], workers: int) -> float | None:
    """Seconds until the runs `left` of each experiment are done; running ones count with their remaining steps.

    >>> from oneclock.runs.key import RunKey
    >>> done = RunRecord(RunKey("a", 0.9, 1, 100), "finished", 100, seconds=60.0)
    >>> time_left([done, RunRecord(RunKey("b", 0.9, 1, 50), "waiting")], {"a": 4, "b": 2}, workers=2)
    150.0
    """
    running = [row for row in rows if row.status == "running"]
    done = {name: sum(row.steps / row.budget for row in running if row.experiment == name) for name in left}
    budgets = dict.fromkeys(left, 0) | {row.experiment: row.budget for row in rows}
    return Pace(budgets, rows).left({name: max(count - done[name], 0.0) for name, count in left.items()}, workers)
