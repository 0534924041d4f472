"""The useful horizon put to the test: on simulated curves, and on the runs of three studies, cut and thinned.

python scripts/horizon_test.py simulated
python scripts/horizon_test.py studies/overfit --half development    # --blind: the schedule is not told
python scripts/horizon_test.py studies/overfit --half heldout
python scripts/horizon_test.py studies/horizon                         # the fresh held-out half
python scripts/horizon_test.py studies/third --picture docs/images     # the third test: tables and picture
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

from oneclock.horizon import Curve, early_stop, useful_horizon
from oneclock.lab.simulated_curves import PLAN, simulate, slow_waves
from oneclock.lab.studies.curves import read_curves
from oneclock.lab.studies.turns import parts, turn
from oneclock.report import plot
from oneclock.report.chart import Axis, Chart, Figure, Trace, number_axis

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)
COUNTS = (3, 5, 10, 30, 64, 100, 1000)


@dataclass(frozen=True)
class Known:
    """A whole curve with its horizon in hindsight; `turns` is None where the study's own rule leaves it open."""

    name: str
    curve: Curve
    plan: float
    horizon: float
    turns: bool | None
    schedule: str | None = None
    near: float = 0.0
    """The horizon by the second yardstick, `lowest_nearby`."""
    source: str = ""
    told: bool = True
    """Whether the method is told the schedule."""


@dataclass(frozen=True)
class Score:
    """One method over many runs: its typical factor of error, and how often its interval held the horizon.

    `found` and `false` are the shares of turning and of other runs with a confirmed turn. `brier` is the mean squared
    error of the probability that a run stays useful to its end.
    """

    error: float
    coverage: float | None = None
    found: float | None = None
    false: float | None = None
    brier: float | None = None


def hindsight(curve: Curve, plan: float) -> tuple[float, bool | None]:
    """Where a whole curve was lowest, by means over five of 64 parts, and whether it turned by the studies' own rule.

    The rule was written down before the first run: `oneclock.lab.studies.turns.turn`.
    """
    losses, steps = parts(curve.losses), parts(curve.steps)
    turns = {"turn": True, "none": False, "unclear": None}[turn(losses)[0]]
    if turns is False:
        return plan, turns
    fives = [_centred(losses, at) for at in range(len(losses))]
    return steps[fives.index(min(fives))], turns


