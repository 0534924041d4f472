"""RefreshScheduler: a beta that follows the horizon while training runs. Beyond the paper, and off unless asked for.

No experiment of the paper supports moving beta during a run. What can be proved is how large a step it may cause.
With one beta for both averages at every step, whatever its history b_1 .. b_t, they still weigh the gradients alike:

    m_t = sum_i w_i g_i,    v_t = sum_i w_i g_i^2,    w_i = (1 - b_i) b_(i+1) .. b_t >= 0,    sum_i w_i = 1 - b_1 .. b_t

so m_t^2 <= (1 - b_1 .. b_t) v_t by Cauchy-Schwarz. Torch corrects the bias of both with the newest beta alone, by
1 - b_t^t. Hence for every coordinate, weight decay aside and for any gradients,

    |step_t| <= lr * sqrt((1 - b_1 .. b_t) / (1 - b_t^t))

With a constant beta this is lr, as in `oneclock.optim.balanced`. If beta never rose it is at most lr. If beta rose it
may exceed lr, by a factor of at most 1 / sqrt(1 - b_t^t): 1.26 when the run is one memory old, 1.00003 at ten
memories, which is one hundredth of a plan with 1000 refreshes. At the default pace it stays below 1.02 even then.
"""

from __future__ import annotations

import logging
import math
from typing import Any, NamedTuple

import torch

from oneclock.horizon import Curve, guess_schedule, useful_horizon
from oneclock.optim.balanced import BalancedAdam
from oneclock.rule import Rule, positive, resolve_rule

logger = logging.getLogger(__name__)

_MOST_LOSSES = 511  # of a validation curve; above it neighbours are averaged, so that checks stay fast

_LEAST_CHANGE = 0.1  # a turn near the former one changes nothing


class Change(NamedTuple):
    """At `step`, with `beta` in use, a new target was set, or reached."""

    step: int
    beta: float
    reason: str


