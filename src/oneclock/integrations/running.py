"""What the callbacks of all frameworks share: figures during a run, and the advice at its end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from oneclock import rule
from oneclock.advise import advise
from oneclock.advise.words import in_brief, plain
from oneclock.horizon import Curve, useful_horizon


def beta_figures(optimizer: Any, step: int) -> dict[str, float]:
    """beta, the memory horizon in steps, and the refreshes `step` steps make; empty if the betas are not tied."""
    # Groups with a beta of their own count only if all have one.
    groups = [group for group in optimizer.param_groups if not group.get("own_beta")] or optimizer.param_groups
    betas = {beta for group in groups for beta in group.get("betas", ())}
    if len(betas) != 1:
        return {}
    (beta,) = betas
    return {"beta": beta, "memory_horizon": rule.memory_horizon(beta), "refresh_count": (1 - beta) * step}


class TurnWatch:
    """Watches the validation losses, by step, of a run of `plan` steps, and says what they mean for its useful time."""

    def __init__(self) -> None:
        self.said = False

    def look(self, losses: Mapping[int, float], plan: float, schedule: str | None = None) -> None:
        """Print one line, the first time that later evaluations confirm a turn."""
        curve = None if self.said else _curve(losses)
        if curve is None or not (useful := useful_horizon(curve, plan, schedule)).turned:
            return
        self.said = True
        print(
            f"oneclock: the validation loss turned near step {plain(useful.steps)} "
            f"(90 % interval {plain(useful.low)} to {plain(useful.high)}); the plan is {plain(plan)} steps"
        )

    def advise(self, losses: Mapping[int, float], plan: float, schedule: str | None = None) -> None:
        """Print the advice, at the end of the run."""
        if (curve := _curve(losses)) is None:
            print("oneclock: no advice, because no finite validation loss was seen; evaluate while training to get it")
        else:
            print(f"oneclock: {in_brief(advise(curve, budget=plan, schedule=schedule))}")


def _curve(losses: Mapping[int, float]) -> Curve | None:
    steps = [step for step in sorted(losses) if step > 0]
    is_finite = any(math.isfinite(losses[step]) for step in steps)
    return Curve(steps, [losses[step] for step in steps]) if is_finite else None
