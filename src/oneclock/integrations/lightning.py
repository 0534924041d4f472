"""Balanced AdamW in Lightning: `configure_optimizers` in one line, and a callback.

    def configure_optimizers(self):
        return balanced_adamw(self, lr=3e-4, weight_decay=0.1)

The horizon is what the Trainer itself estimates, accumulated batches and several devices included.
"""

from __future__ import annotations

import math
from typing import Any

from oneclock import torchvision_guard  # noqa: F401  before lightning
from oneclock.horizon import guess_schedule
from oneclock.integrations.running import TurnWatch, beta_figures
from oneclock.metric import require_lower
from oneclock.optim import BalancedAdamW
from oneclock.rule import Rule

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.trainer.states import TrainerFn
except ModuleNotFoundError as error:
    raise ImportError("the Lightning integration needs lightning: pip install 'oneclock[lightning]'") from error


def balanced_adamw(
    module: LightningModule,
    lr: float = 1e-3,
    *,
    params: Any = None,
    horizon: float | None = None,
    rule: Rule | str | None = None,
    **options: Any,
) -> BalancedAdamW:
    """BalancedAdamW over the module's parameters, or `params`, with beta from the Trainer's own number of steps.

    Where training is useful for less than it runs, give `horizon`, in optimizer steps. `rule` and `options` are those
    of BalancedAdamW.
    """
    steps = _planned(module.trainer) if horizon is None else horizon
    if steps is None:
        raise ValueError(
            "this Trainer has no planned end: set max_steps, or give balanced_adamw the useful steps as horizon="
        )
    chosen = module.parameters() if params is None else params
    return BalancedAdamW(chosen, lr, horizon=steps, rule=rule, **options)


class RefreshCallback(Callback):
    """Logs beta, memory horizon and refreshes so far with every training step, and prints advice when training ends.

    It also prints one line when later evaluations confirm that the validation loss turned. Both come from the
    validation losses logged as `metric`.
    """

    def __init__(self, metric: str = "val_loss") -> None:
        self.metric = require_lower(metric)
        self.losses: dict[int, float] = {}
        self.peak_lr = 0.0
        self.watch = TurnWatch()

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Log the figures; Lightning writes them every `log_every_n_steps`."""
        pl_module.log_dict(beta_figures(trainer.optimizers[0], trainer.global_step))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Keep the validation loss of this step, and look whether it turned."""
        fitting = trainer.state.fn == TrainerFn.FITTING and not trainer.sanity_checking
        if fitting and self.metric in trainer.callback_metrics:
            self.losses[trainer.global_step] = float(trainer.callback_metrics[self.metric])
            if trainer.is_global_zero:
                self.watch.look(self.losses, _plan(trainer), self._schedule(trainer))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the advice, once for all processes."""
        if trainer.is_global_zero:
            self.watch.advise(self.losses, _plan(trainer), self._schedule(trainer))

    def _schedule(self, trainer: Trainer) -> str | None:
        """The schedule, as far as the learning rates so far show it."""
        rate = float(trainer.optimizers[0].param_groups[0]["lr"])
        self.peak_lr = max(self.peak_lr, rate)
        return guess_schedule(rate / self.peak_lr if self.peak_lr else None, trainer.global_step / _plan(trainer))

    def state_dict(self) -> dict[str, Any]:
        """The losses and the highest learning rate so far, for Lightning's checkpoint."""
        return {"losses": dict(self.losses), "peak_lr": self.peak_lr}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint's losses."""
        self.losses, self.peak_lr = dict(state_dict["losses"]), state_dict["peak_lr"]


def _planned(trainer: Trainer) -> int | None:
    """The optimizer steps that Lightning expects, None where the Trainer has no end."""
    steps = trainer.estimated_stepping_batches
    return int(steps) if 0 < steps < math.inf else None


def _plan(trainer: Trainer) -> int:
    return _planned(trainer) or max(trainer.global_step, 1)
