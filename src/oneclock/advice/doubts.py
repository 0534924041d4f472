"""What speaks against an advice, a sentence each: the rule's evidence, the curve, the budget, the runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oneclock.advice.certainty import FEWEST
from oneclock.advice.words import plain
from oneclock.answers import choose, recommend
from oneclock.logs.read import LoggedRun
from oneclock.rule import CALIBRATED, RECOMMENDED, Refresh, Rule

if TYPE_CHECKING:
    from oneclock.advice.answer import Advice


def doubts(advice: Advice, rule: Rule, runs: Sequence[LoggedRun], kept: Sequence[LoggedRun]) -> list[str]:
    """All of them, the gravest first; `kept` are the runs that count of all `runs`."""
    return [
        *_about_rule(advice, rule),
        *_about_curve(advice),
        *_about_budget(advice),
        *_about_runs(advice, runs, kept),
    ]


def _about_rule(advice: Advice, rule: Rule) -> list[str]:
    """What `oneclock beta` says of the same rule and horizon."""
    if advice.unit != "steps":
        return []
    if advice.beta is None:
        return [
            f"{advice.rule} has no beta for {plain(advice.horizon)} steps; leave --rule and --refreshes out to get one"
        ]
    if isinstance(rule, Refresh):
        return list(choose(advice.horizon, rule.refreshes).notes)
    low, high = CALIBRATED
    if rule == RECOMMENDED and not low <= advice.horizon <= high:
        return [recommend(advice.horizon).sure]
    return []


def _about_curve(advice: Advice) -> list[str]:
    found = []
    improving = [one for one in advice.runs if not one.ran_out]
    if improving:
        who = "the curve" if len(advice.runs) == 1 else f"{len(improving)} of {len(advice.runs)} curves"
        least = plain(advice.stop)
        found.append(f"{who} still improved within the patience at the end: the horizon is at least {least}")
        if advice.horizon > advice.stop:
            found.append(f"whether the next run stays useful for all of {plain(advice.horizon)} is not in this log")
    elif advice.high is None and advice.low is not None:
        found.append("with this noise the curve may as well have gone on improving: the horizon has no upper bound")
    if advice.low is None:
        fewest = min(one.evaluations for one in advice.runs)
        found.append(f"only {fewest} evaluations: too few to tell noise from the curve ({FEWEST} are needed)")
    return found


def _about_budget(advice: Advice) -> list[str]:
    found = []
    spacing = max(one.spacing for one in advice.runs)
    if advice.patience < spacing:
        found.append(
            f"the patience, {plain(advice.patience)}, is shorter than the {plain(spacing)} between evaluations: "
            "one evaluation without improvement ends the run"
        )
    if advice.budget_from == "the last evaluation":
        found.append(f"the budget is not in the log: its last evaluation, {plain(advice.budget)}, stands for it")
    longest = max(one.length for one in advice.runs)
    if longest > advice.budget:
        found.append(f"the log goes on to {plain(longest)}, beyond the budget of {plain(advice.budget)}")
    return found


def _about_runs(advice: Advice, runs: Sequence[LoggedRun], kept: Sequence[LoggedRun]) -> list[str]:
    found = []
    if len(runs) > 1:
        stops = [one.stop for one in advice.runs]
        spread = f"their stops lie from {plain(min(stops))} to {plain(max(stops))}"
        found.append(f"{len(runs)} runs are taken as seeds of one experiment; {spread}")
    if len(kept) < len(runs):
        found.append(f"of their betas the two with the lowest loss count: {len(kept)} runs")
    if len({run.arguments.max_steps for run in kept}) > 1:
        found.append("the runs were planned for different lengths: the longest counts as the budget")
    broken = sum(not math.isfinite(loss) for run in kept for loss in run.curve.losses)
    if broken:
        found.append(f"{broken} evaluations are not finite: the run may have diverged")
    optimizers = {run.arguments.optimizer for run in kept if run.arguments.optimizer}
    others = sorted(name for name in optimizers if "adam" not in name.lower())
    if others:
        found.append(f"the log names the optimizer {others[0]!r}, and the rule is about Adam")
    return found
