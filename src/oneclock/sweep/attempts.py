"""What an attempt at a run keeps from earlier attempts that died.

An attempt continues from a checkpoint, or begins from zero; its evaluations alone do not show which. It counts as
continued only if the run's folder held files for it and its first step could be the next one. Otherwise only its own
evaluations count. The run's reason records which was assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oneclock.runs.folder import RunFolder


class EarlierAttempts:
    """The evaluations of earlier attempts at a run, when an attempt begins."""

    def __init__(self, record: RunFolder, files: Path) -> None:
        self.points = record.points()
        self.left_files = any(files.iterdir())
        self.note: str | None = None  # what the user should know about how they were treated

    def last_kept(self, first: int | None) -> int:
        """The last step of the earlier attempts that counts for an attempt with its first evaluation at step `first`.

        -1 for none. `first` is None if the attempt made no evaluation: nothing was left to do after its checkpoint.
        """
        steps = [point.step for point in self.points]
        before = [step for step in steps if first is None or step < first]
        if not before:
            return -1
        theirs = f"the evaluations of an earlier attempt, up to step {before[-1]:,},"
        if self.left_files and (first is None or goes_on(steps, first)):
            self.note = f"{theirs} count: it went on from there"
            return before[-1]
        began = f"this one did not go on from there, but began at step {first:,}"
        why = began if self.left_files else "the run's folder held no file to go on from"
        self.note = f"{theirs} do not count: {why}"
        return -1


def goes_on(steps: Sequence[int], first: int) -> bool:
    """Whether an attempt that begins with step `first` can be a continuation after evaluations at `steps`.

    It repeats one of them, or makes the next one; a checkpoint that was saved just before an evaluation skips that one.

    >>> goes_on([10, 20], 20), goes_on([10, 20], 30), goes_on([10, 20], 40), goes_on([4, 8, 16], 32)
    (True, True, True, True)
    >>> goes_on([10, 20], 15), goes_on([10, 20], 41)
    (False, False)
    """
    earlier, before, last = [0, 0, *steps][-3:]
    gap, gap_before = last - before, before - earlier
    growth = max(gap / gap_before, 1) if gap_before > 0 else 1
    return first in steps or 0 < first - last <= gap * growth * (1 + growth)
