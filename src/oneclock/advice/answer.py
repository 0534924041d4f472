"""What a log says about the next run: the horizon it had, how sure that is, and the beta that follows. Pure values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from oneclock.advice import words
from oneclock.advice.certainty import RunHorizon, run_horizon
from oneclock.advice.doubts import doubts
from oneclock.horizon import effective_horizon, mean_best_loss
from oneclock.logs.read import Log, LoggedRun, read_log
from oneclock.rule import RECOMMENDED, Refresh, Rule, chosen_rule, memory_horizon, refresh_count

Source = Log | LoggedRun | str | Path
"""A log, the path of one, or a single run, its curve in steps."""


@dataclass(frozen=True)
class Used:
    """The betas a run was trained with, and what they meant over its horizon: memories in steps, refresh counts."""

    beta1: float
    beta2: float
    memory1: float
    memory2: float
    refreshes1: float
    refreshes2: float


@dataclass(frozen=True)
class Advice:
    """The horizon of a log's runs (`stop`, `best`, `t_es` as in the paper), and what follows from it.

    `low` to `high` is where the stop may lie: None where that is open or cannot be told. `horizon` is what the next
    run's beta is for, `beta` the answer of `rule`, None where it has none or the log does not count steps; `beta_low`
    and `beta_high` are its betas at the ends of the interval. `paper_beta` is what the paper's own rule says, which
    has no answer up to 1,000 steps. Printed, or shown in a notebook, it reads as `oneclock advise` prints it.
    """

    logs: tuple[Log, ...]
    unit: str
    budget: float
    budget_from: str
    patience: float
    runs: tuple[RunHorizon, ...]
    stop: float
    best: float
    t_es: float
    ran_out: bool
    low: float | None
    high: float | None
    horizon: float
    rule: str
    beta: float | None
    beta_low: float | None
    beta_high: float | None
    paper_beta: float | None
    used: Used | None
    lr: float | None
    doubts: tuple[str, ...] = ()
    next: str = ""

    def __str__(self) -> str:
        return words.in_full(self)

    def _repr_html_(self) -> str:
        return words.as_html(self)


def advise(
    source: Source | Sequence[Source],
    *,
    budget: float | None = None,
    next_steps: float | None = None,
    rule: Rule | str | None = None,
    refreshes: float | None = None,
    metric: str | None = None,
    step: str | None = None,
    steps_per_epoch: float | None = None,
    tokens_per_step: float | None = None,
    columns: Sequence[str] | None = None,
) -> Advice:
    """What a log, or several of one experiment, say about the next run.

    Args:
        source: A log, its path, a run, or several of them. Several are taken as seeds of one experiment; where they
            name different betas, the two betas with the lowest loss count.
        budget: The planned length, which sets the patience; by default the log's own, else the last evaluation.
        next_steps: The planned length of the next run.
        rule: As `oneclock.beta_for` takes it: "recommended" (the default), "paper" or another rule.
        refreshes: The paper's rule with another refresh count.
        metric, step, steps_per_epoch, tokens_per_step, columns: As `read_log` takes them, for paths.

    Returns:
        The horizon with its interval, the beta, the doubts, and in `next` one sentence on what to do.

    Raises:
        FileNotFoundError, ValueError: A log cannot be read, an argument makes no sense, or the logs count different
            things.

    >>> from oneclock.horizon import Curve
    >>> from oneclock.logs.arguments import Arguments
    >>> steps = range(500, 20_500, 500)
    >>> curve = Curve(steps, [abs(step - 10_000) / 10_000 + 1 for step in steps])
    >>> advice = advise(LoggedRun("a", curve, Arguments(beta1=0.9, beta2=0.999, max_steps=20_000)))
    >>> advice.stop, advice.best, advice.low, advice.high, round(advice.beta, 4), advice.used.refreshes2
    (12000, 10000, 11500, 12000, 0.9167, 12.0)
    """
    sources = [source] if isinstance(source, Source) else list(source)
    logs = tuple(
        read_log(
            one,
            metric,
            step,
            steps_per_epoch=steps_per_epoch,
            tokens_per_step=tokens_per_step,
            columns=columns,
        )
        if isinstance(one, str | Path)
        else one
        for one in sources
        if not isinstance(one, LoggedRun)
    )
    bare = [one for one in sources if isinstance(one, LoggedRun)]
    units = sorted({log.unit for log in logs} | ({"steps"} if bare else set()))
    if len(units) > 1:
        raise ValueError(f"the logs count different things, {' and '.join(units)}; give --steps-per-epoch or --step")
    runs = [run for log in logs for run in log.runs] + bare
    if not runs:
        raise ValueError("advice needs at least one run")
    return _advice(runs, logs, units[0], budget, next_steps, chosen_rule(rule, refreshes))


def _advice(
    runs: Sequence[LoggedRun],
    logs: tuple[Log, ...],
    unit: str,
    budget: float | None,
    next_steps: float | None,
    rule: Rule,
) -> Advice:
    groups = _best_betas(runs)
    kept = [run for group in groups for run in group]
    length, budget_from = _budget(kept, unit, budget)
    found = tuple(run_horizon(run.name, run.curve, length) for run in kept)
    stop, ran_out = _mean(groups, found, "stop"), all(one.ran_out for one in found)
    if not stop > 0:
        raise ValueError("the curve ends at step 0: there is no horizon in it")
    low, high = _across([one.low for one in found], min), _across([one.high for one in found], max)
    horizon = _next_horizon(stop, ran_out, next_steps)
    ends = (low, high) if next_steps is None else (None, None)
    beta, beta_low, beta_high = (_beta(rule, unit, steps) for steps in (horizon, *ends))
    advice = Advice(
        logs=logs,
        unit=unit,
        budget=length,
        budget_from=budget_from,
        patience=length / 10,
        runs=found,
        stop=stop,
        best=_mean(groups, found, "best"),
        t_es=effective_horizon({index: [run.curve for run in group] for index, group in enumerate(groups)}, length),
        ran_out=ran_out,
        low=low,
        high=high,
        horizon=horizon,
        rule="the recommendation" if rule == RECOMMENDED else "the paper's rule" if rule == Refresh() else rule.name,
        beta=beta,
        beta_low=beta_low,
        beta_high=beta_high,
        paper_beta=_beta(Refresh(), unit, horizon),
        used=_used(kept, unit, stop),
        lr=_agreed([run.arguments.lr for run in kept]),
    )
    advice = replace(advice, doubts=tuple(doubts(advice, rule, runs, kept)))
    return replace(advice, next=words.next_sentence(advice, rule, next_steps))


def _best_betas(runs: Sequence[LoggedRun]) -> list[list[LoggedRun]]:
    """Runs by their betas: the two groups with the lowest L(beta), or all together where fewer betas are known."""
    groups: dict[tuple[float | None, float | None], list[LoggedRun]] = {}
    for run in runs:
        groups.setdefault((run.arguments.beta1, run.arguments.beta2), []).append(run)
    if len(groups) < 2 or (None, None) in groups:
        return [list(runs)]
    return sorted(groups.values(), key=lambda group: mean_best_loss([run.curve for run in group]))[:2]


def _budget(runs: Sequence[LoggedRun], unit: str, given: float | None) -> tuple[float, str]:
    if given is not None:
        return _tidy(given), "given"
    arguments = [run.arguments for run in runs]
    planned: list[float | None] = []
    if unit == "epochs":
        planned = [one.epochs for one in arguments]
    elif unit == "steps":
        planned = [one.max_steps or (one.epochs or 0) * (one.steps_per_epoch or 0) for one in arguments]
    if longest := max((steps or 0 for steps in planned), default=0):
        return _tidy(longest), "the log's arguments"
    return max(run.curve.steps[-1] for run in runs), "the last evaluation"


def _mean(groups: Sequence[Sequence[LoggedRun]], found: Sequence[RunHorizon], name: str) -> float:
    values = iter([float(getattr(one, name)) for one in found])
    means = [math.fsum(next(values) for _ in group) / len(group) for group in groups]
    return _tidy(math.fsum(means) / len(means))


def _across(ends: Sequence[float | None], outermost: Callable[[list[float]], float]) -> float | None:
    known = [end for end in ends if end is not None]
    return outermost(known) if len(known) == len(ends) else None


def _next_horizon(stop: float, ran_out: bool, next_steps: float | None) -> float:
    """How long the next run stays useful: no longer than planned, nor than this one did if its curve showed an end."""
    if next_steps is None:
        return stop
    if not (math.isfinite(next_steps) and next_steps > 0):
        raise ValueError(f"the next run's steps must be a number above 0, got {next_steps!r}")
    return _tidy(float(min(next_steps, stop) if ran_out else next_steps))


def _used(runs: Sequence[LoggedRun], unit: str, stop: float) -> Used | None:
    beta1, beta2 = _agreed([run.arguments.beta1 for run in runs]), _agreed([run.arguments.beta2 for run in runs])
    if beta1 is None or beta2 is None or unit != "steps":
        return None
    return Used(
        beta1,
        beta2,
        *(round(memory_horizon(beta), 6) for beta in (beta1, beta2)),
        *(round(refresh_count(beta, stop), 6) for beta in (beta1, beta2)),
    )


def _agreed(values: Sequence[float | None]) -> float | None:
    return values[0] if len(set(values)) == 1 else None


def _beta(rule: Rule, unit: str, horizon: float | None) -> float | None:
    """The rule's beta for a horizon in steps, None where it has none for so short a time."""
    if horizon is None or not horizon > 0 or unit != "steps":
        return None
    try:
        return rule(horizon)
    except ValueError:
        return None


def _tidy(value: float) -> float:
    value = round(float(value), 3)
    return int(value) if value.is_integer() else value
