"""What trainers print to the terminal, line by line: named patterns, and one for whatever says a step and a loss.

A pattern is a list of expressions. Their groups `step`, `epoch` and `of` say where a line stands and how many steps
are planned; every other group is a metric, called by its name. `PAIRS` are lines that carry their own names.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from oneclock.logs import names
from oneclock.logs.source import number

LONGEST = 2000
"""Characters of a line that are looked at."""

_N = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)\b"
_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_PLACES = ("step", "epoch", "of")

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
"""The name of the pattern of last resort."""

_COMPILED = {name: tuple(re.compile(one) for one in lines) for name, lines in PATTERNS.items()}
_PAIR = re.compile(rf"""['"]?([\w/.-]{{1,60}})['"]?:\s*['"]?({_N})['"]?""")
_LOOSE_PAIR = re.compile(
    r"(?<![\w/.-])([A-Za-z_][\w/.-]{0,40}(?: [A-Za-z_][\w/.-]{0,40})?)"
    rf"[\"']?\s?[:=]?\s{{0,12}}[\"']?(\d{{1,3}}(?:,\d{{3}})+(?!\d)|{_N})(?!\.?\w|,\d)"
)


class Said(NamedTuple):
    """One line's meaning: a place, in steps, epochs or tokens, the metrics at it, and how many steps are planned."""

    unit: str
    place: float
    metrics: dict[str, float]
    planned: float | None = None


class LineReader:
    """Lines in, their meaning out. Without a pattern's name the first that fits a line is kept to.

    >>> lines = LineReader()
    >>> lines.take("step 250: train loss 2.4, val loss 2.5")
    Said(unit='step', place=250.0, metrics={'train_loss': 2.4, 'val_loss': 2.5}, planned=None)
    >>> lines.pattern
    'nanoGPT'
    """

    def __init__(self, pattern: str | None = None) -> None:
        self.pattern = pattern
        self._last: tuple[str, float] | None = None

    def take(self, line: str) -> Said | None:
        """What the line says, None where it is not of the curve."""
        line = line[:LONGEST]
        if "\x1b" in line:
            line = _ESCAPE.sub("", line)
        if self.pattern == ANY:
            return self._loose(line)
        for name in _COMPILED if self.pattern is None else (self.pattern,):
            for expression in _COMPILED[name]:
                if (match := expression.search(line)) and (said := _meaning(match)):
                    self.pattern = name
                    return said
        return self._loose(line) if self.pattern is None else None

    def _loose(self, line: str) -> Said | None:
        """Names and numbers; a line with a loss and no place is of the place named last."""
        pairs = {name.replace(" ", "_"): float(value.replace(",", "")) for name, value in _LOOSE_PAIR.findall(line)}
        said = _said(pairs)
        if said is not None:
            self._last = said.unit, said.place
            return said if said.metrics else None
        losses = _losses(pairs)
        return Said(*self._last, losses) if self._last and losses else None


def _meaning(match: re.Match[str]) -> Said | None:
    groups = {name: text for name, text in match.groupdict().items() if text is not None}
    pairs = dict(_PAIR.findall(groups.pop("pairs", "")))
    values = {name: value for name, text in {**pairs, **groups}.items() if (value := number(text)) is not None}
    said = _said(values)
    return said if said and said.metrics else None


def _said(values: dict[str, float]) -> Said | None:
    """Numbers with names, sorted into place, metrics and plan; None where there is no place among them."""
    for unit, is_place in (("step", names.is_step), ("epoch", names.is_epoch), ("tokens", names.amount)):
        place = next((values[name] for name in values if is_place(name)), None)
        if place is not None:
            return Said(unit, place, _losses(values), values.get("of"))
    return None


def _losses(values: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if names.rank(name) is not None and name not in _PLACES}
