"""The committed studies by three horizons: the paper's early stop (T_ES), the useful horizon, and the planned steps.

python scripts/horizon_studies.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median

from oneclock.horizon import Curve, early_stop, effective_horizon, mean_best_loss, useful_horizon
from oneclock.rule import RECOMMENDED, Refresh, Rule, nearest_beta
from oneclock.runs.best import at_best_lrs
from oneclock.runs.sweeps import Sweep
from oneclock.runs.table import read_source

STUDIES = Path(__file__).parents[1] / "studies"
NAMES = ("laptop", "fashion", "series", "joint", "short", "brief")
CANDIDATES = (10, 15, 20, 30, 50, 70, 100, 150, 200, *range(300, 2001, 100))


def two_best(sweep: Sweep) -> dict[float, list[Curve]]:
    """The curves of the two betas with the lowest mean loss."""
    curves: dict[float, list[Curve]] = {}
    for run in sweep.tied:
        if run.val is not None:
            curves.setdefault(run.tied_beta, []).append(run.val)
    best = sorted(curves, key=lambda beta: (mean_best_loss(curves[beta]), beta))[:2]
    return {beta: curves[beta] for beta in best}


def planned(sweep: Sweep) -> float:
    assert sweep.budget is not None
    return sweep.budget


def paper(sweep: Sweep) -> float:
    return effective_horizon(two_best(sweep), planned(sweep))


def useful(sweep: Sweep) -> float:
    return fmean(useful_horizon(curve, sweep.budget).steps for curves in two_best(sweep).values() for curve in curves)


def gap(sweep: Sweep, rule: Rule, horizon: float) -> float | None:
    """By how many percent the swept beta nearest to the rule's is worse than the best; None where the rule has none."""
    losses: dict[float, list[float]] = {}
    for run in sweep.tied:
        losses.setdefault(run.tied_beta, []).append(run.loss)
    means = {beta: fmean(values) for beta, values in losses.items()}
    try:
        chosen = nearest_beta(rule(horizon), sorted(means))
    except ValueError:
        return None
    return 100 * (means[chosen] / min(means.values()) - 1)


def best_count(sweeps: Sequence[Sweep], horizons: Sequence[float]) -> int:
    """The R0 with the smallest largest gap on the development experiments, the first of a tie."""
    chosen = [pair for pair in zip(sweeps, horizons, strict=True) if pair[0].split == "development"]
    chosen = chosen or list(zip(sweeps, horizons, strict=True))

    def largest(refreshes: int) -> float:
        gaps = [gap(sweep, Refresh(refreshes), horizon) for sweep, horizon in chosen]
        return max(math.inf if one is None else one for one in gaps)

    return min(CANDIDATES, key=largest)


def row(name: str, label: str, sweeps: Sequence[Sweep], horizons: Sequence[float]) -> str:
    cells = []
    for rule in (Refresh(300), Refresh(500), Refresh(1000), RECOMMENDED):
        gaps = [gap(sweep, rule, horizon) for sweep, horizon in zip(sweeps, horizons, strict=True)]
        known = [one for one in gaps if one is not None]
        missing = f" (none for {len(gaps) - len(known)} of {len(gaps)})" if len(known) < len(gaps) else ""
        cells.append(f"{fmean(known):.1f}, {max(known):.1f}{missing}" if known else "no beta")
    return f"| {name} | {label} | {best_count(sweeps, horizons)} | {' | '.join(cells)} |"


def main() -> None:
    curves = []
    print("| study | horizon | best refresh count | 300 refreshes | 500 | 1000 | recommended |")
    print("| --- | --- | ---: | --- | --- | --- | --- |")
    for name in NAMES:
        swept = read_source(STUDIES / name).sweeps
        curves += [(run.val, one.budget) for one in swept for run in (*one.tied, *one.untied) if run.val is not None]
        sweeps = [at_best_lrs(sweep) for sweep in swept]
        plans, ours = [planned(sweep) for sweep in sweeps], [useful(sweep) for sweep in sweeps]
        print(row(name, "the paper's early stop", sweeps, [paper(sweep) for sweep in sweeps]))
        same = ours == plans
        print(row(name, "useful horizon = planned steps" if same else "planned steps", sweeps, plans))
        if not same:
            print(row(name, "useful horizon", sweeps, ours))
    turned = sum(useful_horizon(curve, plan).turned for curve, plan in curves)
    many = [(curve, plan) for curve, plan in curves if len(curve.steps) >= 10]
    ended = [(stop, curve) for curve, plan in many if (stop := early_stop(curve, plan)).ran_out]
    false = [stop.stop / curve.best_step for stop, curve in ended if curve.best_step > stop.stop]
    print(f"\n{len(curves)} curves; a turn is confirmed in {turned}")
    print(f"{len(many)} have at least ten evaluations; on them the paper's")
    print(f"early stop came before the end in {len(ended)}; in {len(false)} of them a later evaluation was better,")
    print(f"and the stop came at {median(false):.2f} of its step (the median)")


if __name__ == "__main__":
    main()
