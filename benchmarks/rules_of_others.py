"""Rules of others beside ours, on the paper's losses and on every committed study: mean and largest gap by split.

    python benchmarks/rules_of_others.py

Every rule meets the same sweeps at the swept beta nearest to its own (each beta at its own best rate where rates were
swept). A constant that a rule leaves open is chosen on the development experiments of the same study, by the smallest
mean gap, and so counts only on the held-out ones. `answered` are the experiments that the rule has a beta for: a token
half-life has none for images.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from oneclock.lab.experiments import Experiment, find
from oneclock.lab.experiments.published import PUBLISHED
from oneclock.lab.experiments.spec import Text
from oneclock.lab.paper.published import losses_study
from oneclock.lab.protocol import analyse_protocol
from oneclock.lab.protocol.analysis import ProtocolResult
from oneclock.lab.published_rules import BySteps, Training, TrainingRule, half_lives
from oneclock.lab.study_plans import STUDIES
from oneclock.rule import RECOMMENDED, Fixed, PiecewisePower, Power, Refresh, nearest_beta
from oneclock.stats import read

HERE = Path(__file__).resolve().parents[1] / "studies"
GIVEN: tuple[TrainingRule, ...] = tuple(
    map(
        BySteps,
        (RECOMMENDED, Refresh(), PiecewisePower(20_000, 0.5), PiecewisePower(6_000, 0.2), Fixed(0.9), Fixed(0.95)),
    )
)
OPEN: dict[str, tuple[TrainingRule, ...]] = {
    "square root of the steps": tuple(BySteps(Power(10 ** (-place / 16), 0.5)) for place in range(8, 41)),
    "constant token half-life": half_lives(),
}


Measured = tuple[ProtocolResult, Experiment]
"""What was measured, and of which experiment."""


def training_of(result: ProtocolResult, spec: Experiment) -> Training:
    batch = spec.batch_size * spec.accumulate
    tokens = batch * spec.data.length if isinstance(spec.data, Text) else None
    return Training(result.horizons.used, batch, tokens)


def gap_of(rule: TrainingRule, result: ProtocolResult, spec: Experiment) -> float | None:
    training = training_of(result, spec)
    try:
        beta = rule(training)
    except ValueError:
        return None
    return result.gaps[result.betas.index(nearest_beta(beta, list(result.betas)))]


def gaps_of(rule: TrainingRule, measured: Sequence[Measured]) -> list[float]:
    return [gap for result, spec in measured if (gap := gap_of(rule, result, spec)) is not None]


def mean(gaps: Sequence[float]) -> float:
    return math.fsum(gaps) / len(gaps) if gaps else math.inf


def rules(development: Sequence[Measured]) -> Iterator[tuple[str, TrainingRule]]:
    for rule in GIVEN:
        yield "recommended" if rule == BySteps(RECOMMENDED) else rule.name, rule
    for name, candidates in OPEN.items():
        best = min(candidates, key=lambda rule: mean(gaps_of(rule, development)))
        if gaps_of(best, development):
            yield f"{name}: {best.name}", best


def studies() -> Iterator[tuple[str, list[Measured]]]:
    """The paper's, then every committed study."""
    yield "the paper's eleven", list(zip(analyse_protocol(losses_study()).experiments, PUBLISHED, strict=True))
    for name in STUDIES:
        yield name, [(one, find(one.name)) for one in analyse_protocol(read(HERE / name)).experiments]


def main() -> None:
    for name, measured in studies():
        development = [one for one in measured if one[0].split == "development"]
        splits = {"development": development, "held-out": [one for one in measured if one not in development]}
        print(f"\n{name}\n{'':48}" + "".join(f"{split + ' mean, max %':>26}{'answered':>10}" for split in splits))
        for label, rule in rules(development or measured):
            cells = []
            for members in splits.values():
                gaps = gaps_of(rule, members)
                figures = f"{100 * mean(gaps):.2f}, {100 * max(gaps):.2f}" if gaps else "-"
                cells.append(f"{figures:>26}{f'{len(gaps)} of {len(members)}':>10}")
            print(f"{label:48}" + "".join(cells))


if __name__ == "__main__":
    main()
