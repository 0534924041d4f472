"""Excess loss over the law, paired by seed: per condition, and over the tasks of one length by random effects.

Every pair of betas is compared at its own best learning rate. In a condition the loss in percent of the law's mean is
beta + seed + noise; the noise is pooled over all betas. A condition with one seed uses the noise of another condition,
which the study's page names. Intervals are simultaneous over the candidates (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from oneclock.lab.studies.designs import law
from oneclock.runs.folder import runs_of

LEVEL = 0.95
LAW, GROWING = "law", "growing"
NOISE_OF = {
    "size": "size-llama-24-4000",
    "batch": "batch-llama-512-4000",
    "long-llama": "long-llama-64000",
    "long-gpt2": "long-gpt2-64000",
}
"""Start of the name of a condition with one seed -> the condition whose noise it uses."""

Noise = tuple[float, int]
"""Standard deviation of the noise in percent, and its degrees of freedom."""

Losses = Mapping[str, Mapping[float, Mapping[int, float]]]
"""Of one condition: betas -> learning rate -> seed -> loss."""


@dataclass(frozen=True)
class CandidateExcess:
    """How much worse than the law one candidate is, in percent, with its interval; negative means better."""

    condition: str
    betas: str
    lr: float
    at_edge: bool
    """Whether the best learning rate is the smallest or largest of those tried."""
    seeds: int
    percent: float
    error: float
    """Standard error, NaN if a condition has one seed and no other condition's noise counts."""
    low: float
    high: float
    borrowed: bool = False
    """Whether the noise is that of another condition."""


@dataclass(frozen=True)
class Pooled:
    """The random-effects mean over the tasks of one length."""

    steps: int
    betas: str
    tasks: int
    percent: float
    low: float
    high: float


def read_losses(study: Path) -> dict[str, tuple[int, Losses]]:
    """Condition -> its steps and its losses; a diverged run has an infinite loss."""
    conditions: dict[str, tuple[int, dict[str, dict[float, dict[int, float]]]]] = {}
    for run in runs_of(study):
        one, result = run.key, run.result
        if result is None:
            continue
        name = one.experiment.removesuffix("-growing")
        betas = GROWING if name != one.experiment else label(one.beta, one.budget)
        by_rate = conditions.setdefault(name, (one.budget, {}))[1].setdefault(betas, {})
        by_rate.setdefault(float(one.learning_rate or 0), {})[one.seed] = result.loss
    return conditions  # type: ignore[return-value]


def label(beta: float | tuple[float, float], steps: int) -> str:
    """A name for a pair of betas that is the same at every length.

    >>> label(0.90035, 4_000), label((0.90035, 0.999), 4_000), label(0.95, 4_000)
    ('law', '(law, 0.999)', 'tied 0.95')
    """
    if isinstance(beta, float):
        return LAW if beta == law(steps) else f"tied {beta:.3g}"
    return f"({LAW if beta[0] == law(steps) else format(beta[0], '.3g')}, {beta[1]:g})"


def best_rate(by_rate: Mapping[float, Mapping[int, float]]) -> tuple[float, bool]:
    """The learning rate with the lowest mean loss, and whether it is at the edge of those tried."""
    most = max(map(len, by_rate.values()))
    means = {lr: sum(seeds.values()) / len(seeds) for lr, seeds in by_rate.items() if len(seeds) == most}
    best = min(means, key=lambda lr: means[lr])
    return best, len(by_rate) > 1 and best in (min(by_rate), max(by_rate))


def excesses(condition: str, losses: Losses, noise: Noise | None = None) -> list[CandidateExcess]:
    """Every candidate of a condition against the law, each at its best learning rate.

    `noise` is used if the condition has one seed.
    """
    if LAW not in losses:
        return []
    rates = {betas: best_rate(by_rate) for betas, by_rate in losses.items()}
    table = _percent(losses, rates)
    seeds = len(table[LAW])
    borrowed = seeds == 1 and noise is not None
    deviation, freedom = noise if borrowed and noise else pooled_noise(_finite(table))
    error = deviation * math.sqrt(2 / seeds)
    width = error * _quantile(len(table) - 1, freedom)
    results = []
    for betas, row in table.items():
        if betas != LAW:
            percent = float((row - table[LAW]).mean())
            interval = (percent - width, percent + width)
            results.append(CandidateExcess(condition, betas, *rates[betas], seeds, percent, error, *interval, borrowed))
    return results


