"""How far a sweep is, as its driver knows it: what flies, what has ended, how long the rest takes.

All of it is kept, so that one more run costs the same whether ten or ten thousand ended before it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oneclock.plain_text import printable
from oneclock.study.folder import Row
from oneclock.study.records import Result
from oneclock.sweep.cells import Cell, Step
from oneclock.sweep.plan import Plan
from oneclock.sweep.targets import Target


class Progress:
    """The runs of a sweep under way."""

    def __init__(self, plan: Plan) -> None:
        self.flying: dict[str, tuple[Target, Cell]] = {}
        self._plan = plan
        self._over = [plan.row(target, cell) for target in plan.targets for cell in plan.losses(target)]
        self._pace = Pace({target.name: target.budget for target in plan.targets}, self._over)
        self._left: dict[str, int] = {}

    def plan(self, target: Target, step: Step) -> list[Cell]:
        """Take note of what the protocol wants of a target; the runs of it that do not fly yet, which now do."""
        self._left[target.name] = step.at_most
        known = {cell for other, cell in self.flying.values() if other is target}
        new = [cell for cell in step.runs if cell not in known]
        self.flying |= {os.path.abspath(self._plan.place(target, cell)): (target, cell) for cell in new}
        return new

    def end(self, path: str, result: Result | None) -> tuple[Target, Row]:
        """Take note of a run's end; its target and its row. Without a result it was stopped, and may fly again."""
        target, cell = self.flying.pop(path)
        if result is None:
            return target, self._plan.row(target, cell)
        row = self.count(target, cell, result)
        self._left[target.name] -= 1
        return target, row

    def count(self, target: Target, cell: Cell, result: Result) -> Row:
        """Take note of a run that has ended, here or elsewhere."""
        self._plan.remember(target, cell, result)
        row = self._plan.row(target, cell)
        self._over.append(row)
        self._pace.add(row)
        return row

    def rows(self) -> list[Row]:
        """Every run that has ended or flies, by experiment, beta, rate and seed; untied pairs last."""
        waiting = [self._row(path, *run) for path, run in self.flying.items()]
        order = {target.name: number for number, target in enumerate(self._plan.targets)}
        return sorted(
            [*self._over, *waiting],
            key=lambda row: (order[row.experiment], isinstance(row.beta, tuple), row.beta, row.rate or 0.0, row.seed),
        )

    def summary(self, workers: int) -> str:
        """How far it is in words, on so many workers."""
        done, left = len(self._over), sum(self._left.values())
        seconds = self._pace.left(self._left, min(workers, left))
        tail = f", about {span(seconds)} left" if seconds else ""
        return f"{done} of at most {done + left} runs{tail}"

    def _row(self, path: str, target: Target, cell: Cell) -> Row:
        if not os.path.exists(path):
            return Row(target.name, cell.beta, cell.seed, "waiting", 0, target.budget, rate=cell.rate)
        return self._plan.row(target, cell)


@dataclass
class _Took:
    """What the finished runs of an experiment took."""

    budget: int
    runs: int = 0
    seconds: float = 0.0


class Pace:
    """How long runs take, from those that finished; `budgets` are the steps of a run of each experiment.

    >>> pace = Pace({"a": 100, "b": 50}, [Row("a", 0.9, 1, "finished", 100, 100, seconds=60.0)])
    >>> pace.left({"a": 4}, workers=2), pace.left({"b": 4}, workers=2)
    (120.0, 60.0)
    """

    def __init__(self, budgets: Mapping[str, int], rows: Iterable[Row] = ()) -> None:
        self._took = {name: _Took(budget) for name, budget in budgets.items()}
        for row in rows:
            self.add(row)

    def add(self, row: Row) -> None:
        """Count one more run, if it finished."""
        if row.state == "finished" and row.seconds:
            took = self._took[row.experiment]
            took.runs, took.seconds = took.runs + 1, took.seconds + row.seconds

    def left(self, left: Mapping[str, float], workers: int) -> float | None:
        """Seconds until the runs `left` of each experiment are done; None before any has finished.

        By the mean of the experiment's finished runs, or where it has none by the pace of all.
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


def span(seconds: float) -> str:
    """Seconds for people.

    >>> span(4.2), span(90), span(7500)
    ('4.2 s', '1 min 30 s', '2 h 05 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def time_left(rows: Sequence[Row], left: Mapping[str, int], workers: int) -> float | None:
    """Seconds until the runs `left` of each experiment are done, those under way counted for what is left of them.

    >>> done = Row("a", 0.9, 1, "finished", 100, 100, seconds=60.0)
    >>> time_left([done, Row("b", 0.9, 1, "waiting", 0, 50)], {"a": 4, "b": 2}, workers=2)
    150.0
    """
    begun, budgets = dict.fromkeys(left, 0.0), dict.fromkeys(left, 0) | {row.experiment: row.budget for row in rows}
    for row in rows:
        if row.state == "running" and row.experiment in begun:
            begun[row.experiment] += row.step / row.budget
    return Pace(budgets, rows).left({name: max(count - begun[name], 0.0) for name, count in left.items()}, workers)


def label(row: Row) -> str:
    """What a run is called: experiment, beta, rate where it was swept, and seed."""
    rate = "" if row.rate is None else f" rate {row.rate:g}"
    return f"{row.experiment} beta {beta_of(row)}{rate} seed {row.seed}"


def beta_of(row: Row) -> str:
    """A run's beta, or its untied pair.

    >>> beta_of(Row("a", (0.9, 0.999), 1, "waiting", 0, 10))
    '0.9/0.999'
    """
    return "/".join(f"{one:g}" for one in row.beta) if isinstance(row.beta, tuple) else f"{row.beta:g}"


def have_ended(runs: int) -> str:
    """How many runs have ended, in words.

    >>> have_ended(1), have_ended(0)
    ('1 run has ended', '0 runs have ended')
    """
    return f"{runs:,} run{' has' if runs == 1 else 's have'} ended"


def run_in_words(row: Row) -> str:
    """A run in one line, which does nothing to a terminal."""
    loss = "" if row.best_loss is None else f": best loss {row.best_loss:.6g} at step {row.best_step:,}"
    time = "" if row.seconds is None else f" in {span(row.seconds)}"
    return printable(f"{row.state:11} {label(row)}{loss}{time}{f' ({row.reason})' if row.reason else ''}")
