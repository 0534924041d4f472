"""What trainers print to the terminal, line by line: named patterns, and a general one for a step and a loss.

A pattern is a list of expressions. Their groups `step`, `epoch` and `of` are the position of a line and the number of
planned steps; every other group is a metric with that name. The group `pairs` holds names with their values.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from oneclock.logs import names
from oneclock.logs.number_text import StepText, number
from oneclock.metric import higher_is_better

LONGEST = 2000
"""Characters of a line that are read."""

_N = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)\b"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_LEVEL = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b")
_OF_EPOCHS = re.compile(r"\b(epoch):? ?\[(\d+)/\d+\](?!.*\[\d+/\d+\])", re.IGNORECASE)
_POSITIONS = ("step", "epoch", "of")

PATTERNS: dict[str, tuple[str, ...]] = {
    "nanoGPT": (
        rf"^step (?P<step>\d+): train loss (?P<train_loss>{_N}), val loss (?P<val_loss>{_N})",
        rf"^iter (?P<step>\d+): loss (?P<loss>{_N}), time",
    ),
    "nanochat": (
        rf"^Step (?P<step>\d+)(?:/\d+)?(?:,| \|) Validation bpb: (?P<val_bpb>{_N})",
        rf"^Step (?P<step>\d+)(?:/\d+)?(?:,| \|) Validation loss: (?P<val_loss>{_N})",
        rf"^step (?P<step>\d+)/(?P<of>\d+) \(\d+\.\d+%\) \| loss: (?P<loss>{_N})",
    ),
    "modded-nanogpt": (
        rf"^step:(?P<step>\d+)/(?P<of>\d+) val_loss:(?P<val_loss>{_N})",
        rf"^step:(?P<step>\d+)/(?P<of>\d+) train_loss:(?P<train_loss>{_N})",
    ),
    "Megatron": (
        r"validation (?:loss|results) at iteration (?P<step>\d+)(?: on validation set)? \| "
        rf"lm[ _]loss value: (?P<val_loss>{_N})",
        rf"iteration +(?P<step>\d+)/ *(?P<of>\d+) \|.* lm[ _]loss: (?P<loss>{_N})",
    ),
    "DeepSpeed": (rf"\bsteps: (?P<step>\d+) loss: (?P<loss>{_N}) iter time",),
    "torchtitan": (
        rf"\bvalidate step: +(?P<step>\d+)  loss: +(?P<val_loss>{_N})",
        rf"(?<!validate )\bstep: +(?P<step>\d+)  loss: +(?P<loss>{_N})",
    ),
    "torchtune": (
        r"^Step (?P<step>\d+) \| (?P<pairs>[\w/.-]+:\S.*)",
        rf"^\s*\d+\|(?P<step>\d+)\|Loss: (?P<loss>{_N})",
    ),
    "fairseq": (
        r"\| valid \| epoch \d+ \| valid on '[^']*' subset \| "
        rf"loss (?P<valid_loss>{_N}) \|.* num_updates (?P<step>\d+)",
        rf"\| train_inner \| epoch \d+: .*?\bloss=(?P<loss>{_N}),.* num_updates=(?P<step>\d+)",
        rf"\| train \| epoch \d+ \| loss (?P<train_loss>{_N}) \|.* num_updates (?P<step>\d+)",
        rf'"valid_loss": "?(?P<valid_loss>{_N})"?.* "valid_num_updates": "?(?P<step>\d+)"?',
    ),
    "transformers": (r"(?P<pairs>\{'[\w/.-]+': .*'epoch': .*\})",),
}
"""The trainers whose lines are known, by name."""

ANY = "a step and a loss"
"""The name of the general pattern."""

_GAPS = ", '\u2019\u00a0\u202f"  # between thousands
_NO_GAPS = str.maketrans("", "", _GAPS)
_COMPILED = {name: tuple(re.compile(one) for one in lines) for name, lines in PATTERNS.items()}
_PAIR = re.compile(rf"""['"]?([\w/.-]{{1,60}})['"]?:\s*['"]?({_N})['"]?""")
_LOOSE_PAIR = re.compile(
    r"(?<![\w/.-])([A-Za-z_][\w/.-]{0,40}(?: [A-Za-z_][\w/.-]{0,40})?)"
    rf"[\"']?\s?[:=]?\s{{0,12}}[\"']?(\d{{1,3}}(?:[{_GAPS}]\d{{3}})+(?!\d)|{_N})(?!\.?\w|,\d)"
)


class PrintedLine(NamedTuple):
    """The content of a line: a position in steps, epochs or tokens, the metrics there, and the planned steps."""

    unit: str
    position: float
    metrics: dict[str, float]
    planned: float | None = None


class LineReader:
    """Reads one line after the other. Without a pattern's name, the first that fits a line is used from then on.

    >>> lines = LineReader()
    >>> lines.take("step 250: train loss 2.4, val loss 2.5")
    PrintedLine(unit='step', position=250.0, metrics={'train_loss': 2.4, 'val_loss': 2.5}, planned=None)
    >>> lines.pattern
    'nanoGPT'
    """

    def __init__(self, pattern: str | None = None, where: object = "the output") -> None:
        self.pattern = pattern
        self._last: tuple[str, float] | None = None
        self._step_text = StepText(where)

    def take(self, line: str) -> PrintedLine | None:
        """The content of the line, None if it is not about the curve. UnclearStep if a step may mean two numbers."""
        line = line[:LONGEST]
        if "\x1b" in line:
            line = _ESCAPE.sub("", line)
        if self.pattern == ANY:
            return self._loose(line)
        for name in _COMPILED if self.pattern is None else (self.pattern,):
            for expression in _COMPILED[name]:
                if (match := expression.search(line)) and (printed := _meaning(match)):
                    self.pattern = name
                    return printed
        return self._loose(line) if self.pattern is None else None

    def _loose(self, line: str) -> PrintedLine | None:
        """Names and numbers; a line with a loss and no position belongs to the last position."""
        line = _OF_EPOCHS.sub(r"\1 \2", _LEVEL.sub("", line))  # Epoch [1/20]; not with steps that begin anew each epoch
        texts = {name.replace(" ", "_"): value for name, value in _LOOSE_PAIR.findall(line)}
        pairs = {name: float(value.split(" ")[0].translate(_NO_GAPS)) for name, value in texts.items()}
        printed = _sorted_out(pairs | self._steps(texts))
        if printed is not None:
            self._last = printed.unit, printed.position
            return printed if printed.metrics else None
        losses = _metrics(pairs)
        return PrintedLine(*self._last, losses) if self._last and losses else None

    def _steps(self, texts: dict[str, str]) -> dict[str, float]:
        """The steps among named values: `12.000` and `12 000` may be written for 12,000."""
        if not _metrics(dict.fromkeys(texts, 0.0)):
            return {}
        steps = {
            name: self._step_text.number(text.replace(" ", ",")) for name, text in texts.items() if names.is_step(name)
        }
        return {name: step for name, step in steps.items() if step is not None}


def _meaning(match: re.Match[str]) -> PrintedLine | None:
    groups = {name: text for name, text in match.groupdict().items() if text is not None}
    pairs = dict(_PAIR.findall(groups.pop("pairs", "")))
    values = {name: value for name, text in {**pairs, **groups}.items() if (value := number(text)) is not None}
    printed = _sorted_out(values)
    return printed if printed and printed.metrics else None


def _sorted_out(values: dict[str, float]) -> PrintedLine | None:
    """Named numbers, sorted into position, metrics and plan; None without a position."""
    for unit, is_position in (("step", names.is_step), ("epoch", names.is_epoch), ("tokens", names.amount)):
        position = next((values[name] for name in values if is_position(name)), None)
        if position is not None:
            return PrintedLine(unit, position, _metrics(values), values.get("of"))
    return None


def _metrics(values: dict[str, float]) -> dict[str, float]:
    """The values whose names are those of a loss or another metric."""
    return {name: value for name, value in values.items() if _is_known(name) and name not in _POSITIONS}


@lru_cache(4096)
def _is_known(name: str) -> bool:
    return names.is_metric(name) and higher_is_better(name) is not None
