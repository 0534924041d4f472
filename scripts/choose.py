"""The recommendation, picked by the rules that docs/joint.md and docs/short.md wrote down before their first runs.

    python scripts/choose.py

Prints, for every candidate: whether it has a beta for every horizon, how it does on the paper's own losses against the
paper's rule, its gaps on the part that chooses and on the part that only tests; then what the rule picks, and what the
test part says of that; what the short study makes of it; what both studies say together, which was not written down
beforehand; and last what the brief study makes of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fresh_seeds import BRIEF_STUDY, FLAT_AT, JOINED_AT, SHORT_STUDY, USUAL, difference, in_brief, pooled
from gains import joint_sweeps
from scipy import stats

from oneclock.analysis.analyse import ground_of
from oneclock.analysis.arena import Ground, compare
from oneclock.analysis.horizons import horizons_of
from oneclock.analysis.values import Comparison, RuleRow
from oneclock.experiments import short
from oneclock.paper.published import losses_study
from oneclock.rule import CALIBRATED, Bent, Power, Refresh, Rule, nearest_beta, refresh_beta, rule_from
from oneclock.study.best import at_best_rates, between
from oneclock.study.sweeps import Sweep
from oneclock.study.table import read

CANDIDATES = {
    "paper": "paper",
    "300": "refresh:300",
    "fixed 0.9": "power:0.1,0",
    "fixed 0.944": "power:0.05623,0",
    "power": "power:0.0443,0.625",
    "root": "bent:20000,0.5",
    "joined": "bent:6000,0.2",
    "flat": "bent:6000,0",
}
"""A fixed beta as a power of zero: like every other rule it then counts at the swept beta nearest to its own."""

RELATIVES = ("short-llama-bible", "short-gpt2-python", "short-vit-mnist")
"""Experiments of the short study that are small relatives of the joint study's tasks."""

HORIZONS = tuple(round(10 ** (place / 10)) for place in range(61))


def ground(sweeps: Sequence[Sweep]) -> Ground:
    """Every beta at its own best rate, and the horizon that the rules see: T_ES, or the budget of a whole run."""
    tuned = [at_best_rates(sweep) for sweep in sweeps]
    return ground_of(tuned, [horizons_of(sweep) for sweep in tuned])


def everywhere(rule: Rule) -> bool:
    """Whether it has a beta for every horizon from one step on."""
    try:
        return all(0 <= rule(horizon) < 1 for horizon in HORIZONS)
    except ValueError:
        return False


def departure(rule: Rule) -> float:
    """The largest departure from the paper's rule within its evidence, as |log of the memories' ratio|."""
    low, high = CALIBRATED
    inside = [low * (high / low) ** (place / 50) for place in range(51)]
    return max(abs(math.log((1 - rule(horizon)) / (1 - refresh_beta(horizon)))) for horizon in inside)


def numbers_in(rule: Rule) -> int:
    """How many numbers it takes beside the paper's 1000: with an exponent of zero there is one."""
    if isinstance(rule, Bent | Power):
        return 1 if rule.alpha == 0 else 2
    return 0 if rule == Refresh() else 1


def not_worse(found: Sequence[Comparison]) -> bool:
    """Whether the differences in mean and largest gap hold zero or lie below it."""
    return all(
        one.interval is None or one.interval.lower <= 0 or one.difference <= 0
        for one in found
        if one.figure in ("mean", "max")
    )


def words(row: RuleRow, split: str) -> str:
    risk = getattr(row, split)
    if risk is None:
        return "none"
    part = "" if risk.answered == risk.experiments else f" ({risk.answered} of {risk.experiments})"
    return f"{100 * risk.mean.value:.2f}, {100 * risk.max.value:.2f}{part}"


def told(one: Comparison) -> str:
    span = "" if one.interval is None else f" ({100 * one.interval.lower:.2f} to {100 * one.interval.upper:.2f})"
    return f"{100 * one.difference:+.2f} %{span}" + (", told apart" if one.told_apart else "")


def mean_difference(where: Ground, one: Rule, two: Rule, split: str) -> Comparison | None:
    found = compare(where, where.row(one), where.row(two), split)
    return next((row for row in found if row.figure == "mean"), None)


def choose(study: Ground, paper: Ground) -> list[str]:
    """The names that the written rule leaves, the chosen one first."""
    rules = {name: rule_from(text) for name, text in CANDIDATES.items()}
    allowed = [
        name
        for name, rule in rules.items()
        if everywhere(rule) and not_worse(compare(paper, paper.row(rule), paper.row(Refresh()), "all"))
    ]
    means = {name: study.row(rules[name]).development for name in allowed}
    ranked = sorted((name for name in allowed if means[name]), key=lambda name: means[name].mean.value)  # type: ignore[union-attr]
    first = ranked[0]
    equal = [first]
    for name in ranked[1:]:
        difference = mean_difference(study, rules[name], rules[first], "development")
        if difference is None or not difference.told_apart:
            equal.append(name)
    return sorted(equal, key=lambda name: (round(departure(rules[name]), 9), numbers_in(rules[name]), name != first))


def decided(sweeps: Sequence[Sweep], before: str) -> str:
    """What the short study makes of a choice: `joined` if its fresh seeds have 0.684 better than 0.822, told apart."""
    found = pooled([difference(sweep, JOINED_AT, FLAT_AT) for sweep in sweeps])
    return "joined" if before == "flat" and found.interval.upper < 0 else before


def decided_in_brief(sweeps: Sequence[Sweep], before: str) -> str:
    """What the brief study makes of a choice: `joined` if that is better at 150 steps, by an interval of 99 %."""
    found = pooled(in_brief(sweeps), level=0.99)
    return "joined" if before == "flat" and found.interval.upper < 0 else before