def noise_of(losses: Losses) -> Noise:
    """The noise of a condition, for other conditions that have one seed."""
    rates = {betas: best_rate(by_rate) for betas, by_rate in losses.items()}
    return pooled_noise(_finite(_percent(losses, rates)))


def _percent(losses: Losses, rates: Mapping[str, tuple[float, bool]]) -> dict[str, np.ndarray]:
    """Betas -> losses at their best learning rate by seed, in percent of the law's mean."""
    chosen = {betas: losses[betas][lr] for betas, (lr, _) in rates.items()}
    seeds = sorted(set.intersection(*(set(one) for one in chosen.values())))
    mean = sum(chosen[LAW][seed] for seed in seeds) / len(seeds)
    return {betas: np.array([100 * one[seed] / mean for seed in seeds]) for betas, one in chosen.items()}


def _finite(table: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    return [row for row in table.values() if np.isfinite(row).all()]


def best_tied(candidates: Sequence[CandidateExcess]) -> str:
    """The tied beta of a condition with the lowest loss, the law's included; `growing` is left out, since its beta
    changes.

    >>> best_tied([])
    'law'
    """
    tied = {one.betas: one.percent for one in candidates if one.betas.startswith("tied")} | {LAW: 0.0}
    return min(tied, key=lambda betas: tied[betas])


def pooled_noise(rows: Sequence[np.ndarray]) -> tuple[float, int]:
    """Standard deviation of the noise, and its degrees of freedom; NaN with one seed."""
    table = np.array(rows)
    freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
    if freedom == 0:
        return math.nan, 0
    left = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
    return float(np.sqrt((left**2).sum() / freedom)), freedom


def mean_over_tasks(
    values: Sequence[float], errors: Sequence[float], candidates: int = 1
) -> tuple[float, float, float]:
    """Mean over tasks and its interval: DerSimonian and Laird, with the larger of its error and Hartung and Knapp's.

    >>> [round(one, 2) for one in mean_over_tasks([1.0, 1.0, 1.0], [0.1, 0.1, 0.1])]
    [1.0, 0.75, 1.25]
    """
    y, v = np.array(values), np.array(errors) ** 2
    w = 1 / v
    fixed = (w * y).sum() / w.sum()
    spread = (w * (y - fixed) ** 2).sum() - (len(y) - 1)
    tau2 = max(0.0, spread / (w.sum() - (w**2).sum() / w.sum())) if len(y) > 1 else 0.0
    w = 1 / (v + tau2)
    mean = float((w * y).sum() / w.sum())
    plain = 1 / w.sum()
    knapp = (w * (y - mean) ** 2).sum() / (len(y) - 1) / w.sum() if len(y) > 1 else 0.0
    width = math.sqrt(max(plain, knapp)) * _quantile(candidates, len(y) - 1)
    return mean, mean - width, mean + width


def pool_by_length(excesses: Iterable[tuple[int, CandidateExcess]]) -> list[Pooled]:
    """Random effects over all conditions of one length that have a standard error, candidate by candidate."""
    groups: dict[tuple[int, str], list[CandidateExcess]] = {}
    for steps, one in excesses:
        if math.isfinite(one.error) and math.isfinite(one.percent) and not one.borrowed:
            groups.setdefault((steps, one.betas), []).append(one)
    results = []
    for (steps, betas), group in sorted(groups.items()):
        count = len({other for length, other in groups if length == steps})
        if len(group) > 1:
            numbers = mean_over_tasks([one.percent for one in group], [one.error for one in group], count)
            results.append(Pooled(steps, betas, len(group), *numbers))
    return results


def of_study(study: Path) -> list[tuple[str, int, list[CandidateExcess]]]:
    """Every condition of a study, the shortest first: its name, its steps, and what every candidate loses in it."""
    conditions = sorted(read_losses(study).items(), key=lambda item: (item[1][0], item[0]))
    lenders = {name: noise_of(losses) for name, (_, losses) in conditions if name in NOISE_OF.values()}
    return [(name, steps, excesses(name, losses, lenders.get(_lender(name)))) for name, (steps, losses) in conditions]


def _lender(condition: str) -> str:
    return next((lender for begin, lender in NOISE_OF.items() if condition.startswith(begin)), "")


def across(studies: Iterable[Path]) -> list[Pooled]:
    """All conditions of several studies, one effect per task: conditions of one model and text are one task.

    This was not written down before the runs. Candidates of fewer than three tasks are left out.
    """
    groups: dict[str, dict[str, list[CandidateExcess]]] = {}
    for study in studies:
        for name, _, of_it in of_study(study):
            for one in of_it:
                if math.isfinite(one.error) and math.isfinite(one.percent):
                    groups.setdefault(one.betas, {}).setdefault(task(name), []).append(one)
    enough = {betas: tasks for betas, tasks in sorted(groups.items()) if len(tasks) > 2}
    results = []
    for betas, tasks in enough.items():
        means, errors = [], []
        for own in tasks.values():
            weights = np.array([one.error**-2 for one in own])
            means.append(float((weights * [one.percent for one in own]).sum() / weights.sum()))
            errors.append(float(weights.sum() ** -0.5))
        results.append(Pooled(0, betas, len(tasks), *mean_over_tasks(means, errors, len(enough))))
    return results


def task(condition: str) -> str:
    """The model and its text, without study, size and length.

    >>> task("size-llama-192-4000"), task("finetune-gpt2-lora-300")
    ('llama', 'finetune-gpt2-lora')
    """
    words = [word for word in condition.split("-") if not word.isdigit()]
    return "-".join(words if words[0] == "finetune" else words[1:])


def report_across(studies: Iterable[Path]) -> str:
    """The combined result of all studies, as text."""
    lines = [f"{_numbers(one)} of {one.tasks} tasks" for one in across(studies)]
    return "\n".join(["Excess loss over the law in all studies, %; random effects over tasks", *lines])


def held_out(study: Path) -> set[str]:
    """The conditions of a study that were added as a test, after others had been read."""
    return {run.key.experiment.removesuffix("-growing") for run in runs_of(study) if run.key.split == "heldout"}


def report(study: Path) -> str:
    """All tables as text. Held-out tasks are pooled once with the others and once alone."""
    conditions, tests = of_study(study), held_out(study)
    effects = [(steps, one) for _, steps, of_it in conditions for one in of_it]
    best = [f"{name:32} {best_tied(of_it)}" for name, _, of_it in conditions if of_it]
    return "\n".join(
        [
            "Excess loss over the law, %, each at its own best learning rate (* at the edge of those tried)",
            *(_line(one) for _, one in effects),
            "Best tied beta",
            *best,
            "Random effects over tasks, %",
            *_means(effects),
            *(["Held-out tasks alone"] * bool(tests)),
            *_means([(steps, one) for steps, one in effects if one.condition in tests]),
        ]
    )


def _means(effects: Sequence[tuple[int, CandidateExcess]]) -> list[str]:
    return [f"{one.steps:8,} {_numbers(one)} of {one.tasks} tasks" for one in pool_by_length(effects)]


def _line(one: CandidateExcess) -> str:
    return f"{one.condition:32} {_numbers(one)} lr {one.lr:g}{'*' if one.at_edge else ''}"


def _numbers(one: CandidateExcess | Pooled) -> str:
    interval = f"({one.low:+.2f} to {one.high:+.2f})" if math.isfinite(one.low) else "(one seed)"
    lent = " noise of another condition" if isinstance(one, CandidateExcess) and one.borrowed else ""
    return f"{one.betas:14} {one.percent:+7.2f} {interval:20}{lent}"


def _quantile(candidates: int, freedom: int) -> float:
    """Student's t for one of several two-sided intervals that hold together."""
    return float(stats.t.ppf(1 - (1 - LEVEL) / 2 / max(1, candidates), freedom)) if freedom else math.nan
