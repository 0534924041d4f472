"""The useful horizon put to the test: on simulated curves, and on runs of the overfit study, cut and thinned.

python scripts/horizon_test.py simulated
python scripts/horizon_test.py studies/overfit --half development
python scripts/horizon_test.py studies/overfit --half heldout --picture docs/images
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from oneclock.horizon import Curve, early_stop, useful_horizon
from oneclock.lab.simulated_curves import PLAN, simulate
from oneclock.report import plot
from oneclock.report.chart import Axis, Chart, Figure, Trace, number_axis
from oneclock.runs.table import read_source

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
COUNTS = (3, 5, 10, 30, 64)


@dataclass(frozen=True)
class Known:
    """A whole curve with its horizon in hindsight; `turns` is None where the study's own rule leaves it open."""

    name: str
    curve: Curve
    plan: float
    horizon: float
    turns: bool | None
    schedule: str | None = None


@dataclass(frozen=True)
class Score:
    """One method over many runs: its typical factor of error, and how often its interval held the horizon."""

    error: float
    coverage: float | None = None
    found: float | None = None
    false: float | None = None


def hindsight(curve: Curve, plan: float) -> tuple[float, bool | None]:
    """Where a whole curve was lowest, by means over five evaluations, and whether it turned by the study's own rule.

    The study's rule, written down before its first run, takes means over eight evaluations: it turned where a later one
    is at least 5 % above the lowest, it did not where none is more than 1 % above it.
    """
    eights = [fmean(curve.losses[at : at + 8]) for at in range(len(curve.losses) - 7)]
    least = min(eights)
    rise = max(eights[eights.index(least) :]) / least - 1
    turns = True if rise >= 0.05 else False if rise <= 0.01 else None
    if turns is False:
        return plan, turns
    fives = [_centred(curve.losses, at) for at in range(len(curve.losses))]
    return curve.steps[fives.index(min(fives))], turns


def known_runs(study: str, half: str) -> list[Known]:
    """Every finished run of one half of the study."""
    found = []
    for sweep in read_source(study).sweeps:
        if sweep.split != half or sweep.budget is None:
            continue
        for run in (*sweep.tied, *sweep.untied):
            if run.val is not None and run.status == "finished":
                name = f"{sweep.name}/{run.beta}-{run.lr}"
                schedule = "cosine" if "-cosine-" in name else "constant"
                found.append(Known(name, run.val, sweep.budget, *hindsight(run.val, sweep.budget), schedule))
    return found


def until(curve: Curve, steps: float) -> Curve:
    count = sum(step <= steps for step in curve.steps)
    return Curve(curve.steps[:count], curve.losses[:count])


def thinned(curve: Curve, count: int) -> Curve:
    places = [round((at + 1) * len(curve.steps) / count) - 1 for at in range(count)]
    return Curve([curve.steps[place] for place in places], [curve.losses[place] for place in places])


def ours(runs: Sequence[Known], cut: Callable[[Known], Curve]) -> Score:
    answers = [(useful_horizon(cut(run), run.plan, run.schedule), run) for run in runs]
    turning, staying = ([answer for answer, run in answers if run.turns is turns] for turns in (True, False))
    return Score(
        error=_factor([(answer.steps, run.horizon) for answer, run in answers]),
        coverage=fmean(answer.low <= run.horizon <= answer.high for answer, run in answers),
        found=fmean(answer.turned for answer in turning) if turning else None,
        false=fmean(answer.turned for answer in staying) if staying else None,
    )


def by_share(runs: Sequence[Known]) -> dict[str, list[Score]]:
    """Each method at each share of the plan."""
    methods: dict[str, Callable[[Known, Curve], float]] = {
        "always the plan": lambda run, _: run.plan,
        "the elapsed time": lambda _, curve: curve.steps[-1],
        "the paper's early stop": lambda run, curve: early_stop(curve, run.plan).stop,
    }
    found = {"useful horizon": [ours(runs, lambda run, at=share: until(run.curve, at * run.plan)) for share in SHARES]}
    for name, method in methods.items():
        found[name] = [
            Score(_factor([(method(run, until(run.curve, share * run.plan)), run.horizon) for run in runs]))
            for share in SHARES
        ]
    return found


