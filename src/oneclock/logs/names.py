"""Which column is the validation loss and which is the step, guessed from their names. No other module guesses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from oneclock import metric

_VALIDATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "dev", "heldout"})
_TRAINING = frozenset({"train", "training", "batch"})
_SETTINGS_AND_SPEED = """
timestamp time runtime second seconds samples throughput tps mfu flops memory
lr learning momentum beta beta1 beta2 wd grad norm scale hparam
"""
_NOT_A_METRIC = frozenset(_SETTINGS_AND_SPEED.split())
_TIMES = ("wall time", "walltime", "timestamp", "_timestamp", "time", "_runtime")
_REMEMBERED = 4096  # cached, because a log repeats a few names on every line
_STEP = re.compile(
    r"_*(?:(?:global|train|training|trainer|optimizer|opt|total|num|n|max)_)?(?:step|iteration|iter|update)s?"
)
_EPOCH = re.compile(r"_*(?:(?:train|current|num)_)?epochs?")
_RUN = re.compile(r"(?:run|seed)(?:_(?:id|name|uuid))?")
_AMOUNT = re.compile(
    r"_*(?:(?:num|n|total|train|consumed)_)?(?:input_)?(tokens|samples|examples)(?:_(?:seen|trained))?"
)
_PART = re.compile(r"(?:split|phase|stage|subset|part|partition|mode|set|dataset)")
_LABEL = re.compile(r"(?:metric|metric_name|name|tag|key|variable)")
_VALUE = re.compile(r"values?")


@lru_cache(_REMEMBERED)
def rank(name: str) -> int | None:
    """How likely `name` is the validation loss: 0 is most likely, None is not a loss.

    >>> [rank(name) for name in ("val_loss", "eval/squad_loss", "test_loss", "loss", "train_loss", "accuracy")]
    [0, 1, 3, 4, 5, None]
    """
    if not is_metric(name) or metric.higher_is_better(name) is not False:
        return None
    words = metric.words(name)
    validation, training = bool(words & _VALIDATION), bool(words & _TRAINING)
    if words & metric.LOSSES:
        if validation:
            return 0 if len(words) == 2 else 1
        return 5 if training else 3 if "test" in words else 4
    return 2 if validation else None


@lru_cache(_REMEMBERED)
def is_metric(name: str) -> bool:
    """Whether the name may be that of a metric of the model, and not of its speed or settings."""
    return not metric.words(name) & _NOT_A_METRIC


def is_position(name: str) -> bool:
    """Whether the name is a position, a time or a run, and not a metric."""
    return is_step(name) or is_epoch(name) or is_run(name) or amount(name) is not None or name.lower() in _TIMES


def is_training(name: str) -> bool:
    """Whether the name seems to be that of a loss on the training data."""
    return rank(name) in (4, 5)


def choose_metric(names: Iterable[str], requested: str | None, where: object) -> str:
    """The metric `requested`, or the likeliest validation loss among `names`; without a loss, the only metric.

    >>> choose_metric(["loss", "val_acc", "val_loss"], None, "a.csv"), choose_metric(["lr", "reward"], None, "a.csv")
    ('val_loss', 'reward')
    """
    names = list(dict.fromkeys(names))
    if requested is not None:
        return _match(names, requested, where, "metric")
    losses = [name for name in names if rank(name) is not None]
    if losses:
        return candidates(losses)[0]
    metrics = list(filter(is_metric, names))
    if len(metrics) == 1:
        return metrics[0]
    raise ValueError(f"{where} has no column that looks like a loss; name one of: {name_list(names)}")


def candidates(names: Iterable[str]) -> list[str]:
    """All metrics, likeliest first."""
    ranks = {name: rank(name) for name in names}
    return sorted(ranks, key=lambda name: 9 if ranks[name] is None else ranks[name] or 0)


@lru_cache(_REMEMBERED)
def is_step(name: str) -> bool:
    """Whether a column counts optimizer steps.

    >>> [is_step(name) for name in ("global_step", "trainer/global_step", "Step", "step_time")]
    [True, True, True, False]
    """
    return _STEP.fullmatch(_last_part(name)) is not None


@lru_cache(_REMEMBERED)
def is_epoch(name: str) -> bool:
    """Whether a column counts epochs."""
    return _EPOCH.fullmatch(_last_part(name)) is not None


@lru_cache(_REMEMBERED)
def amount(name: str) -> str | None:
    """What a column counts in place of steps, tokens or samples; None if it counts neither.

    >>> amount("tokens"), amount("train/consumed_samples"), amount("tokens_per_second")
    ('tokens', 'samples', None)
    """
    match = _AMOUNT.fullmatch(_last_part(name))
    return None if match is None else "tokens" if match[1] == "tokens" else "samples"


def part(column: str, cell: object) -> str | None:
    """The part of the data that a row is about, if the column names it (`val` in a column `split`); else None.

    >>> part("split", "Val"), part("phase", "warmup"), part("note", "val")
    ('Val', None, None)
    """
    if not isinstance(cell, str) or _PART.fullmatch(_last_part(column)) is None:
        return None
    return cell.strip() if metric.words(cell) & (_VALIDATION | _TRAINING | {"test"}) else None


def long_columns(columns: Iterable[str]) -> tuple[str, str] | None:
    """(column of the metrics' names, column of their values) of a table with one value a row, None of any other.

    >>> long_columns(["step", "metric", "value"]), long_columns(["step", "name", "loss"])
    (('metric', 'value'), None)
    """
    columns = list(columns)
    label = next((column for column in columns if _LABEL.fullmatch(_last_part(column))), None)
    value = next((column for column in columns if _VALUE.fullmatch(_last_part(column))), None)
    return None if label is None or value is None else (label, value)


@lru_cache(_REMEMBERED)
def is_run(name: str) -> bool:
    """Whether a column names the run or the seed of a row."""
    return _RUN.fullmatch(_last_part(name)) is not None


def choose_step(names: Iterable[str], requested: str | None, where: object) -> str | None:
    """The step column `requested`, or the likeliest: steps before epochs, tokens and samples. None without any."""
    names = list(dict.fromkeys(names))
    if requested is not None:
        return _match(names, requested, where, "step column")
    return next(iter(step_candidates(names)), None)


def step_candidates(names: Iterable[str]) -> list[str]:
    """The columns that count steps, those named plainly `step` or `global_step` first, then epochs, tokens, samples.

    A name that begins with an underscore is a logger's own counter, for example of its calls: it comes last.
    """
    names = list(names)

    def order(name: str) -> tuple[bool, bool]:
        return name.startswith("_"), _last_part(name).strip("_") not in ("step", "global_step")

    return sorted(filter(is_step, names), key=order) + list(filter(is_epoch, names)) + list(filter(amount, names))


def name_list(names: Iterable[str], most: int = 12) -> str:
    """Names for a sentence: quoted if needed, shortened if there are many."""
    names = [name if len(name) <= 80 else name[:77] + "..." for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(repr(name) for name in names[:most]) + more) or "nothing"


def _match(names: list[str], requested: str, where: object, kind: str) -> str:
    if requested in names:
        return requested
    close = [name for name in names if name.lower() == requested.lower()]
    if len(close) == 1:
        return close[0]
    raise ValueError(f"{where} has no {kind} {requested!r}; it has: {name_list(names)}")


def _last_part(name: str) -> str:
    return re.split(r"[/.]", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.strip()))[-1].lower().replace(" ", "_")
