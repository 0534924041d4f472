"""What a log says about the next run: the horizon it had, how sure that is, and the beta that follows. Pure values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from oneclock import rule
from oneclock.advise.certainty import FEWEST, RunHorizon, run_horizon
from oneclock.horizon import effective_horizon, mean_best_loss
from oneclock.logs.read import LoggedRun


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
    run's beta is for, `choice` the rule's answer, None where it has none; `beta_low` and `beta_high` are its betas
    at the ends of the interval.
    """

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
    choice: rule.Choice | None
    beta_low: float | None
    beta_high: float | None
    used: Used | None
    doubts: tuple[str, ...]
    next: str


def advise(
    runs: Sequence[LoggedRun], unit: str = "steps", budget: float | None = None, next_steps: float | None = None
) -> Advice:
    """Advice from runs of one experiment, taken as its seeds; of runs at several betas the two best betas count.

    `budget` is the planned length (default: the log's own argument, else the longest curve) and sets the patience;
    `next_steps` is the planned length of the next run.

    >>> from oneclock.horizon import Curve
    >>> from oneclock.logs.arguments import Arguments
    >>> steps = range(500, 20_500, 500)
    >>> curve = Curve(steps, [abs(step - 10_000) / 10_000 + 1 for step in steps])
    >>> advice = advise([LoggedRun("a", curve, Arguments(beta1=0.9, beta2=0.999, max_steps=20_000))])
    >>> advice.stop, advice.best, advice.low, advice.high, round(advice.choice.beta, 4), advice.used.refreshes2
    (12000, 10000, 11500, 12000, 0.9167, 12.0)
    """
    if not runs:
        raise ValueError("advice needs at least one run")
    groups = _best_betas(runs)
    kept = [run for group in groups for run in group]
    length, budget_from = _budget(kept, unit, budget)
    found = tuple(run_horizon(run.name, run.curve, length) for run in kept)
    stop, best = _mean(groups, found, "stop"), _mean(groups, found, "best")
    if not stop > 0:
        raise ValueError("the curve ends at step 0: there is no horizon in it")
    ran_out = all(one.ran_out for one in found)
    low, high = _across([one.low for one in found], min), _across([one.high for one in found], max)
    horizon = _next_horizon(stop, ran_out, next_steps)
    choice = rule.choose(horizon) if unit == "steps" and horizon > rule.REFRESHES else None
    used = _used(kept, stop) if unit == "steps" else None
    advice = Advice(
        unit=unit,
        budget=length,
        budget_from=budget_from,
        patience=length / 10,
        runs=found,
        stop=stop,
        best=best,
        t_es=effective_horizon({index: [run.curve for run in group] for index, group in enumerate(groups)}, length),
        ran_out=ran_out,
        low=low,
        high=high,
        horizon=horizon,
        choice=choice,
        beta_low=_beta(low) if choice and next_steps is None else None,
        beta_high=_beta(high) if choice and next_steps is None else None,
        used=used,
        doubts=(),
        next="",
    )
    return replace(advice, doubts=tuple(_doubts(advice, runs, kept)), next=_next(advice, next_steps))


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
    if unit == "epochs":
        planned = [one.epochs for one in arguments]
    else:
        planned = [one.max_steps or (one.epochs or 0) * (one.steps_per_epoch or 0) for one in arguments]
    if unit != "evaluations" and (longest := max(steps or 0 for steps in planned)):
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


def _used(runs: Sequence[LoggedRun], stop: float) -> Used | None:
    pairs = {(run.arguments.beta1, run.arguments.beta2) for run in runs}
    beta1, beta2 = pairs.pop()
    if pairs or beta1 is None or beta2 is None:
        return None
    return Used(
        beta1,
        beta2,
        *(round(rule.memory_horizon(beta), 6) for beta in (beta1, beta2)),
        *(round(rule.refresh_count(beta, stop), 6) for beta in (beta1, beta2)),
    )


def _beta(horizon: float | None) -> float | None:
    return rule.refresh_beta(horizon) if horizon is not None and horizon > rule.REFRESHES else None


