"""What the callbacks of all frameworks share: figures during a run, and the advice at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from oneclock import rule
from oneclock.advise import advise
from oneclock.advise.words import in_brief, plain
from oneclock.horizon import Curve, useful_horizon
from oneclock.logs.arguments import Arguments
from oneclock.logs.read import LoggedRun


def beta_figures(optimizer: Any, step: int) -> dict[str, float]:
    """beta, the memory horizon in steps, and the refreshes `step` steps make; empty if the betas are not tied.

    If some parameter groups have their own beta, the figures are those of the other groups.

    >>> import torch
    >>> from oneclock import BalancedAdamW
    >>> beta_figures(BalancedAdamW([torch.nn.Parameter(torch.ones(3))], beta=0.75), step=100)
    {'beta': 0.75, 'memory_horizon': 4.0, 'refresh_count': 25.0}
    """
    groups = [group for group in optimizer.param_groups if not group.get("own_beta")] or optimizer.param_groups
    betas = {beta for group in groups for beta in group.get("betas", ())}
    if len(betas) != 1:
        return {}
    (beta,) = betas
    return {"beta": beta, "memory_horizon": rule.memory_horizon(beta), "refresh_count": (1 - beta) * step}


def learning_rate(optimizer: Any) -> float:
    """The learning rate of the first parameter group now."""
    return float(optimizer.param_groups[0]["lr"])


class TurnWatch:
    """Watches the validation losses during a run, and prints one line once they have turned.

    >>> watch = TurnWatch()
    >>> losses = {step: abs(step - 4_000) / 10_000 + 1 for step in range(500, 8_500, 500)}
    >>> watch.look({step: loss for step, loss in losses.items() if step <= 4_000}, plan=20_000)
    >>> watch.look(losses, plan=20_000)
    oneclock: the validation loss turned near step 3,940 (90 % interval 3,540 to 4,350); the plan is 20,000 steps
    >>> watch.look(losses, plan=20_000)
    """

    def __init__(self) -> None:
        self.said = False

    def look(self, losses: Mapping[int, float], plan: float, schedule: str | None = None) -> None:
        """Print the line, the first time that later evaluations confirm a turn."""
        curve = None if self.said else _curve(losses)
        if curve is None or not (useful := useful_horizon(curve, plan, schedule)).turned:
            return
        self.said = True
        print(
            f"oneclock: the validation loss turned near step {plain(useful.steps)} "
            f"(90 % interval {plain(useful.low)} to {plain(useful.high)}); the plan is {plain(plan)} steps"
        )


def advice(losses: Mapping[int, float], budget: float, beta: float | None, schedule: str | None = None) -> str:
    """What the run's own validation losses, by step, say about its useful time and the beta for the next one.

    `budget` is the planned length in steps, `beta` the one used, None if the betas were not tied, and `schedule` the
    learning rate over the plan, None if it is not known.

    >>> losses = {step: abs(step - 10_000) / 10_000 + 1 for step in range(500, 20_500, 500)}
    >>> print(advice(losses, budget=20_000, beta=0.95))
    oneclock: Useful for 9,980 of 20,000 steps (90 % interval 9,640 to 10,300).
    Beta 0.935 for the next run; 0.933 to 0.935 across the interval.
    BalancedAdamW(model.parameters(), lr=..., horizon=9_980)
    """
    curve = _curve(losses)
    if curve is None:
        return "oneclock: no advice, because no finite validation loss was seen; evaluate while training to get it"
    run = LoggedRun("this run", curve, Arguments(beta1=beta, beta2=beta, max_steps=budget))
    return f"oneclock: {in_brief(advise(run, schedule=schedule))}"


def _curve(losses: Mapping[int, float]) -> Curve | None:
    steps = [step for step in sorted(losses) if step > 0]
    return (
        Curve(steps, [losses[step] for step in steps]) if any(math.isfinite(losses[step]) for step in steps) else None
    )
