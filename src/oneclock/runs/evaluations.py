"""The evaluations of a run: the lines of its `curve.jsonl` as columns, checked. Standard library only.

A step is a whole number of optimizer steps; of one logged twice the later line counts. What follows the last newline
is a line that a crash tore, and is dropped. Any other line that is not an evaluation is damage, and is named.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter, lt
from pathlib import Path
from typing import Any

from oneclock.horizon import Curve
from oneclock.runs.files import Damaged


@dataclass(frozen=True)
class Point:
    """One evaluation; a loss is None where it was not measured and NaN where it was not finite."""

    step: int
    val_loss: float | None = None
    train_loss: float | None = None


@dataclass(frozen=True)
class Evaluations:
    """All evaluations of a run, by step: columns of one length, with losses as in `Point`.

    >>> both = Evaluations.read(b'{"step": 100, "val_loss": 2.5}\\n{"step": 200, "val_loss": null}\\n', Path("run"))
    >>> both.steps, both.val_losses, both.best
    ([100, 200], [2.5, nan], (2.5, 100))
    """

    steps: list[int]
    val_losses: list[float | None]
    train_losses: list[float | None]

    @classmethod
    def read(cls, data: bytes, path: str | Path) -> Evaluations:
        """From the bytes of a curve; `Damaged` where a line of it is none, with the `path` of the run."""
        lines = data.split(b"\n")[:-1]
        return _at_once(lines) or _one_by_one(lines, path)

    @property
    def points(self) -> list[Point]:
        """The same, one by one."""
        return list(map(Point, self.steps, self.val_losses, self.train_losses))

    def curve(self, losses: Sequence[float | None]) -> Curve | None:
        """The curve of `val_losses` or `train_losses` where they were measured; None where none is finite."""
        measured = [(step, loss) for step, loss in zip(self.steps, losses, strict=True) if loss is not None]
        if not any(math.isfinite(loss) for _, loss in measured):
            return None
        return Curve([step for step, _ in measured], [loss for _, loss in measured])

    @property
    def best(self) -> tuple[float | None, int | None]:
        """The smallest finite validation loss and its first step; None where there is none."""
        pairs = zip(self.val_losses, self.steps, strict=True)
        return min((pair for pair in pairs if pair[0] is not None and math.isfinite(pair[0])), default=(None, None))


def whole_step(step: Any) -> int:
    """The step as a whole number; ValueError for any other.

    >>> whole_step(100.0)
    100
    """
    if not 0 <= step < 2**63 or step != int(step):
        raise ValueError(f"step {step} is not a step: steps are whole numbers from 0")
    return int(step)


def _at_once(lines: list[bytes]) -> Evaluations | None:
    """Lines as a run writes them, by one call of the decoder; None where there is anything else among them."""
    try:
        rows = json.loads((b"[" + b",".join(lines) + b"]").decode())
        steps = list(map(itemgetter("step"), rows))
        usual = len(rows) == len(lines) and {*map(type, steps)} <= {int} and all(map(lt, steps, steps[1:]))
        if not usual or (steps and not 0 <= steps[0] <= steps[-1] < 2**63):
            return None
        return Evaluations(steps, *(_column(rows, name) for name in ("val_loss", "train_loss")))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def _column(rows: list[Mapping[str, Any]], name: str) -> list[float | None]:
    with suppress(KeyError):
        values = list(map(itemgetter(name), rows))
        if {*map(type, values)} <= {float}:
            return values
    return [_loss(row, name) for row in rows]


def _one_by_one(lines: list[bytes], path: str | Path) -> Evaluations:
    points = dict(_evaluation(line, number, path) for number, line in enumerate(lines, start=1))
    steps = sorted(points)
    return Evaluations(steps, [points[step][0] for step in steps], [points[step][1] for step in steps])


def _evaluation(line: bytes, number: int, path: str | Path) -> tuple[int, tuple[float | None, float | None]]:
    try:
        row = json.loads(line.decode())
        return whole_step(row["step"]), (_loss(row, "val_loss"), _loss(row, "train_loss"))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise Damaged(f"{path}/curve.jsonl, line {number} is not an evaluation: {error!r}") from None


def _loss(row: Mapping[str, Any], name: str) -> float | None:
    if name not in row:
        return None
    return math.nan if row[name] is None else float(row[name])
