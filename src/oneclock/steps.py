"""Optimizer steps from steps, tokens or epochs, and numbers as people type them. Pure Python."""

from __future__ import annotations

import math
import re

from oneclock.rule import positive


def steps_from_tokens(tokens: float, tokens_per_step: float) -> int:
    """Optimizer steps that `tokens` training tokens give; a last partial step counts.

    >>> steps_from_tokens(2.6e9, tokens_per_step=131_072)
    19837
    """
    return math.ceil(positive(tokens, "tokens") / positive(tokens_per_step, "tokens_per_step"))


def steps_from_epochs(
    epochs: float, samples: float, batch_size: float, accumulate: float = 1, drop_last: bool = False
) -> int:
    """Optimizer steps of `epochs` passes over `samples`; partial batches count unless `drop_last`, as in a DataLoader.

    `epochs` may be a fraction. `batch_size` is the samples of one forward pass over all devices, `accumulate` the
    forward passes of one step.

    >>> steps_from_epochs(50, samples=75_750, batch_size=128, drop_last=True)
    29550
    """
    counts = {"samples": samples, "batch_size": batch_size, "accumulate": accumulate}
    for name, value in counts.items():
        if positive(value, name) != int(value):
            raise ValueError(f"{name} must be a whole number, got {value!r}")
    samples, batch_size, accumulate = map(int, counts.values())
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
    samples: float | None = None,
    batch_size: float | None = None,
    accumulate: float = 1,
    drop_last: bool = False,
) -> float:
    """Optimizer steps from one of three: steps, tokens or epochs."""
    if sum(given is not None for given in (steps, tokens, epochs)) != 1:
        raise ValueError("give the training time once: as steps, as tokens and tokens per step, or as epochs")
    if tokens is None and tokens_per_step is not None:
        raise ValueError("tokens per step go with tokens (--tokens)")
    if epochs is not None:
        if samples is None or batch_size is None:
            raise ValueError("epochs need the number of samples and the batch size (--samples, --batch-size)")
        return steps_from_epochs(epochs, samples, batch_size, accumulate, drop_last)
    if (samples, batch_size, accumulate, drop_last) != (None, None, 1, False):
        raise ValueError(
            "samples, batch size, accumulation and dropped batches go with epochs (--epochs); steps are those of "
            "the optimizer already"
        )
    if steps is not None:
        return positive(steps, "steps")
    if tokens_per_step is None:
        raise ValueError("tokens need tokens per step beside them (--tokens-per-step)")
    return steps_from_tokens(tokens, tokens_per_step)  # type: ignore[arg-type]  # one of the three is given


_TIMES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
_NUMBER = re.compile(r"([-+]?(?:\d{1,3}(?:[,_]\d{3})+|\d+)?(?:\.\d*)?(?:e[-+]?\d+)?)\s*([kmbgt]?)", re.IGNORECASE)
_THOUSANDS = re.compile(r"[1-9]\d{0,2}\.\d{3}")


def count(text: str) -> float:
    """A number of steps, tokens or the like, as people type it.

    >>> count("20k"), count("20,000"), count("2.6B"), count("2e4")
    (20000.0, 20000.0, 2600000000.0, 20000.0)
    """
    if _THOUSANDS.fullmatch(text.strip()):
        raise ValueError(f"{text!r} may mean {text.replace('.', '')} or {float(text):g}; write it without a point")
    match = _NUMBER.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        return float(re.sub("[,_]", "", match[1])) * _TIMES[match[2].lower()]
    except ValueError:
        raise ValueError(f"{text!r} is not a number; type it as 20000, 20,000, 2e4 or 20k") from None
