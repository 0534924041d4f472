"""Successive halving replayed on recorded curves: how often it would have ended the winner, and what it would save.

    python benchmarks/early_ends.py [studies/laptop studies/fashion ..]

A group is all betas of an experiment with one seed, at one rate where several were swept: what the first stage of a
protocol trains. At every look the betas with the best validation loss so far go on, one in `eta` of them; the others
end. Each setting has its line: in how many groups the beta with the smallest loss in the end was among those ended, the
gap of the best beta that was left to it (mean and worst, percent of the loss), in how many groups one of the best was
ended (as many as were left, at most the five that get the other seeds), and the share of all steps that was saved.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from oneclock.horizon import Curve
from oneclock.runs.table import read_source

STUDIES = ("studies/laptop", "studies/fashion", "studies/series")
FEWEST = 5
"""Betas that a group must have for a race among them to mean anything."""

Group = Mapping[float, Curve]
"""beta -> its validation curve."""


def groups(study: Path) -> Iterator[tuple[float, Group]]:
    """(budget, curves) of every group of a study."""
    for sweep in read_source(study).sweeps:
        found: dict[tuple[int, float | None], dict[float, Curve]] = defaultdict(dict)
        for run in sweep.tied:
            if run.val is not None:
                found[run.seed, run.lr][run.tied_beta] = run.val
        assert sweep.budget is not None
        yield from ((sweep.budget, group) for group in found.values() if len(group) >= FEWEST)


def best_until(curve: Curve, step: float) -> float:
    """The best finite validation loss up to a step; infinite before the first, and once one was not finite.

    >>> best_until(Curve([10, 20], [2.0, 1.0]), 15)
    2.0
    """
    seen = [loss for at, loss in zip(curve.steps, curve.losses, strict=True) if at <= step]
    return min(seen) if seen and all(map(math.isfinite, seen)) else math.inf


def race(group: Group, budget: float, looks: Sequence[float], eta: int) -> tuple[set[float], float]:
    """The betas that are left after looks at these shares of the budget, and the steps that all together trained."""
    left, trained = set(group), dict.fromkeys(group, float(budget))
    for share in looks:
        kept = math.ceil(len(left) / eta)
        order = sorted(left, key=lambda beta: (best_until(group[beta], share * budget), beta))
        trained |= dict.fromkeys(order[kept:], share * budget)
        left = {*order[:kept]}
    return left, sum(trained.values())


def replayed(found: Sequence[tuple[float, Group]], looks: Sequence[float], eta: int) -> str:
    """One line of the table: what a setting would have done to all groups."""
    ended, several, gaps, saved = 0, 0, [], []
    for budget, group in found:
        final = {beta: best_until(curve, math.inf) for beta, curve in group.items()}
        order = sorted(final, key=lambda beta: (final[beta], beta))
        left, spent = race(group, budget, looks, eta)
        ended += order[0] not in left
        several += not {*order[: min(5, len(left))]} <= left
        gaps.append(100 * (min(final[beta] for beta in left) / final[order[0]] - 1))
        saved.append(100 * (1 - spent / (budget * len(group))))
    told = f"{ended} of {len(found)} | {statistics.mean(gaps):.2f}, {max(gaps):.1f} | {several} of {len(found)}"
    return f"| {eta} | {', '.join(f'{look:.3g}' for look in looks)} | {told} | {statistics.mean(saved):.0f} % |"


def settings() -> Iterator[tuple[list[float], int]]:
    """Looks and eta: halving and thirding from an early or a late first look on, and one look alone."""
    for eta in (2, 3):
        for first in (1 / 16, 1 / 8, 1 / 4, 1 / 2):
            yield [first * eta**place for place in range(5) if first * eta**place < 1], eta
    yield from (([share], 2) for share in (0.25, 0.75, 0.9))


def main(studies: Sequence[Path]) -> None:
    found = [group for study in studies for group in groups(study)]
    print(f"{len(found)} groups of {', '.join(map(str, studies))}")
    print("| eta | looks at | winner ended | gap of what was left: mean, worst, % | one of the best ended | saved |")
    print("| --- | --- | --- | --- | --- | --- |")
    for looks, eta in settings():
        print(replayed(found, looks, eta))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="*", type=Path, default=[Path(name) for name in STUDIES])
    main(parser.parse_args().studies)
