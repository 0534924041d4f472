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
    return [*_about_rule(advice, rule), *_about_curve(advice), *_about_runs(advice, runs, kept)]


def _about_rule(advice: Advice, rule: Rule) -> list[str]:
    """What `oneclock beta` says of the same rule and horizon."""
    if advice.unit != "steps":
        return []
    if advice.beta is None:
        return [f"the rule {advice.rule} has no beta for {plain(advice.horizon)} steps; leave --rule out"]
    return list(recommend(advice.horizon, rule).notes)


def _about_curve(advice: Advice) -> list[str]:
    low, plan, longest = plain(advice.low), plain(advice.plan), max(one.useful.seen for one in advice.runs)
    fewest = min(one.useful.evaluations for one in advice.runs)
    count = "1 evaluation" if fewest == 1 else f"{fewest} evaluations"
    few = not advice.turned and fewest < FEWEST
    flat = not advice.turned and not few and advice.finished and advice.low < advice.plan / 2
    beyond = not advice.turned and advice.horizon > max(advice.plan, longest)
    return _holding(
        (few, f"only {count}, which can hardly confirm a turn; evaluate more often next time"),
        (flat, f"whether the loss turned is not clear: from {low} on it changes less than its noise"),
        (beyond, f"whether the next run stays useful for all of {plain(advice.horizon)} is not in this log"),
        (
            advice.plan_from == "the last evaluation",
            f"the log does not name its plan: its last evaluation, {plan}, stands for it; if it was longer, give the "
            "budget (--budget)",
        ),
        (longest > advice.plan, f"the log goes on to {plain(longest)}, beyond its plan of {plan}"),
    )


def _about_runs(advice: Advice, runs: Sequence[LoggedRun], kept: Sequence[LoggedRun]) -> list[str]:
    turned = [one.useful.steps for one in advice.runs if one.useful.turned]
    places = f", at {' to '.join(dict.fromkeys(map(plain, (min(turned), max(turned)))))}" if turned else ""
    count = f"{len(turned)} of {len(kept)} turned{places}"
    broken = sum(not math.isfinite(loss) for run in kept for loss in run.curve.losses)
    optimizers = {run.arguments.optimizer for run in kept if run.arguments.optimizer}
    others = sorted(name for name in optimizers if "adam" not in name.lower())
    plans = {run.arguments.max_steps for run in kept}
    return _holding(
        (len(runs) > 1, f"{len(runs)} runs are taken as seeds of one experiment; {count}"),
        (len(kept) < len(runs), f"of their betas the two with the lowest loss count: {len(kept)} runs"),
        (len(plans) > 1, "the runs were planned for different lengths: the longest counts as the plan"),
        (advice.diverged, "a run diverged: nothing after its last finite loss counts"),
        (broken > 0, f"losses that are not finite: {broken}; the run may have diverged"),
        (bool(others), f"the log names the optimizer {next(iter(others), '')!r}, and the rule is about Adam"),
    )


def _holding(*doubts: tuple[bool, str]) -> list[str]:
    return [sentence for holds, sentence in doubts if holds]
