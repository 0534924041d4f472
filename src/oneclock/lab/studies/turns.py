"""Which curves of the studies `overfit`, `horizon` and `third` turn, and where: the numbers of their pages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from oneclock.lab.studies.curves import read_curves
from oneclock.lab.studies.designs import SHORT_TEXT
from oneclock.runs.key import RunKey

PARTS, WINDOW = 64, 8
"""A curve counts in at most so many equal parts; a mean is over so many of them."""
TURNED, FLAT = 1.05, 1.01
"""A curve turns where a later mean is 5 % above the lowest; it does not where none is 1 % above it."""


def turn(losses: Sequence[float]) -> tuple[str, float]:
    """`turn`, `none` or `unclear`, and where the lowest mean is centred, as a share of the plan.

    >>> turn([3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3, 4, 5, 6, 7])
    ('turn', 0.40625)
    >>> turn([1 / step for step in range(1, 33)])[0]
    'none'
    """
    means = np.convolve(np.asarray(losses, dtype=float), np.ones(WINDOW) / WINDOW, "valid")
    lowest = int(means.argmin())
    rise = means[lowest:].max() / means[lowest]
    kind = "turn" if rise >= TURNED else "none" if rise <= FLAT else "unclear"
    return kind, (lowest + (WINDOW + 1) / 2) / len(losses)


def parts(values: Sequence[float]) -> list[float]:
    """Means over at most `PARTS` equal parts of a curve.

    >>> len(parts(range(1000))), parts(range(3))
    (64, [0.0, 1.0, 2.0])
    """
    count = min(PARTS, len(values))
    cuts = [len(values) * at // count for at in range(count + 1)]
    return [float(np.mean(values[start:end])) for start, end in pairwise(cuts)]


def _share(key: RunKey) -> str:
    data = key.spec["data"]
    if "characters" in data and not key.experiment.startswith("overfit"):
        return f"{data['characters']:,} characters"
    return f"{float(data['share'] if 'share' in data else data['characters'] / SHORT_TEXT):.0%} of the data"


FACTORS: dict[str, Callable[[RunKey], str]] = {
    "split": lambda key: key.split,
    "source": lambda key: str(key.spec["data"]["source"]),
    "share": _share,
    "schedule": lambda key: str(key.spec["schedule"]["kind"]),
    "decay": lambda key: f"weight decay {key.spec['optimizer']['weight_decay']:g}",
    "plan": lambda key: f"{key.budget:,} steps",
}
"""The factors in which the runs of the study differ."""


def counts(study: Path, factor: str = "split") -> Counter[tuple[str, str]]:
    """How many runs turn between 10 and 90 % of the plan, turn outside, do not turn, or are unclear; by one factor."""
    counter: Counter[tuple[str, str]] = Counter()
    for run in read_curves(study):
        losses = run.curve.losses
        kind, place = turn(parts(losses)) if all(map(math.isfinite, losses)) else ("diverged", 0.0)
        inside = kind != "turn" or 0.1 <= place <= 0.9
        counter[FACTORS[factor](run.key), kind if inside else "turn outside"] += 1
    return counter


def report(study: Path) -> str:
    """The counts as text, by every factor."""
    kinds = ("turn", "turn outside", "unclear", "none", "diverged")
    lines = [f"{'':20}" + "".join(f"{kind:>14}" for kind in kinds)]
    for factor in FACTORS:
        table = counts(study, factor)
        levels = dict.fromkeys(level for level, _ in table)
        lines += [f"{level:20}" + "".join(f"{table[level, kind]:14}" for kind in kinds) for level in levels]
    return "\n".join(lines)