def report(runs: Sequence[Known]) -> None:
    clear = [run for run in runs if run.turns is not None]
    turning = [run for run in clear if run.turns]
    print(f"{len(runs)} runs: {len(turning)} turn, {len(clear) - len(turning)} do not, {len(runs) - len(clear)} open")
    for title, chosen in (
        ("all clear runs", clear),
        ("that turn", turning),
        ("that do not", [run for run in clear if not run.turns]),
    ):
        if not chosen:
            continue
        print(f"\n{title} ({len(chosen)}): typical factor of error at a share of the plan")
        print("| method | " + " | ".join(f"{share:.0%}" for share in SHARES) + " |")
        for name, scores in by_share(chosen).items():
            print(f"| {name} | " + " | ".join(f"{score.error:.2f}" for score in scores) + " |")
        scores = by_share(chosen)["useful horizon"]
        for label, name in (("coverage", "coverage"), ("turns found", "found"), ("false turns", "false")):
            values = [getattr(score, name) for score in scores]
            print(f"| {label} | " + " | ".join("" if one is None else f"{one:.2f}" for one in values) + " |")
    print("\ncoverage of whole runs, thinned to so many evaluations")
    print("| evaluations | " + " | ".join(map(str, COUNTS)) + " |")
    for label, chosen in (("clear runs", clear), ("all runs", runs)):
        held = [ours(chosen, lambda run, n=count: thinned(run.curve, n)).coverage for count in COUNTS]
        print(f"| {label} | " + " | ".join(f"{one:.2f}" for one in held if one is not None) + " |")


def simulated(curves: int = 1000) -> None:
    """Coverage and error on simulated curves, by the number of evaluations."""
    print("| evaluations | coverage | where it turns | where it does not | typical factor | false turns |")
    for count in (3, 5, 10, 30, 100, 1000):
        draw = random.Random(20_000 + count)
        made = [simulate(draw, count) for _ in range(curves)]
        runs = [Known("", one.curve, PLAN, one.horizon, one.horizon < PLAN) for one in made]
        parts = [runs, [run for run in runs if run.turns], [run for run in runs if not run.turns]]
        scores = [ours(part, lambda run: run.curve) for part in parts]
        held = " | ".join(f"{score.coverage:.3f}" for score in scores)
        print(f"| {count} | {held} | {scores[0].error:.2f} | {scores[0].false:.3f} |")


def picture(runs: Sequence[Known], folder: Path) -> None:
    """Error by share of the plan for every method, and the coverage of the interval."""
    clear = [run for run in runs if run.turns is not None]
    found = by_share(clear)
    shares = tuple(100 * share for share in SHARES)
    ticks = tuple((share, f"{share:.0f}") for share in shares)
    x = Axis("share of the plan that was trained, %", 15, 105, ticks)
    looks = (
        ("c0", "solid", "circle"),
        ("c1", "dashed", "square"),
        ("c2", "dotted", "triangle"),
        ("c3", "dashdot", "diamond"),
    )
    errors = tuple(
        Trace(name, shares, tuple(score.error for score in scores), color, dash, marker, group=name)  # type: ignore[arg-type]
        for (name, scores), (color, dash, marker) in zip(found.items(), looks, strict=True)
    )
    top = max(score.error for scores in found.values() for score in scores)
    groups = {"useful horizon": clear, "useful horizon, runs that turn": [run for run in clear if run.turns]}
    held = tuple(
        Trace(name, shares, _coverage(part), color, dash, marker, group=name)  # type: ignore[arg-type]
        for (name, part), (color, dash, marker) in zip(groups.items(), looks, strict=False)
    )
    charts = (
        Chart("Typical factor of error", x, number_axis("factor", 1, top), errors),
        Chart("Coverage of the 90 % interval", x, number_axis("horizons held, %", 50, 100), held),
    )
    caption = f"{len(clear)} held-out runs of the overfit study, cut at a share of their plan."
    plot.save_figure(Figure("horizon-test", "The useful horizon put to the test", caption, charts), folder, ("svg",))


def _coverage(runs: Sequence[Known]) -> tuple[float, ...]:
    return tuple(100 * (score.coverage or 0) for score in by_share(runs)["useful horizon"])


def _factor(pairs: Sequence[tuple[float, float]]) -> float:
    """exp of the mean absolute log ratio: 1 is exact, 2 is wrong by a factor of two."""
    return math.exp(fmean(abs(math.log(estimate / truth)) for estimate, truth in pairs))


def _centred(losses: Sequence[float], at: int) -> float:
    reach = min(2, at, len(losses) - 1 - at)
    return fmean(losses[at - reach : at + reach + 1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", help="the overfit study's folder, or the word simulated")
    parser.add_argument("--half", choices=("development", "heldout"), default="development")
    parser.add_argument("--picture", type=Path, help="a folder for the picture")
    wanted = parser.parse_args()
    if wanted.study == "simulated":
        return simulated()
    runs = known_runs(wanted.study, wanted.half)
    report(runs)
    if wanted.picture:
        picture(runs, wanted.picture)
    return None


if __name__ == "__main__":
    main()