def together(joint: Sequence[Sweep], brief: Sequence[Sweep]) -> list[tuple[float, float]]:
    """By how many per cent `joined` ends above `flat`, and the standard error, wherever the two differ; seeds in pairs.

    All seeds of both studies count: nobody wrote this figure down beforehand, and it decides nothing.
    """
    one, two = (rule_from(CANDIDATES[name]) for name in ("joined", "flat"))
    effects = []
    for sweep in map(at_best_rates, [*joint, *brief]):
        ours, theirs = (nearest_beta(rule(horizons_of(sweep).used), sweep.betas) for rule in (one, two))
        if ours != theirs:
            away, error = between(sweep, ours, theirs)
            effects.append((100 * away, 100 * error))
    return effects


def tell_short(path: Path, before: str) -> None:
    every = read(path).sweeps
    first = [replace(one, tied=tuple(t for t in one.tied if t.seed not in short.FRESH)) for one in every]
    for part, chosen in {"": first, ", without the relatives": [s for s in first if s.name not in RELATIVES]}.items():
        where = ground(chosen)
        print(f"\nshort study, seeds 1 to 4{part}, mean and largest gap in %:")
        for name in ("joined", "flat", "fixed 0.9"):
            row = where.row(rule_from(CANDIDATES[name]))
            one = mean_difference(where, rule_from(CANDIDATES[name]), rule_from(CANDIDATES["flat"]), "all")
            print(
                f"  {name:<12}{words(row, 'all')}" + ("" if one is None or name == "flat" else f", to flat {told(one)}")
            )
    print("\nshort study, seeds 1 to 4, 0.684 against 0.822 in %, 95 % interval:")
    half = float(stats.t.ppf(0.975, len(short.SEEDS) - 1))
    for sweep in map(at_best_rates, first):
        mean, error = difference(sweep, JOINED_AT, FLAT_AT, short.SEEDS)
        print(f"{sweep.name:<28}{mean:>+11.2f} ({mean - half * error:.2f} to {mean + half * error:.2f})")
    print("\nshort study, fresh seeds, % above 0.822, standard error:")
    rivals = {"0.684": JOINED_AT, "0.9": (0.9, None), "(0.9, 0.999)": USUAL}
    print(f"{'':<28}" + "".join(f"{name:>18}" for name in rivals))
    for sweep in every:
        cells = (difference(sweep, rival, FLAT_AT) for rival in rivals.values())
        print(f"{sweep.name:<28}" + "".join(f"{mean:>+11.2f}{error:>7.2f}" for mean, error in cells))
    for name, rival in rivals.items():
        found = pooled([difference(sweep, rival, FLAT_AT) for sweep in every])
        print(f"pooled, {name}: {found.mean:+.2f} % ({found.interval.lower:.2f} to {found.interval.upper:.2f})")
    print(f"\nafter it: {decided(every, before)}")


def tell_brief(before: str) -> None:
    sweeps = read(BRIEF_STUDY).sweeps
    print("\nbrief study, fresh seeds, joined against flat in %, standard error:")
    for sweep, (mean, error) in zip(sweeps, in_brief(sweeps), strict=True):
        print(f"{sweep.name:<28}{mean:>+11.2f}{error:>7.2f}")
    found = pooled(in_brief(sweeps), level=0.99)
    print(f"pooled: {found.mean:+.2f} % (99 %: {found.interval.lower:.2f} to {found.interval.upper:.2f})")
    print(f"\nrecommended: {decided_in_brief(sweeps, before)}")


def tell_together(joint: Sequence[Sweep]) -> None:
    effects = together(joint, read(SHORT_STUDY).sweeps)
    found = pooled(effects)
    span = f"{found.interval.lower:.2f} to {found.interval.upper:.2f}"
    print(f"both studies, all seeds, joined against flat in {len(effects)} experiments: {found.mean:+.2f} % ({span})")


def main() -> None:
    sweeps = joint_sweeps()
    study, paper = ground(sweeps), ground(losses_study().sweeps)
    heads = ("every length", "paper's losses", "against the paper's rule, mean; largest", "chooses", "tests")
    print(f"{'':<12}{heads[0]:>13}{heads[1]:>16}{heads[2]:>58}{heads[3]:>22}{heads[4]:>22}   (mean, largest gap in %)")
    for name, text in CANDIDATES.items():
        rule = rule_from(text)
        against = compare(paper, paper.row(rule), paper.row(Refresh()), "all")
        beside = "; ".join(told(one) for one in against if one.figure in ("mean", "max"))
        columns = (words(paper.row(rule), "all"), beside, words(study.row(rule), "development"))
        print(
            f"{name:<12}{'yes' if everywhere(rule) else 'no':>13}{columns[0]:>16}{columns[1]:>58}{columns[2]:>22}"
            f"{words(study.row(rule), 'heldout'):>22}"
        )
    left = choose(study, paper)
    chosen = rule_from(CANDIDATES[left[0]])
    print(f"\nnot told apart on the part that chooses: {', '.join(left)}\npicked: {left[0]} ({CANDIDATES[left[0]]})")
    for name, text in CANDIDATES.items():
        one = mean_difference(study, rule_from(text), chosen, "heldout") if name != left[0] else None
        if one is not None:
            print(f"on the test part, {name} against it: {told(one)}")
    tell_short(SHORT_STUDY, left[0])
    tell_together(sweeps)
    tell_brief(decided(read(SHORT_STUDY).sweeps, left[0]))


if __name__ == "__main__":
    main()
