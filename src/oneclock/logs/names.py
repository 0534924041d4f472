"""Which column is the validation loss and which is the step, guessed from their names. No other module guesses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from oneclock import metric

_VALIDATION = frozenset({"va", "val", "valid", "validation", "eval", "evaluation", "dev", "heldout"})
_TRAINING = frozenset({"tr", "train", "training", "batch"})
_PARTS = _VALIDATION | {"train", "training", "test"}
_SETTINGS_AND_SPEED = """
timestamp time runtime second seconds samples throughput tps mfu flops memory
lr learning momentum beta beta1 beta2 wd grad norm scale hparam
"""
_AMOUNT = r"_*(?:(?:num|n|total|train|consumed)_)?(?:input_)?{}(?:_(?:seen|trained))?"
_KINDS = {
    "step": r"_*(?:(?:global|train|training|trainer|optimizer|opt|total|num|n|max)_)?(?:step|iteration|iter|update)s?",
    "epoch": r"_*(?:(?:train|current|num)_)?epochs?",
    "tokens": _AMOUNT.format("tokens"),
    "samples": _AMOUNT.format("(?:samples|examples)"),
    "run": r"(?:run|seed)(?:_(?:id|name|uuid))?",
    "time": r"_?(?:wall_?time|timestamp|time|runtime)",
    "part": r"split|phase|stage|subset|part|partition|mode|set|dataset",
    "label": r"metric|metric_name|name|tag|key|variable",
    "value": r"values?",
}
COUNTS = ("step", "epoch", "tokens", "samples")  # the kinds of columns that may be the step, likeliest first


@lru_cache(4096)  # a log repeats a few names on every line
def kind(name: str) -> str | None:
    """What a column holds if it is no metric: a key of `_KINDS`, by the last part of its name."""
    last = _last_part(name)
    return next((one for one, expression in _KINDS.items() if re.fullmatch(expression, last)), None)


def is_position(name: str) -> bool:
    """Whether the name is a position, a time or a run, and not a metric."""
    return kind(name) in (*COUNTS, "run", "time")


@lru_cache(4096)
def is_metric(name: str) -> bool:
    """Whether the name may be that of a metric of the model, and not of its speed or settings."""
    return not metric.words(name) & set(_SETTINGS_AND_SPEED.split())


@lru_cache(4096)
def rank(name: str) -> int | None:
    """How likely `name` is the validation loss: 0 is most likely, None is not a loss."""
    if not is_metric(name) or metric.higher_is_better(name) is not False:
        return None
    words = metric.words(name)
    validation, training = bool(words & _VALIDATION), bool(words & _TRAINING)
    if words & metric.LOSSES:
        if validation:
            return 0 if len(words) == 2 else 1
        return 5 if training else 3 if "test" in words else 4
    return 2 if validation else None


def is_validation(name: str) -> bool:
    """Whether the name says validation and nothing else, as in `val 4.3`; the curve then shows its direction."""
    return name.lower() in _VALIDATION


def is_training(name: str) -> bool:
    """Whether the name seems to be that of a loss on the training data."""
    return rank(name) in (4, 5)


def is_part(word: str) -> bool:
    """Whether a word or name says a part of the data, such as `val` or `loss_train`."""
    return bool(metric.words(word) & _PARTS)


def choose_metric(names: Iterable[str], requested: str | None, where: object) -> str:
    """The metric `requested`, or the likeliest validation loss among `names`; without a loss, `val` or the only one."""
    names = list(dict.fromkeys(names))
    if requested is not None:
        return _match(names, requested, where, "metric")
    losses = [name for name in names if rank(name) is not None]
    metrics = candidates(losses) or list(filter(is_validation, names)) or list(filter(is_metric, names))
    if losses or len(metrics) == 1:
        return metrics[0]
    raise ValueError(f"{where} has no column that looks like a loss; name one of: {name_list(names)}")


def candidates(names: Iterable[str]) -> list[str]:
    """All metrics, likeliest first."""
    return sorted(names, key=lambda name: 9 if (likely := rank(name)) is None else likely)


def choose_step(names: Iterable[str], requested: str | None, where: object) -> str | None:
    """The step column `requested`, or the likeliest. None without any."""
    names = list(dict.fromkeys(names))
    if requested is not None:
        return _match(names, requested, where, "step column")
    return next(iter(step_candidates(names)), None)


def step_candidates(names: Iterable[str]) -> list[str]:
    """The columns that count steps, those named plainly `step` or `global_step` first, then epochs, tokens, samples."""

    def order(name: str) -> tuple[int, bool, bool]:
        plain = _last_part(name).strip("_") in ("step", "global_step")
        return COUNTS.index(kind(name) or ""), name.startswith("_"), not plain  # `_step` may count a logger's calls

    return sorted((name for name in names if kind(name) in COUNTS), key=order)


def name_list(names: Iterable[str], most: int = 12) -> str:
    """Names for a sentence: quoted if needed, shortened if there are many."""
    names = [name if len(name) <= 80 else name[:77] + "..." for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(repr(name) for name in names[:most]) + more) or "nothing"


def counted(count: int, noun: str) -> str:
    """A count for a sentence: `1 row`, `1,200 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _match(names: list[str], requested: str, where: object, what: str) -> str:
    close = [requested] if requested in names else [name for name in names if name.lower() == requested.lower()]
    if len(close) != 1:
        raise ValueError(f"{where} has no {what} {requested!r}; it has: {name_list(names)}")
    return close[0]


def _last_part(name: str) -> str:
    return re.split(r"[/.]", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip()))[-1].lower().replace(" ", "_")
