"""Balanced AdamW in a transformers Trainer: the optimizer from the training arguments, and a callback.

    args = TrainingArguments(.., max_steps=20_000, learning_rate=3e-4, weight_decay=0.1)
    trainer = Trainer(.., args=args, optimizer_cls_and_kwargs=balanced_adamw(args), callbacks=[RefreshCallback()])

Which weights decay, the schedule, accumulation, precision and checkpoints stay the Trainer's.
"""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

from oneclock import torchvision_guard  # noqa: F401  before transformers
from oneclock.horizon import SHAPES
from oneclock.integrations.running import TurnWatch, beta_figures
from oneclock.metric import require_lower
from oneclock.optim import BalancedAdamW
from oneclock.rule import Rule, beta_for
from oneclock.steps import steps_from_epochs

try:
    from transformers import TrainerCallback, TrainerState, TrainingArguments
except ModuleNotFoundError as error:
    raise ImportError("the transformers integration needs transformers: pip install 'oneclock[language]'") from error


def balanced_adamw(
    args: TrainingArguments,
    train_samples: int | Sized | None = None,
    *,
    horizon: float | None = None,
    rule: Rule | str | None = None,
    **options: Any,
) -> tuple[type[BalancedAdamW], dict[str, Any]]:
    """What `Trainer(optimizer_cls_and_kwargs=..)` takes: BalancedAdamW with the arguments' lr, eps and weight decay.

    The horizon, in optimizer steps, is `args.max_steps`; where the arguments count epochs instead, give the training
    set or its length as `train_samples`. Where training is useful for less than it runs, give `horizon`. `rule` and
    `options` are those of BalancedAdamW. Beta is written to `args`, so that whatever records the arguments records it.
    """
    steps = trainer_steps(args, train_samples) if horizon is None else horizon
    args.adam_beta1 = args.adam_beta2 = beta_for(steps, rule)
    settings = {"lr": args.learning_rate, "eps": args.adam_epsilon, "weight_decay": args.weight_decay}
    return BalancedAdamW, {**settings, "horizon": steps, "rule": rule, **options}


def trainer_steps(args: TrainingArguments, train_samples: int | Sized | None = None) -> int:
    """The optimizer steps a Trainer takes with these arguments, over all processes and accumulated batches."""
    if args.max_steps > 0:
        return args.max_steps
    if train_samples is None:
        raise ValueError(
            "the arguments count epochs: give the training set or its length, as in "
            "balanced_adamw(args, len(train_dataset)), or set max_steps"
        )
    split = args.accelerator_config.split_batches  # one batch for all processes, not one for each
    return steps_from_epochs(
        args.num_train_epochs,
        samples=len(train_samples) if isinstance(train_samples, Sized) else train_samples,
        batch_size=args.train_batch_size * (1 if split else args.world_size),
        accumulate=args.gradient_accumulation_steps,
        drop_last=args.dataloader_drop_last,
    )


class RefreshCallback(TrainerCallback):
    """Logs beta, memory horizon and refreshes so far with the training loss, and prints advice when training ends.

    It also prints one line when later evaluations confirm that the validation loss turned. Both come from the
    validation losses logged as `metric`. Reporters (TensorBoard, W&B, ..) run before a Trainer's `callbacks`: for the
    three figures to reach them too, put this first with
    `trainer.callback_handler.callbacks.insert(0, RefreshCallback())`.
    """

    def __init__(self, metric: str = "eval_loss") -> None:
        self.metric = require_lower(metric)
        self.watch = TurnWatch()

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Add the figures to a training log; what an evaluation returns stays as it is."""
        if logs is not None and "loss" in logs:
            now = beta_figures(kwargs["optimizer"], state.global_step)
            logs.update(now)
            state.log_history[-1].update(now)
        elif logs is not None and self.metric in logs and state.is_world_process_zero:
            self.watch.look(self._losses(state), state.max_steps, _schedule(args))

    def on_train_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        """Print the advice, once for all processes."""
        if state.is_world_process_zero:
            self.watch.advise(self._losses(state), state.max_steps, _schedule(args))

    def _losses(self, state: TrainerState) -> dict[int, float]:
        return {entry["step"]: entry[self.metric] for entry in state.log_history if self.metric in entry}


def _schedule(args: TrainingArguments) -> str | None:
    """The schedule's name for the horizon, None for another one."""
    name = str(getattr(args.lr_scheduler_type, "value", args.lr_scheduler_type))
    others = {"cosine_with_min_lr": "cosine", "constant_with_warmup": "constant", "warmup_stable_decay": "wsd"}
    return others.get(name, name if name in SHAPES else None)
