"""Figures of an analysis in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from oneclock.runs.paired import Interval
from oneclock.stats.rules import RuleComparison


def percent(gap: float) -> str:
    """A fraction as people read it, in up to three digits and two decimals.

    >>> percent(0.00885), percent(0.04662), percent(1.5), percent(0)
    ('0.89 %', '4.66 %', '150 %', '0 %')
    """
    return f"{_digits(gap)} %"


def interval_words(interval: Interval | None) -> str:
    """` (95 % CI 0.1 to 0.9 %)`, or nothing if there is none.

    >>> interval_words(Interval(-0.001, 0.009)), interval_words(None)
    (' (95 % CI -0.1 to 0.9 %)', '')
    """
    if interval is None:
        return ""
    return f" ({100 * interval.level:.3g} % CI {_digits(interval.lower)} to {percent(interval.upper)})"


def bounds_words(interval: Interval | None, form: str = ".2f", low: float = -math.inf, high: float = math.inf) -> str:
    """The CI of a value that lies between `low` and `high`: an end that reaches them is no bound.

    >>> bounds_words(Interval(0.33, 0.5)), bounds_words(Interval(0.33, math.inf))
    ('95 % CI 0.33 to 0.50', '95 % CI at least 0.33')
    """
    if interval is None:
        return ""
    ends = [format(end, form) if low < end < high else "" for end in (interval.lower, interval.upper)]
    if all(ends):
        between = " to ".join(ends)
    else:
        between = f"at least {ends[0]}" if ends[0] else f"at most {ends[1]}" if ends[1] else "has no bounds"
    return f"{100 * interval.level:.3g} % CI {between}"


def in_brackets(*words: str) -> str:
    """` (one; two)`, without what is empty."""
    kept = "; ".join(filter(None, words))
    return f" ({kept})" if kept else ""


def count_of(number: int, noun: str) -> str:
    """`1 experiment`, `3 experiments`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def comparison_words(comparisons: Sequence[RuleComparison], loss: str = "loss") -> Iterator[str]:
    """Each pair of rules in a sentence: the mean difference with its CI, and in how many experiments it is clear."""
    for one in comparisons:
        if not one.differing:
            same = "have the same beta in every experiment" if one.difference == 0 else "cannot be compared: one seed"
            yield f"{one.first} and {one.second} {same}."
            continue
        side = "above" if one.difference >= 0 else "below"
        tied = "" if one.significant else "; statistically tied"
        counts = f"significantly worse in {one.worse} of {one.differing} experiments, better in {one.better}"
        ends = f"{one.first} ends {percent(abs(one.difference))} {side} {one.second} in {loss}"
        yield f"{ends}{interval_words(one.interval)}{tied}; {counts}."


def _digits(share: float) -> str:
    value = 100 * share
    return f"{value:.0f}" if abs(value) >= 99.95 else f"{round(value, 2) + 0.0:.3g}"
