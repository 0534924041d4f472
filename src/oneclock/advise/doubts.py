"""Reasons to doubt an advice, one sentence each: about the rule's evidence, the curve, the plan, the runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oneclock.advise.words import plain
from oneclock.logs.read import LoggedRun
from oneclock.recommend import recommend
from oneclock.rule import Rule

if TYPE_CHECKING:
    from oneclock.advise.answer import Advice

FEWEST = 8
"""Evaluations below which a turn can hardly be confirmed."""


def doubts(advice: Advice, rule: Rule, runs: Sequence[LoggedRun], kept: Sequence[LoggedRun]) -> list[str]:
    """All of them, the gravest first; `kept` are the runs that count of all `runs`."""
    return [
        *_about_rule(advice, rule),
        *_about_curve(advice),
        *_about_plan(advice),
        *_about_runs(advice, runs, kept),
    ]


def _about_rule(advice: Advice, rule: Rule) -> list[str]:
    """What `oneclock beta` says of the same rule and horizon."""
    if advice.unit != "steps":
        return []
    if advice.beta is None:
        return [f"the rule {advice.rule} has no beta for {plain(advice.horizon)} steps; leave --rule out"]
    return list(recommend(advice.horizon, rule).notes)


def _about_curve(advice: Advice) -> list[str]:
    sentences = []
    fewest = min(one.useful.evaluations for one in advice.runs)
    if not advice.turned and fewest < FEWEST:
        count = "1 evaluation" if fewest == 1 else f"{fewest} evaluations"
        sentences.append(f"only {count}, which can hardly confirm a turn; evaluate more often next time")
    elif not advice.turned and advice.finished and advice.low < advice.plan / 2:
        sentences.append(
            f"whether the loss turned is not clear: from {plain(advice.low)} on it changes less than its noise"
        )
    longest = max(one.useful.seen for one in advice.runs)
    if not advice.turned and advice.horizon > max(advice.plan, longest):
        sentences.append(f"whether the next run stays useful for all of {plain(advice.horizon)} is not in this log")
    return sentences


def _about_plan(advice: Advice) -> list[str]:
    sentences = []
    if advice.plan_from == "the last evaluation":
        sentences.append(
            f"the log does not name its plan: its last evaluation, {plain(advice.plan)}, stands for it; if it was "
            "longer, give the budget (--budget)"
        )
    longest = max(one.useful.seen for one in advice.runs)
    if longest > advice.plan:
        sentences.append(f"the log goes on to {plain(longest)}, beyond its plan of {plain(advice.plan)}")
    return sentences


def _about_runs(advice: Advice, runs: Sequence[LoggedRun], kept: Sequence[LoggedRun]) -> list[str]:
    sentences = []
    if len(runs) > 1:
        turned = [one.useful.steps for one in advice.runs if one.useful.turned]
        spread = _at(turned) if turned else ""
        sentences.append(
            f"{len(runs)} runs are taken as seeds of one experiment; {len(turned)} of {len(kept)} turned{spread}"
        )
    if len(kept) < len(runs):
        sentences.append(f"of their betas the two with the lowest loss count: {len(kept)} runs")
    if len({run.arguments.max_steps for run in kept}) > 1:
        sentences.append("the runs were planned for different lengths: the longest counts as the plan")
    if advice.diverged:
        sentences.append("a run diverged: nothing after its last finite loss counts")
    broken = sum(not math.isfinite(loss) for run in kept for loss in run.curve.losses)
    if broken:
        sentences.append(f"losses that are not finite: {broken}; the run may have diverged")
    optimizers = {run.arguments.optimizer for run in kept if run.arguments.optimizer}
    others = sorted(name for name in optimizers if "adam" not in name.lower())
    if others:
        sentences.append(f"the log names the optimizer {others[0]!r}, and the rule is about Adam")
    return sentences


def _at(turned: Sequence[float]) -> str:
    """Where the runs turned, one number if they turned at the same step."""
    first, last = plain(min(turned)), plain(max(turned))
    return f", at {first}" if first == last else f", between {first} and {last}"