def lowest_nearby(curve: Curve) -> float:
    """Where a whole curve was lowest, by means over the evaluations within a tenth of the elapsed time on both sides.

    64 equal parts are too coarse for a turn in the first tenth of the plan. This yardstick was chosen after the fresh
    half had been looked at.
    """
    last = len(curve.losses) - 1
    reaches = [min((at + 1) // 10, at, last - at) for at in range(last + 1)]
    means = [fmean(curve.losses[at - reach : at + reach + 1]) for at, reach in enumerate(reaches)]
    return curve.steps[means.index(min(means))]


def by_second_yardstick(runs: Sequence[Known]) -> list[Known]:
    """The same runs with their other horizon in hindsight, where they turned."""
    return [replace(run, horizon=run.near) if run.turns is not False else run for run in runs]


def known_runs(study: str, half: str) -> list[Known]:
    """Every finished run of one half of the study."""
    runs = [
        run for run in read_curves(Path(study)) if run.key.split == half and all(map(math.isfinite, run.curve.losses))
    ]
    return [
        Known(
            run.key.folder,
            run.curve,
            run.key.budget,
            *hindsight(run.curve, run.key.budget),
            schedule=run.key.spec["schedule"]["kind"],
            near=lowest_nearby(run.curve),
            source=run.key.spec["data"]["source"],
        )
        for run in runs
    ]


def until(curve: Curve, steps: float) -> Curve:
    count = sum(step <= steps for step in curve.steps)
    return Curve(curve.steps[:count], curve.losses[:count])


def thinned(curve: Curve, count: int) -> Curve:
    places = [round((at + 1) * len(curve.steps) / count) - 1 for at in range(count)]
    return Curve([curve.steps[place] for place in places], [curve.losses[place] for place in places])


def ours(runs: Sequence[Known], cut: Callable[[Known], Curve]) -> Score:
    answers = [(useful_horizon(cut(run), run.plan, run.schedule if run.told else None), run) for run in runs]
    turning, staying = ([answer for answer, run in answers if run.turns is turns] for turns in (True, False))
    return Score(
        error=_factor([(answer.steps, run.horizon) for answer, run in answers]),
        coverage=fmean(answer.low <= run.horizon <= answer.high for answer, run in answers),
        found=fmean(answer.turned for answer in turning) if turning else None,
        false=fmean(answer.turned for answer in staying) if staying else None,
        brier=fmean((answer.stays - (run.horizon >= run.plan)) ** 2 for answer, run in answers),
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


def by_count(runs: Sequence[Known]) -> dict[int, float]:
    """The coverage of whole runs, thinned to so many evaluations, over the runs that have as many."""
    found = {}
    for count in COUNTS:
        dense = [run for run in runs if len(run.curve.steps) >= count]
        if dense:
            found[count] = ours(dense, lambda run, n=count: thinned(run.curve, n)).coverage or 0.0
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
        for label, name in (
            ("coverage", "coverage"),
            ("turns found", "found"),
            ("false turns", "false"),
            ("Brier score", "brier"),
        ):
            values = [getattr(score, name) for score in scores]
            print(f"| {label} | " + " | ".join("" if one is None else f"{one:.2f}" for one in values) + " |")
    print("\ncoverage of whole runs, thinned to so many evaluations")
    for label, chosen in (("clear runs", clear), ("that turn", turning), ("all runs", runs)):
        print(f"| {label} | " + " | ".join(f"{count}: {held:.2f}" for count, held in by_count(chosen).items()) + " |")
    for factor in ("schedule", "source"):
        for level in dict.fromkeys(getattr(run, factor) for run in clear):
            same = [run for run in clear if getattr(run, factor) == level]
            scores = [ours(same, lambda run, at=share: until(run.curve, at * run.plan)) for share in SHARES]
            names = ("coverage", "false turns", "factor", "Brier score")
            rows = [(one.coverage, one.false or 0.0, one.error, one.brier) for one in scores]
            for name, values in zip(names, zip(*rows, strict=True), strict=True):
                cells = " | ".join(f"{value:.3f}" if name == "Brier score" else f"{value:.2f}" for value in values)
                print(f"| {level} ({len(same)} runs): {name} | {cells} |")


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
    print("\nfalse turns where nothing turns, but many neighbours share their noise")
    for count in (20, 30, 64, 100, 300, 1000):
        draw = random.Random(count)
        print(f"| {count} | {fmean(useful_horizon(slow_waves(draw, count)).turned for _ in range(curves)):.3f} |")


def picture(runs: Sequence[Known], folder: Path) -> None:
    """Error by share of the plan for every method, and the coverage of the interval, by the second yardstick."""
    first = [run for run in runs if run.turns is not None]
    clear = by_second_yardstick(first)
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
    others = (("c4", "dashed", "square"), ("c5", "dotted", "triangle"))
    errors = tuple(
        Trace(name, shares, tuple(score.error for score in scores), color, dash, marker, group=name)  # type: ignore[arg-type]
        for (name, scores), (color, dash, marker) in zip(found.items(), looks, strict=True)
    )
    top = max(score.error for scores in found.values() for score in scores)
    groups = {
        "useful horizon": clear,
        "useful horizon, runs that turn": [run for run in clear if run.turns],
        "useful horizon, first yardstick": first,
    }
    held = tuple(
        Trace(name, shares, _coverage(part), color, dash, marker, group=name)  # type: ignore[arg-type]
        for (name, part), (color, dash, marker) in zip(groups.items(), (looks[0], *others), strict=True)
    )
    charts = (
        Chart("Typical factor of error", x, number_axis("factor", 1, 1.05 * top), errors),
        Chart("Coverage of the 90 % interval", x, number_axis("horizons held, %", 50, 100), held),
    )
    caption = f"{len(clear)} runs of the third test, cut at a share of their plan."
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
    parser.add_argument("study", help="the folder of the study overfit, horizon or third, or the word simulated")
    parser.add_argument("--half", choices=("development", "heldout"), default="heldout")
    parser.add_argument("--blind", action="store_true", help="do not tell the method the schedule")
    parser.add_argument("--picture", type=Path, help="a folder for the picture")
    wanted = parser.parse_args()
    if wanted.study == "simulated":
        return simulated()
    runs = [replace(run, told=not wanted.blind) for run in known_runs(wanted.study, wanted.half)]
    report(runs)
    print("\n\nby the second yardstick: the lowest mean within a tenth of the elapsed time")
    report(by_second_yardstick(runs))
    if wanted.picture:
        picture(runs, wanted.picture)
    return None


if __name__ == "__main__":
    main()
