"""What the callbacks say, whatever the framework: three figures while a run goes, and the advice when it ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from oneclock import rule
from oneclock.advice import advise
from oneclock.advice.words import in_brief
from oneclock.horizon import Curve
from oneclock.logs.arguments import Arguments
from oneclock.logs.read import LoggedRun


def figures(optimizer: Any, step: int) -> dict[str, float]:
    """beta, the memory horizon in steps, and the refreshes `step` steps make; empty where the betas are not tied.

    >>> import torch
    >>> from oneclock import BalancedAdamW
    >>> figures(BalancedAdamW([torch.nn.Parameter(torch.ones(3))], beta=0.75), step=100)
    {'beta': 0.75, 'memory_horizon': 4.0, 'refresh_count': 25.0}
    """
    betas = {beta for group in optimizer.param_groups for beta in group.get("betas", ())}
    if len(betas) != 1:
        return {}
    (beta,) = betas
    return {"beta": beta, "memory_horizon": rule.memory_horizon(beta), "refresh_count": (1 - beta) * step}


def advice(losses: Mapping[int, float], budget: float, beta: float | None) -> str:
    """What the run's own validation losses, by step, say about its useful time and the beta for the next one.

    `budget` is the planned length in steps and `beta` the one used, None where the betas were not tied.

    >>> losses = {step: abs(step - 10_000) / 10_000 + 1 for step in range(500, 20_500, 500)}
    >>> print(advice(losses, budget=20_000, beta=0.95))
    oneclock: useful for 12,000 of 20,000 steps (patience 2,000), best at 10,000
    used beta 0.95, 600 refreshes in that time
    Use BalancedAdamW(model.parameters(), lr=lr, horizon=12_000), which is beta 0.91667.
    """
    if not any(map(math.isfinite, losses.values())):
        return "oneclock: no advice, because no finite validation loss was seen; evaluate while training to get it"
    steps = sorted(losses)
    curve = Curve(steps, [losses[step] for step in steps])
    run = LoggedRun("this run", curve, Arguments(beta1=beta, beta2=beta, max_steps=budget))
    return f"oneclock: {in_brief(advise(run))}"
