"""JSON lines: one object per line, nested or not, as many trainers print them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.arguments import ARGUMENTS, is_argument
from oneclock.logs.number_text import StepText, number
from oneclock.logs.source import Contents, RawRun, Runs, Wanted, flat, part_prefix

FORMAT = "JSON lines"
_LOOKED_AT = 1000  # the first objects decide which key is the step


def sniff(path: Path) -> bool:
    first = next((line for line in guards.head(path).splitlines() if line.strip()), "")
    try:
        return isinstance(json.loads(first), dict)
    except (ValueError, RecursionError):
        return False


def load(path: Path, wanted: Wanted) -> Contents:
    objects = _Objects(path)
    source = runs_of_objects(objects, path, wanted, FORMAT)
    source.warnings += objects.warnings()
    return source


def runs_of_objects(objects: Iterable[Mapping[str, Any]], path: Path, wanted: Wanted, format: str) -> Contents:
    """Objects that each log some metrics at some step, one run for each value of the keys that name a run.

    The first objects show which key is the step; without one the evaluations are counted. An object without its step
    holds settings, or is left out. If an object names a part of the data (`"split": "val"`), that becomes a prefix of
    its metrics: `val/loss`.
    """
    rest = iter(objects)
    start = list(islice(rest, _LOOKED_AT))
    keys = sorted({key for value in start for key, _ in flat(value)})
    step = names.choose_step(keys, wanted.step, path)
    runs, step_of = Runs(path), _StepOf(path, step)
    settings: dict[str, Any] = {}
    stepless = words = 0
    for value in chain(start, rest):
        pairs = dict(flat(value))
        at = step_of(pairs)
        if at is None:
            settings |= {key: content for key, content in pairs.items() if key.lower() in ARGUMENTS}
            stepless += any(names.rank(key) is not None for key in pairs)
            continue
        label = ", ".join(f"{key} {content}" for key, content in pairs.items() if names.is_run(key))
        words += _add(runs.of(label, label or path.stem), at, pairs, wanted)
    for run in runs.values():
        run.arguments |= settings
    warnings = [f"{stepless:,} entries with a loss have no {step!r} and were left out"] if stepless else []
    if words:
        warnings.append(f"{words:,} losses are words, not numbers, and were left out")
    return Contents(format, list(runs.values()), step, names.step_candidates(keys), warnings)


class _StepOf:
    """The step of each object in turn; without a step key, its number."""

    def __init__(self, path: Path, step: str | None) -> None:
        self._key, self._counted = step, 0
        self._text = None if step is None or names.is_epoch(step) else StepText(path)

    def __call__(self, pairs: Mapping[str, Any]) -> float | None:
        self._counted += 1
        if self._key is None:
            return float(self._counted)
        value = pairs.get(self._key)
        return self._text.number(value) if self._text and isinstance(value, str) else number(value)


def _add(run: RawRun, at: float, pairs: Mapping[str, Any], wanted: Wanted) -> int:
    """Add an object's numbers; returns how many losses were words."""
    prefix, words = part_prefix(pairs), 0
    for key, content in pairs.items():
        if is_argument(key):
            run.log_argument(key, content)
        value = number(content)
        if value is not None and (key == wanted.metric or not names.is_position(key)):
            run.add(prefix + key, at, value, wanted)
        elif value is None and isinstance(content, str) and names.rank(key) is not None:
            words += 1
    return words


class _Objects:
    """The objects of a file of JSON lines; lines that are not JSON are counted."""

    def __init__(self, path: Path) -> None:
        self._path, self._bad, self._torn = path, 0, False

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for line in guards.read_lines(self._path):
            if not line.strip():
                continue
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                self._bad += 1
                self._torn = True
                continue
            self._torn = False
            if isinstance(value, dict):
                yield value
        self._torn = self._torn and not guards.ends_whole(self._path)

    def warnings(self) -> list[str]:
        """Warnings about what was left out, after the file is read."""
        warnings = []
        if self._torn:
            warnings.append("the last line is cut off and was left out: the log may be truncated")
        if bad := self._bad - self._torn:
            warnings.append(f"{bad:,} lines are not JSON and were left out")
        return warnings
