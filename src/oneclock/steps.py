"""Optimizer steps from steps, tokens or epochs. Pure Python."""

from __future__ import annotations

import math

from oneclock.rule import positive


def steps_from_tokens(tokens: float, tokens_per_step: float) -> int:
    """Optimizer steps that `tokens` training tokens give; a last partial step counts.

    Args:
        tokens: Training tokens.
        tokens_per_step: Tokens in one optimizer step.

    Returns:
        Optimizer steps.

    Raises:
        ValueError: If either is not a finite number above 0.

    >>> steps_from_tokens(2.6e9, tokens_per_step=131_072)
    19837
    """
    return math.ceil(positive(tokens, "tokens") / positive(tokens_per_step, "tokens_per_step"))


def steps_from_epochs(
    epochs: float, samples: int, batch_size: int, accumulate: int = 1, drop_last: bool = False
) -> int:
    """Optimizer steps of `epochs` passes over `samples`; partial batches count unless `drop_last`, as in a DataLoader.

    `batch_size` is what one forward pass sees over all devices; `accumulate` forward passes make one step.

    Args:
        epochs: Passes over the training set; a fraction will do.
        samples: Samples in it.
        batch_size: Samples in one forward pass, over all devices.
        accumulate: Forward passes that make one step.
        drop_last: Whether the last partial batch is dropped.

    Returns:
        Optimizer steps.

    Raises:
        ValueError: If a number makes no sense, or the samples do not fill one batch.

    >>> steps_from_epochs(50, samples=75_750, batch_size=128, drop_last=True)
    29550
    """
    samples, batch_size = _whole(samples, "samples"), _whole(batch_size, "batch_size")
    accumulate = _whole(accumulate, "accumulate")
    batches = samples // batch_size if drop_last else -(-samples // batch_size)
    if not batches:
        raise ValueError(f"{samples} samples do not fill one batch of {batch_size}; lower batch_size or keep the last")
    return math.ceil(positive(epochs, "epochs") * -(-batches // accumulate))


def planned_steps(
    steps: float | None = None,
    *,
    tokens: float | None = None,
    tokens_per_step: float | None = None,
    epochs: float | None = None,
    samples: int | None = None,
    batch_size: int | None = None,
    accumulate: int = 1,
    drop_last: bool = False,
) -> float:
    """Optimizer steps from one of three: steps, tokens or epochs.

    >>> planned_steps(epochs=50, samples=75_750, batch_size=128, drop_last=True)
    29550
    """
    if sum(given is not None for given in (steps, tokens, epochs)) != 1:
        raise ValueError("give the training time once: as steps, as tokens and tokens per step, or as epochs")
    if tokens is None and tokens_per_step is not None:
        raise ValueError("tokens per step go with tokens (--tokens)")
    if epochs is None and (samples is not None or batch_size is not None or accumulate != 1 or drop_last):
        raise ValueError(
            "samples, batch size, accumulation and dropped batches go with epochs (--epochs); steps are those of "
            "the optimizer already"
        )
    if steps is not None:
        return positive(steps, "steps")
    if tokens is not None:
        if tokens_per_step is None:
            raise ValueError("tokens need tokens per step beside them (--tokens-per-step)")
        return steps_from_tokens(tokens, tokens_per_step)
    if samples is None or batch_size is None:
        raise ValueError("epochs need the number of samples and the batch size beside them (--samples, --batch-size)")
    assert epochs is not None  # one of the three is known
    return steps_from_epochs(epochs, samples, batch_size, accumulate, drop_last)


def _whole(value: int, name: str) -> int:
    if positive(value, name) != int(value):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    return int(value)
