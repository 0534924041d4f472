"""What a log says about the next run: how long training was useful, how sure that is, and the beta that follows."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from oneclock.advise import runs as judged
from oneclock.advise import words
from oneclock.advise.runs import Source, rounded
from oneclock.logs.read import Log, LoggedRun
from oneclock.recommend import recommend
from oneclock.rule import Rule, memory_horizon, refresh_count, resolve_rule


@dataclass(frozen=True)
class Used:
    """The betas a run was trained with, and what they meant over its horizon: memories in steps, refresh counts."""

    beta1: float
    beta2: float
    memory1: float
    memory2: float
    refreshes1: float
    refreshes2: float


@dataclass(frozen=True, repr=False)
class Advice:
    """How long a log's runs were useful, and the beta that follows. Printed, it reads as `oneclock advise` prints it.

    `useful` is the useful horizon in the log's unit, with the 90 % interval `low` to `high`: where the validation loss
    turned, if `turned`, else the plan. Where a run `diverged`, only what came before counts. `finished` says that the
    runs reached their plan; `stays` is the probability that they stay useful to its end, `turn` where they most likely
    turn otherwise. `paper` is the paper's early stop, and `schedule` the learning rate over the plan, if it is known.

    `horizon` is what the next run's beta is for, and `beta` the answer of `rule`: None if it has none, or where the
    log does not count steps. `beta_low` and `beta_high` are its betas at the ends of the interval. `paper_beta` is that
    of the paper's rule, which has none up to 1,000 steps. `next` is the line to paste, or what to do first.
    """

    logs: tuple[Log, ...]
    unit: str
    plan: float
    plan_from: str
    runs: tuple[judged.RunHorizon, ...]
    useful: float
    low: float
    high: float
    turned: bool
    diverged: bool
    finished: bool
    stays: float
    turn: float
    best_step: float
    best_loss: float
    paper: judged.PaperStop
    horizon: float
    rule: str
    beta: float | None
    beta_low: float | None
    beta_high: float | None
    paper_beta: float | None
    used: Used | None
    lr: float | None
    schedule: str | None = None
    doubts: tuple[str, ...] = ()
    next: str = ""

    def __repr__(self) -> str:
        return words.in_full(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def advise(
    source: Source | Sequence[Source],
    *,
    budget: float | None = None,
    schedule: str | None = None,
    next_steps: float | None = None,
    rule: Rule | str | None = None,
    metric: str | None = None,
    step: str | None = None,
    steps_per_epoch: float | None = None,
    tokens_per_step: float | None = None,
    columns: Sequence[str] | None = None,
    higher_is_better: bool | None = None,
) -> Advice:
    """What a log, or several of one experiment, say about the next run.

    Args:
        source: A log, its path, a table (a DataFrame or a mapping of columns), a run, or several of them: then seeds of
            one experiment. Where they name different betas, the two with the lowest loss are used.
        budget: The planned length; by default the log's own, else the last evaluation.
        schedule: The learning rate over the plan: "constant", "cosine", "linear" or "wsd"; by default a guess from the
            learning rates in the log.
        next_steps: The planned length of the next run.
        rule: As `oneclock.recommend` takes it: "recommended" (the default), "paper" or another rule.
        metric, step, steps_per_epoch, tokens_per_step, columns, higher_is_better: As `read_log` takes them.

    Returns:
        The useful horizon with its interval, the beta, the doubts, and in `next` the line to paste.

    Raises:
        FileNotFoundError, ValueError: A log cannot be read, an argument makes no sense, or the logs differ in kind.

    >>> steps = [*range(500, 20_500, 500)]
    >>> advice = advise({"step": steps, "val_loss": [abs(step - 10_000) / 10_000 + 1 for step in steps]})
    >>> advice.turned, advice.useful, advice.low, advice.high, round(advice.beta, 3)
    (True, 9980, 9640, 10300, 0.935)
    """
    logs, whole, unit = judged.read_sources(
        source,
        metric=metric,
        step=step,
        steps_per_epoch=steps_per_epoch,
        tokens_per_step=tokens_per_step,
        columns=columns,
        higher_is_better=higher_is_better,
    )
    rule, runs = resolve_rule(rule), [*map(judged.until_divergence, whole)]
    diverged = runs != whole
    if diverged and budget is not None:  # a run that diverged did not reach its plan
        budget = min(budget, max(run.curve.steps[-1] for run in runs))
    groups = judged.two_best_betas(runs)
    kept = [run for group in groups for run in group]
    plan, plan_from = judged.plan_of(kept, unit, budget)
    horizons = tuple(judged.run_horizon(run, plan, schedule) for run in kept)
    found = [run.useful for run in horizons]
    useful, turned = rounded(fmean(one.steps for one in found)), all(one.turned for one in found)
    low, high = min(one.low for one in found), max(one.high for one in found)
    horizon = _next_horizon(useful, turned, next_steps)
    ends = (low, high) if next_steps is None else (horizon, horizon)
    beta, beta_low, beta_high = (_beta(rule, unit, steps) for steps in (horizon, *ends))
    _, best = min(zip(kept, horizons, strict=True), key=lambda pair: pair[0].curve.best_loss)
    advice = Advice(
        logs=logs,
        unit=unit,
        plan=plan,
        plan_from=plan_from,
        runs=horizons,
        useful=useful,
        low=low,
        high=high,
        turned=turned,
        diverged=diverged,
        finished=all(one.finished for one in found),
        stays=fmean(one.stays for one in found),
        turn=rounded(fmean(one.turn for one in found)),
        best_step=best.best_step,
        best_loss=best.best_loss,
        paper=judged.paper_stop(groups, plan),
        horizon=horizon,
        rule=recommend(1e9, rule).rule,
        beta=beta,
        beta_low=beta_low,
        beta_high=beta_high,
        paper_beta=_beta("paper", unit, horizon),
        used=_used(kept, unit, useful),
        lr=_agreed([run.arguments.lr for run in kept]),
        schedule=_agreed([run.schedule for run in horizons]),
    )
    advice = replace(advice, doubts=tuple(words.doubts(advice, rule, runs, kept)))
    return replace(advice, next=words.next_line(advice, rule))


def _next_horizon(useful: float, turned: bool, next_steps: float | None) -> float:
    """How long the next run stays useful: no longer than planned, nor than this one did if its loss turned."""
    if next_steps is None:
        return useful
    if not 0 < next_steps < math.inf:
        raise ValueError(f"the next run's steps must be a number above 0, got {next_steps!r}")
    return rounded(min(next_steps, useful) if turned else next_steps)


def _used(runs: Sequence[LoggedRun], unit: str, useful: float) -> Used | None:
    betas = _agreed([run.arguments.beta1 for run in runs]), _agreed([run.arguments.beta2 for run in runs])
    if None in betas or unit != "steps":
        return None
    memories = [round(memory_horizon(beta), 6) for beta in betas]
    return Used(*betas, *memories, *(round(refresh_count(beta, useful), 6) for beta in betas))


def _agreed(values: Sequence[Any]) -> Any:
    return values[0] if len(set(values)) == 1 else None


def _beta(rule: Rule | str, unit: str, horizon: float) -> float | None:
    """The rule's beta for a horizon in steps, None if it has none."""
    if not horizon > 0 or unit != "steps":
        return None
    try:
        return recommend(horizon, rule).beta
    except ValueError:
        return None