def _doubts(advice: Advice, runs: Sequence[LoggedRun], kept: Sequence[LoggedRun]) -> list[str]:
    doubts = list(advice.choice.notes) if advice.choice else []
    improving = [one for one in advice.runs if not one.ran_out]
    if improving:
        who = "the curve" if len(advice.runs) == 1 else f"{len(improving)} of {len(advice.runs)} curves"
        doubts.append(f"{who} still improved within the patience at the end: the horizon is at least {_n(advice.stop)}")
        if advice.horizon > advice.stop:
            doubts.append(f"whether the next run stays useful for all of {_n(advice.horizon)} is not in this log")
    elif advice.high is None and advice.low is not None:
        doubts.append("with this noise the curve may as well have gone on improving: the horizon has no upper bound")
    fewest = min(one.evaluations for one in advice.runs)
    if advice.low is None:
        doubts.append(f"only {fewest} evaluations: too few to tell noise from the curve ({FEWEST} are needed)")
    spacing = max(one.spacing for one in advice.runs)
    if advice.patience < spacing:
        doubts.append(
            f"the patience, {_n(advice.patience)}, is shorter than the {_n(spacing)} between evaluations: "
            "one evaluation without improvement ends the run"
        )
    if advice.budget_from == "the last evaluation":
        doubts.append(f"the budget is not in the log: its last evaluation, {_n(advice.budget)}, stands for it")
    longest = max(one.length for one in advice.runs)
    if longest > advice.budget:
        doubts.append(f"the log goes on to {_n(longest)}, beyond the budget of {_n(advice.budget)}")
    return doubts + _about_runs(advice, runs, kept)


def _about_runs(advice: Advice, runs: Sequence[LoggedRun], kept: Sequence[LoggedRun]) -> list[str]:
    doubts = []
    if len(runs) > 1:
        stops = [one.stop for one in advice.runs]
        spread = f"their stops lie from {_n(min(stops))} to {_n(max(stops))}"
        doubts.append(f"{len(runs)} runs are taken as seeds of one experiment; {spread}")
    if len(kept) < len(runs):
        doubts.append(f"of their betas the two with the lowest loss count: {len(kept)} runs")
    if len({run.arguments.max_steps for run in kept}) > 1:
        doubts.append("the runs were planned for different lengths: the longest counts as the budget")
    broken = sum(not math.isfinite(loss) for run in kept for loss in run.curve.losses)
    if broken:
        doubts.append(f"{broken} evaluations are not finite: the run may have diverged")
    optimizers = {run.arguments.optimizer for run in kept if run.arguments.optimizer}
    others = sorted(name for name in optimizers if "adam" not in name.lower())
    if others:
        doubts.append(f"the log names the optimizer {others[0]!r}, and the rule is about Adam")
    return doubts


def _next(advice: Advice, next_steps: float | None) -> str:
    """What to do, in one sentence."""
    if advice.unit == "epochs":
        return "Say how many optimizer steps one epoch has (--steps-per-epoch), and a beta follows."
    if advice.unit == "evaluations":
        return "Log the step beside each loss, or name its column (--step), and a beta follows."
    if advice.choice is None:
        return (
            f"Keep the betas you know: the rule needs more than {rule.REFRESHES:,} useful steps, "
            f"and this is {_n(advice.horizon)}."
        )
    use = f"BalancedAdamW(..., horizon={advice.horizon:_}), which is beta {advice.choice.beta:.5g}"
    if next_steps is not None and advice.ran_out and next_steps > advice.stop:
        return f"Use {use}: beyond {_n(advice.stop)} this run gained nothing, so the other planned steps do not count."
    if next_steps is not None:
        return f"Use {use}."
    if not advice.ran_out:
        return f"Train longer if you can, with that length as the horizon; for another run of this length use {use}."
    if advice.low is None:
        return f"Evaluate more often, at least every {_n(advice.patience / 2)} steps; until then use {use}."
    if advice.high is None:
        return f"Evaluate on more data or add seeds before you rely on it; until then use {use}."
    return f"Use {use}."


def _n(value: float) -> str:
    return f"{value:,.6g}" if not float(value).is_integer() else f"{int(value):,}"


def _tidy(value: float) -> float:
    value = round(float(value), 3)
    return int(value) if value.is_integer() else value
