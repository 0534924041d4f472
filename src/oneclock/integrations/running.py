"""What the callbacks say, whatever the framework: three figures while a run goes, and the advice when it ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from oneclock import rule
from oneclock.horizon import Curve, early_stop


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


def advice(losses: Mapping[int, float], budget: float | None, beta: float | None) -> str:
    """What the run's own validation losses, by step, say about its useful time and the beta for the next one.

    `budget` is the planned length in steps (default: the last evaluation), `beta` the one used, where there was one.

    >>> print(advice({1000: 3.0, 2000: 2.0, 3000: 2.5, 4000: 2.6}, budget=4000, beta=0.75))
    oneclock: training was useful for 3,000 steps, by early stopping (best loss 2 at step 2,000; evaluated 4 times)
    the beta of the rule for 3,000 steps is 0.666667; 0.75 was used, 750 refreshes in that time
    """
    if not any(map(math.isfinite, losses.values())):
        return "oneclock: no advice, because no finite validation loss was seen; evaluate while training to get it"
    steps = sorted(losses)
    stop = early_stop(Curve(steps, [losses[step] for step in steps]), budget)
    if stop.ran_out:
        useful = f"training was useful for {stop.stop:,} steps, by early stopping"
    else:
        useful = f"training was still useful at {stop.stop:,} steps, its last evaluation: the horizon may be longer"
    best = f"best loss {losses[int(stop.best)]:.4g} at step {stop.best:,}; evaluated {len(steps)} times"
    used = "" if beta is None else f"; {beta:g} was used, {(1 - beta) * stop.stop:,.0f} refreshes in that time"
    try:
        answer = f"the beta of the rule for {stop.stop:,} steps is {rule.refresh_beta(stop.stop):.6g}"
    except ValueError as error:
        answer = f"the rule has no answer for it: {error}"
    return f"oneclock: {useful} ({best})\n{answer}{used}"
