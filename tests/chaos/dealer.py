"""Deals strikes of every kind by a seeded generator, and counts them and what did not hold."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from .disks import FullDisks
from .frozen import Frozen
from .honesty import EditedCode, LostFiles, MixedAttempts, RenamedMetrics, ShortRuns
from .hostile import Logs
from .kills import ClusterKills, Kills, TorchrunKills
from .prepared import Checkpoints, Tokens
from .records import Claims, Records


class Kind(Protocol):
    """One kind of strike; `checked` says what must hold after each."""

    checked: str

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        """Strike once: what was struck, and what did not hold after it."""

    def close(self) -> list[str]:
        """End what is under way; what did not hold of it."""


SHARES: dict[str, tuple[Callable[[Path], Kind], int]] = {
    "kills": (Kills, 21),
    "kills on a cluster": (ClusterKills, 2),
    "kills of torchrun": (TorchrunKills, 2),
    "frozen drivers": (Frozen, 4),
    "full disks": (FullDisks, 7),
    "damaged records": (Records, 24),
    "damaged claims": (Claims, 10),
    "damaged tokens": (Tokens, 10),
    "damaged checkpoints": (Checkpoints, 8),
    "hostile logs": (Logs, 12),
    "edited code": (EditedCode, 8),
    "lost files": (LostFiles, 8),
    "mixed attempts": (MixedAttempts, 5),
    "short runs": (ShortRuns, 8),
    "renamed metrics": (RenamedMetrics, 6),
}
"""Every kind of injected fault, and its share."""


@dataclass
class Count:
    """What came of one kind."""

    checked: str = ""
    struck: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    left_out: str | None = None

    def __str__(self) -> str:
        if self.left_out is not None:
            return f"left out: {self.left_out}"
        parts = ", ".join(f"{what} {count}" for what, count in sorted(self.struck.items()))
        return (
            f"{self.struck.total()} ({parts}), wrong {len(self.wrong)}, {self.seconds:.0f} s; checked: {self.checked}"
        )


class Dealer:
    """Holds the kinds that were dealt so far, each made when it is first needed."""

    def __init__(self, folder: Path, kinds: Sequence[str] = tuple(SHARES)) -> None:
        self.folder, self.kinds = folder, list(kinds)
        self.made: dict[str, Kind] = {}
        self.counts: dict[str, Count] = {}

    def deal(self, strikes: int, seed: int) -> dict[str, Count]:
        """Strike so many times; the counts of every kind."""
        dice = random.Random(seed)
        try:
            for number in range(strikes):
                self.strike(dice, random.Random(f"{seed}-{number}"))
                if number % 25 == 24:
                    print(f"{number + 1} of {strikes} strikes", file=sys.stderr, flush=True)
        finally:
            for name, kind in self.made.items():
                self.counts[name].wrong += kind.close()
        return self.counts

    def strike(self, dealing: random.Random, dice: random.Random) -> None:
        (name,) = dealing.choices(self.kinds, [SHARES[kind][1] for kind in self.kinds])
        count, started = self.counts.setdefault(name, Count()), time.monotonic()
        if count.left_out is not None or not self.ready(name, count):
            return self.strike(dealing, dice)
        what, wrong = self.made[name].strike(dice)
        count.struck[what] += 1
        count.wrong += wrong
        count.seconds += time.monotonic() - started
        for line in wrong:
            print(f"WRONG: {name}, {what}: {line}", file=sys.stderr, flush=True)
        return None

    def ready(self, name: str, count: Count) -> bool:
        """Whether the kind can be dealt on this machine, which the count says where it cannot."""
        if name not in self.made:
            try:
                self.made[name] = SHARES[name][0](self.folder / name.replace(" ", "-"))
                count.checked = self.made[name].checked
            except (OSError, ImportError) as error:
                count.left_out = str(error)
                self.kinds.remove(name)
        return name in self.made


def deal(strikes: int, seed: int, kinds: Sequence[str] = tuple(SHARES)) -> dict[str, Count]:
    """Strike so many times in a folder of its own; the counts of every kind."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as folder:
        return Dealer(Path(folder), kinds).deal(strikes, seed)