class RefreshScheduler:
    """Keeps `optimizer.beta` at the rule's value while the horizon changes. Call `step()` after `optimizer.step()`.

    The horizon is `planned_steps` until `extend` gives a longer plan. With `follow_validation=True` the losses given to
    `step` can shorten it: once they confirm that validation turned, the horizon is the turn that
    `oneclock.horizon.useful_horizon` finds, with the schedule that the optimizer's learning rates show. One noisy
    evaluation never does that, and a better loss later takes it back.

    Changes are gradual: the memory H = 1 / (1 - beta) grows or shrinks by about `pace` steps per step at most, a
    relative change of `pace` per memory. Each is in `history` and goes to the `oneclock.optim.scheduler` logger.

    >>> from oneclock.optim import BalancedAdamW
    >>> optimizer = BalancedAdamW([torch.nn.Parameter(torch.ones(3))], horizon=20_000)
    >>> scheduler = RefreshScheduler(optimizer, planned_steps=20_000)
    >>> scheduler.extend(to_steps=40_000)
    >>> for _ in range(1000):
    ...     scheduler.step()  # after optimizer.step()
    >>> round(scheduler.get_last_beta(), 3)
    0.966
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        planned_steps: float,
        *,
        rule: Rule | str | None = None,
        follow_validation: bool = False,
        pace: float = 0.1,
    ) -> None:
        inner = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps the optimizer it prepares
        if not isinstance(inner, BalancedAdam):
            raise ValueError(f"RefreshScheduler moves the beta of a BalancedAdam(W), got {type(inner).__name__}")
        if all(group["own_beta"] for group in inner.param_groups):
            raise ValueError("every parameter group has its own beta, so the scheduler moves nothing: leave it out")
        if not 0 < pace < 1:
            raise ValueError(f"pace must lie between 0 and 1, got {pace!r}: a memory grows no faster than time passes")
        self.optimizer, self.follow_validation, self.pace = inner, follow_validation, pace
        self.rule = resolve_rule(rule)
        self.planned_steps = planned_steps
        self.last_step = 0
        self.history: list[Change] = []
        self._losses: list[tuple[float, float]] = []  # the validation curve so far, thinned where it is long
        self._lr = self._peak_lr = 0.0  # of the first parameter group: at the last loss, and at its highest
        self._horizon = planned_steps
        self._target = self.optimizer.beta = self.rule(planned_steps)
        self._note(f"planned for {planned_steps:,} steps")

    def step(self, val_loss: float | None = None) -> None:
        """Count one optimizer step, add a validation loss if there is one, and move beta towards its target."""
        if val_loss is not None and not self.follow_validation:
            raise ValueError("val_loss has no effect without follow_validation=True: give both or neither")
        self.last_step += 1
        if val_loss is not None:
            self._take_in(float(val_loss))
        self._move()

    def extend(self, to_steps: float) -> None:
        """Plan for `to_steps` in all, more than before; beta starts towards the longer plan's at the next step."""
        if positive(to_steps, "to_steps") <= self.planned_steps:
            raise ValueError(f"the plan is {self.planned_steps:,} steps already; extend it to more, not {to_steps:,}")
        self.planned_steps = to_steps
        self._aim(f"extended to {to_steps:,} steps")

    def get_last_beta(self) -> float:
        """The beta in use, as `get_last_lr` gives the learning rate."""
        return self.optimizer.beta

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, as plain values: a run continues in the middle of a change."""
        state = {name: value for name, value in vars(self).items() if name != "optimizer"}
        history = [tuple(change) for change in self.history]
        return {**state, "rule": self.rule.name, "beta": self.optimizer.beta, "history": history}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken, with its settings; to train for longer than it planned, `extend` then.

        The rule is not loaded: a scheduler made with another is a ValueError. This sets the optimizer's beta too: load
        the scheduler first, and the optimizer finds nothing to warn of.
        """
        state = dict(state_dict)
        if state.pop("rule") not in (self.rule.name, self.rule.numbered_name):  # the second in older checkpoints
            raise ValueError(f"saved with {state_dict['rule']}, loaded with {self.rule.name}: give rule= as it was")
        self.optimizer.beta = state.pop("beta")
        vars(self).update(state)
        self.history = [Change(*change) for change in state["history"]]
        self._losses = [(step, loss) for step, loss in state["_losses"]]

    def _take_in(self, loss: float) -> None:
        if not math.isfinite(loss):
            return
        self._lr = float(self.optimizer.param_groups[0]["lr"])
        self._peak_lr = max(self._peak_lr, self._lr)
        self._losses.append((self.last_step, loss))
        if len(self._losses) > _MOST_LOSSES:
            pairs = zip(self._losses[::2], self._losses[1::2], strict=True)
            self._losses = [((step + later) / 2, (loss + other) / 2) for (step, loss), (later, other) in pairs]
        self._aim("by the validation loss", least=_LEAST_CHANGE)

    def _aim(self, why: str, least: float = 0.0) -> None:
        horizon = self._useful_steps()
        if abs(horizon - self._horizon) <= least * self._horizon:
            return
        self._horizon = horizon
        try:
            self._target = self.rule(horizon)
        except ValueError:
            self._note(f"{why}: horizon {horizon:,} steps, for which {self.rule.name} has no beta; beta stays")
        else:
            self._note(f"{why}: horizon {horizon:,} steps, towards beta {self._target:.6g}")

    def _useful_steps(self) -> float:
        if self._losses:
            left = self._lr / self._peak_lr if self._peak_lr else None
            schedule = guess_schedule(left, self.last_step / self.planned_steps)
            useful = useful_horizon(Curve(*zip(*self._losses, strict=True)), self.planned_steps, schedule)
            if useful.turned:
                return min(useful.steps, self.planned_steps)
        return self.planned_steps

    def _move(self) -> None:
        beta = self.optimizer.beta
        if beta == self._target:
            return
        furthest = self.pace * (1 - beta)
        way = math.log1p(-self._target) - math.log1p(-beta)
        if abs(way) <= furthest:
            self.optimizer.beta = self._target
            self._note("target reached")
        else:
            self.optimizer.beta = 1 - (1 - beta) * math.exp(math.copysign(furthest, way))

    def _note(self, reason: str) -> None:
        self.history.append(Change(self.last_step, self.optimizer.beta, reason))
        logger.info("step %d, beta %.6g: %s", *self.history[-1])
