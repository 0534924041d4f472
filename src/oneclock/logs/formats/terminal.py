"""The captured terminal output of a run, with any other text between its lines: named patterns, and a general one.

A pattern is a list of expressions. Their groups `step` and `max_steps` are the position of a line and the number of
planned steps; every other group is a metric with that name. The group `pairs` holds names with their values.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.number_text import StepText, UnclearStep
from oneclock.logs.rows import read_rows
from oneclock.logs.source import Contents, Wanted
from oneclock.metric import higher_is_better

FORMAT = "terminal output"
_LOOKED_AT = 20_000  # the first lines decide which trainer printed it; some print their own source before
_ENOUGH = 2  # this many lines with a step and a loss make any text a log; one is enough for known output
_LONGEST = 2000  # characters of a line that are read

_N = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|nan|inf)\b"
_PATTERNS = {
    "nanoGPT": (
        rf"^step (?P<step>\d+): train loss (?P<train_loss>{_N}), val loss (?P<val_loss>{_N})",
        rf"^iter (?P<step>\d+): loss (?P<loss>{_N}), time",
    ),
    "nanochat": (
        rf"^Step (?P<step>\d+)(?:/\d+)?(?:,| \|) Validation bpb: (?P<val_bpb>{_N})",
        rf"^Step (?P<step>\d+)(?:/\d+)?(?:,| \|) Validation loss: (?P<val_loss>{_N})",
        rf"^step (?P<step>\d+)/(?P<max_steps>\d+) \(\d+\.\d+%\) \| loss: (?P<loss>{_N})",
    ),
    "modded-nanogpt": (
        rf"^step:(?P<step>\d+)/(?P<max_steps>\d+) val_loss:(?P<val_loss>{_N})",
        rf"^step:(?P<step>\d+)/(?P<max_steps>\d+) train_loss:(?P<train_loss>{_N})",
    ),
    "Megatron": (
        r"validation (?:loss|results) at iteration (?P<step>\d+)(?: on validation set)? \| "
        rf"lm[ _]loss value: (?P<val_loss>{_N})",
        rf"iteration +(?P<step>\d+)/ *(?P<max_steps>\d+) \|.* lm[ _]loss: (?P<loss>{_N})",
    ),
    "torchtitan": (
        rf"\bvalidate step: +(?P<step>\d+)  loss: +(?P<val_loss>{_N})",
        rf"(?<!validate )\bstep: +(?P<step>\d+)  loss: +(?P<loss>{_N})",
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
_ANY = "a step and a loss"  # the name of the general pattern
_COMPILED = {name: tuple(re.compile(one) for one in lines) for name, lines in _PATTERNS.items()}

_GAPS = ", '\u2019\u00a0\u202f"  # between thousands
_NO_GAPS = str.maketrans("", "", _GAPS)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_LEVEL = re.compile(r"\b(?:DEBUG|INFO|WARNING)\b")
_OF_EPOCHS = re.compile(r"\b(epoch):? ?\[(\d+)/\d+\](?!.*\[\d+/\d+\])", re.IGNORECASE)
_PAIR = re.compile(rf"""['"]?([\w/.-]{{1,60}})['"]?:\s*['"]?({_N})['"]?""")
_LOOSE_PAIR = re.compile(
    r"(?<![\w/.-])([A-Za-z_][\w/.-]{0,40}(?: [A-Za-z_][\w/.-]{0,40})?)"
    rf"[\"']?\s?[:=]?\s{{0,12}}[\"']?(\d{{1,3}}(?:[{_GAPS}]\d{{3}})+(?!\d)|{_N})(?!\.?\w|,\d)"
)


def sniff(path: Path) -> bool:
    if path.is_dir() or not guards.head(path):
        return False
    try:
        return _pattern(path, _ENOUGH) is not None
    except UnclearStep:
        return True  # `load` reports what is unclear
    except ValueError:
        return False


def load(path: Path, wanted: Wanted) -> Contents:
    pattern = _pattern(path, 1)
    if pattern is None:
        raise ValueError(f"{path} has no lines with a step and a loss")
    lines = _LineReader(path, pattern)
    rows = (row for line in guards.read_lines(path) if (row := lines.row(line)) is not None)
    return read_rows(rows, path, wanted, f"{FORMAT}, {pattern}" if pattern != _ANY else FORMAT)


def _pattern(path: Path, enough: int) -> str | None:
    """Which trainer printed it, or `_ANY` for lines with a step and a loss; None if there are too few of them."""
    lines, loose = _LineReader(path), 0
    for line in islice(guards.read_lines(path), _LOOKED_AT):
        loose += lines.row(line) is not None
        if lines.pattern is not None:
            return lines.pattern
    return _ANY if loose >= enough else None


class _LineReader:
    """Reads one line after the other. Without a pattern's name, the first that fits a line is used from then on."""

    def __init__(self, path: Path, pattern: str | None = None) -> None:
        self.pattern = pattern
        self._last: dict[str, float] = {}  # the last position
        self._step_text = StepText(path)

    def row(self, line: str) -> dict[str, float] | None:
        """The position and the metrics of the line, None if it is not about the curve."""
        line = line[:_LONGEST]
        if "\x1b" in line:
            line = _ESCAPE.sub("", line)
        known = _COMPILED if self.pattern is None else {self.pattern: _COMPILED.get(self.pattern, ())}
        for name, expressions in known.items():
            for expression in expressions:
                if (match := expression.search(line)) and (row := _row_of(match)):
                    self.pattern = name
                    return row
        return self._loose(line) if self.pattern in (None, _ANY) else None

    def _loose(self, line: str) -> dict[str, float] | None:
        """Names and numbers; a line with a loss and no position belongs to the last position."""
        line = _OF_EPOCHS.sub(r"\1 \2", _LEVEL.sub("", line))  # Epoch [1/20]; not with steps that begin anew each epoch
        texts = {name.replace(" ", "_"): value for name, value in _LOOSE_PAIR.findall(line)}
        values = {name: float(text.split(" ")[0].translate(_NO_GAPS)) for name, text in texts.items()}
        metrics = _metrics(values)
        metrics |= {name: values[name] for name, text in texts.items() if names.is_validation(name) and "." in text}
        for name in texts if metrics else ():
            if names.kind(name) == "step":  # `12.000` and `12 000` may be written for 12,000
                values[name] = self._step_text.number(texts[name].replace(" ", ",")) or values[name]
        self._last = _position(values) or self._last
        return self._last | metrics if self._last and metrics else None


def _row_of(match: re.Match[str]) -> dict[str, float] | None:
    groups = {name: text for name, text in match.groupdict().items() if text is not None}
    pairs = dict(_PAIR.findall(groups.pop("pairs", "")))
    values = {name: float(text) for name, text in (pairs | groups).items()}
    position, metrics = _position(values), _metrics(values)
    if not position or not metrics:
        return None
    return position | metrics | ({"max_steps": values["max_steps"]} if "max_steps" in values else {})


def _position(values: dict[str, float]) -> dict[str, float]:
    """The position among named numbers, under the name of what it counts: steps where there are any, else epochs."""
    named = ((kind, value) for kind in names.COUNTS for name, value in values.items() if names.kind(name) == kind)
    return dict(islice(named, 1))


def _metrics(values: dict[str, float]) -> dict[str, float]:
    """The values whose names are those of a loss or another metric."""
    known = (name for name in values if names.is_metric(name) and higher_is_better(name) is not None)
    return {name: values[name] for name in known}
