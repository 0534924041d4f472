"""The answer in words: the best measured beta, how sure it is, and what to type next."""

from __future__ import annotations

import math
from collections.abc import Iterator

from oneclock.recommend import short_beta
from oneclock.runs.best import beta_list, next_step
from oneclock.runs.paired import Interval
from oneclock.stats.analyse import Analysis
from oneclock.stats.experiments import ExperimentResult, RuleCost
from oneclock.stats.verdict import bounds_words, count_of, in_brackets, interval_words, percent


def above(excess: float, interval: Interval | None = None, what: str = "the best") -> str:
    """How far a loss lies above another one, with its CI.

    >>> above(0.012), above(-0.003, Interval(-0.01, 0.004))
    ('1.2 % above the best', '0.3 % below the best (95 % CI -1 to 0.4 %)')
    """
    side = "above" if excess >= 0 else "below"
    return f"{percent(abs(excess))} {side} {what}{interval_words(interval)}"


def answer(result: ExperimentResult) -> list[str]:
    """The answer of one experiment, a line each; the first is the best beta, or why there is none."""
    names = {"recommended": "Recommended", "paper": "The paper's rule"}
    steps = f"for {result.steps:,g} steps"
    costs = [f"{names.get(rule.name, rule.name)} {steps}: {_cost(rule, result)}." for rule in result.rules]
    return [best(result), *_fitted(result), *_beside(result), *costs, f"Next: {next_step(result.best)}"]


def best(result: ExperimentResult) -> str:
    """The best beta with its learning rate where several were swept, its 95 % CI and its loss."""
    summary = result.best.summary
    sentence = summary[0].upper() + summary[1:]
    if result.best.beta is None:
        return f"{sentence}."
    point = next(point for point in result.points if point.beta == result.best.beta)
    return f"{sentence}. Loss {point.loss:.4g}, {count_of(point.seeds, 'seed')}."


def _fitted(result: ExperimentResult) -> Iterator[str]:
    """The lowest point of the fitted quadratic where learning rates were swept and the losses determine one."""
    surface = result.surface
    if surface is None or surface.beta is None or surface.lr is None:
        return
    outside = {True: "", False: "outside what was swept"}
    beta = in_brackets(bounds_words(surface.beta_interval, ".3g", 0, 1), outside[surface.beta_inside])
    lr = in_brackets(bounds_words(surface.lr_interval, ".3g", 0), outside[surface.lr_inside])
    minimum = f"beta {surface.beta:.3g}{beta} and lr {surface.lr:.3g}{lr}"
    yield f"A quadratic through the losses around the lowest pair has its minimum at {minimum}."


def _beside(result: ExperimentResult) -> Iterator[str]:
    """The baselines, if they ran: how their losses compare with the recommended beta's."""
    for one in result.baselines:
        lr = "" if one.lr is None else f" at lr {one.lr:g}"
        which = "the recommended " if one.is_recommended else "" if result.best.beta is None else "the best "
        against = f"{which}beta {short_beta(one.against)}"
        if not math.isfinite(one.excess):
            yield f"{one.name}{lr} diverged or has no result."
            continue
        tied = "; statistically tied" if one.interval is not None and 0 in one.interval else ""
        yield f"{one.name}{lr} ends {above(one.excess, one.interval, against)}{tied}."


def _cost(rule: RuleCost, result: ExperimentResult) -> str:
    """What a rule would have cost: in words where it was not measured, or where there is no best beta."""
    if rule.beta is None:
        return "no beta"
    beta = f"beta {short_beta(rule.beta)}"
    if rule.excess is None:
        return f"{beta}, not measured (no result near it)"
    if not math.isfinite(rule.excess):
        at = [point.beta for point in result.points if not math.isfinite(point.loss) and point.beta in rule.neighbours]
        return f"{beta}, not known: a run diverged at {beta_list(at)}"
    if result.best.beta is None:
        finite = sum(math.isfinite(point.loss) for point in result.points)
        return f"{beta}, with nothing to compare it with" if finite == 1 else f"{beta}, the same loss as the others"
    if rule.excess == 0:
        return f"{beta}, the best"
    if percent(rule.excess) == percent(0):
        return f"{beta}, as good as the best"
    near = f", interpolated between {beta_list(rule.neighbours)}" if len(rule.neighbours) > 1 else ""
    return f"{beta}{near}, {above(rule.excess, rule.interval)}"


def over_all(analysis: Analysis) -> Iterator[str]:
    """What the recommended beta loses over several experiments, where it was measured."""
    row = analysis.recommended
    if row.mean is not None and row.max is not None:
        yield (
            f"Recommended beta: {percent(row.mean)} above the best on average, {percent(row.max)} at most, "
            f"over {row.measured} of {len(analysis.experiments)} experiments."
        )
