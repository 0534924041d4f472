"""The answer for a horizon, with how far to trust it: what is recommended, or the paper's own rule. Pure Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from oneclock.gains import Gain, gains, gains_near
from oneclock.rule import (
    CALIBRATED,
    RECOMMENDED,
    REFRESHES,
    SHORT_REFRESHES,
    Rule,
    chosen_rule,
    nearest_beta,
    positive,
    refresh_beta,
    stability_interval,
    tidy,
)


@dataclass(frozen=True)
class Recommendation:
    """The one answer for a horizon: beta by `rule`, what it means there, the paper's beside it, and how sure it is.

    `paper_beta` is None where the paper's rule has none; `sure` is a sentence; `measured` is what the recommendation
    was found to be worth at about this length, empty where nothing was measured or another rule was asked for.
    """

    horizon: float
    rule: str
    beta: float
    memory_horizon: float
    refreshes: float
    paper_beta: float | None
    sure: str
    measured: tuple[Gain, ...] = ()


def recommend(horizon: float, rule: Rule | str | None = None, refreshes: float | None = None) -> Recommendation:
    """The beta for a training that is useful for `horizon` steps, and how far to trust it; words as in `beta_for`.

    Args:
        horizon: The useful training time in optimizer steps, from one on.
        rule: As in `beta_for`.
        refreshes: As in `beta_for`.

    Returns:
        The answer with its memory, its refreshes, the paper's beta beside it, and a sentence on how sure it is.

    Raises:
        ValueError: As in `beta_for`.

    >>> answer = recommend(1_200)
    >>> round(answer.beta, 4), round(answer.memory_horizon, 4), round(answer.paper_beta, 4)
    (0.77, 4.3487, 0.1667)
    """
    horizon, chosen = tidy(positive(horizon, "horizon")), chosen_rule(rule, refreshes)
    beta, rate = chosen(horizon), chosen.rate(horizon)
    return Recommendation(
        horizon=horizon,
        rule=chosen.name,
        beta=beta,
        memory_horizon=1 / rate,
        refreshes=rate * horizon,
        paper_beta=refresh_beta(horizon) if horizon > REFRESHES else None,
        sure=_sure(horizon, chosen),
        measured=gains_near(horizon) if chosen == RECOMMENDED else (),
    )


def _sure(horizon: float, chosen: Rule) -> str:
    low, high = CALIBRATED
    if chosen != RECOMMENDED:
        return "a rule of your choice"
    if horizon < low:
        lost = _lost([gain for gain in gains() if gain.steps < low])
        return (
            f"our studies' choice below {low:,} steps: {lost}, and more with others; sweep if you can "
            "(oneclock sweep --protocol adaptive)"
        )
    if horizon > high:
        known = [gain for gain in gains() if gain.steps > high]
        lost = f"; {_lost(known)}" if known else ""
        return f"the paper's rule, beyond the {high:,} steps that its evidence covers: here it extrapolates{lost}"
    return f"the paper's rule, within the {low:,} to {high:,} steps that its evidence covers"


def _lost(known: Sequence[Gain]) -> str:
    """What the recommendation lost where it was measured."""
    trials, shortest, longest = sum(gain.trials for gain in known), known[0].steps, known[-1].steps
    mean = math.fsum(gain.trials * gain.each for gain in known) / trials
    lost = f"{100 * mean:.1f} %" + (
        "" if trials == 1 else f" on average and {100 * max(g.largest for g in known):.1f} % at most"
    )
    span = f"{shortest:,} steps" if shortest == longest else f"{shortest:,} to {longest:,} steps"
    tried = f"one trial of {span}" if trials == 1 else f"{trials} trials of {span}"
    return f"it lost {lost} to the best tied beta, in {tried} with tuned learning rates"


def digits(beta: float) -> str:
    """A beta with four digits of 1 - beta, which is what counts: one near 1 never reads as 1.

    >>> digits(0.95), digits(1 - 1 / 6), digits(1 - 1e-7)
    ('0.95', '0.8333', '0.9999999')
    """
    places = 4 if beta < 0.9 else 3 - math.floor(math.log10(1 - beta))
    return f"{beta:.{places}f}".rstrip("0").rstrip(".")


@dataclass(frozen=True)
class Choice:
    """The refresh rule's answer for one horizon, with its interval and its doubts.

    `stable_from` and `stable_to` are whole steps, None where the grid is open-ended.
    """

    horizon: float
    refreshes: float
    beta: float
    memory_horizon: float
    grid_beta: float
    stable_from: int | None
    stable_to: int | None
    calibrated: bool
    notes: tuple[str, ...]


def choose(horizon: float, refreshes: float = REFRESHES) -> Choice:
    """The beta for a useful training time of `horizon` steps, and how far to trust it.

    Args:
        horizon: The useful training time in optimizer steps.
        refreshes: R0, 1000 in the paper.

    Returns:
        The paper's answer: beta, its place on the grid, the horizons with the same one, and notes of doubt.

    Raises:
        ValueError: Where the horizon does not exceed the refreshes.

    >>> answer = choose(20_000)
    >>> answer.beta, answer.grid_beta, answer.stable_from, answer.stable_to, answer.calibrated
    (0.95, 0.94377, 12802, 22766, True)
    """
    horizon, refreshes = tidy(horizon), tidy(refreshes)
    beta = refresh_beta(horizon, refreshes)
    grid_beta = nearest_beta(beta)
    lower, upper = stability_interval(grid_beta, refreshes)
    low, high = CALIBRATED
    inside = low <= horizon <= high
    notes = []
    if not inside:
        side = f"below {low:,}" if horizon < low else f"above {high:,}"
        notes.append(
            f"{horizon:,} steps lie {side}: the evidence behind the rule covers {low:,} to {high:,} steps, "
            "and here it extrapolates"
        )
    if horizon < low and refreshes == REFRESHES:
        shorter = refresh_beta(horizon, SHORT_REFRESHES)
        notes.append(
            f"in eleven small models, most of them this short, {SHORT_REFRESHES} refreshes did better (here beta "
            f"{shorter:.3g}; --refreshes {SHORT_REFRESHES}), and a fixed 0.9 about as well"
        )
    if refreshes != REFRESHES:
        notes.append(f"{refreshes:,} refreshes is your choice; the paper's is {REFRESHES}")
    return Choice(
        horizon=horizon,
        refreshes=refreshes,
        beta=beta,
        memory_horizon=horizon / refreshes,
        grid_beta=grid_beta,
        stable_from=round(lower) if lower > 0 else None,
        stable_to=round(upper) if upper < math.inf else None,
        calibrated=inside and refreshes == REFRESHES,
        notes=tuple(notes),
    )
