"""One JSON document with a curve in it: an array of objects, or columns (`history.json`), perhaps below a key."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.arguments import BETA_PAIRS, is_argument
from oneclock.logs.formats.json_lines import gather
from oneclock.logs.formats.json_stream import Element, elements
from oneclock.logs.number_text import number
from oneclock.logs.source import Contents, RawRun, Wanted, flat

FORMAT = "JSON document"
_LOOKED_AT = 1000  # first elements that settle which key is the step
_MOST_COLUMNS = 1024


def sniff(path: Path) -> bool:
    """Whether it is one document and not one of many lines, which `json_lines` reads."""
    start = guards.head(path).lstrip()
    if not start.startswith(("{", "[")):
        return False
    lines = [line for line in start.splitlines() if line.strip()]
    first = _whole(lines[0])
    if isinstance(first, dict):
        return len(lines) == 1 and any(isinstance(value, list | dict) and len(value) > 1 for value in first.values())
    try:
        begun = list(islice(elements(path), 2))
    except ValueError:
        return False
    return bool(begun) and (start.startswith("{") or isinstance(begun[0].value, dict))


def load(path: Path, wanted: Wanted) -> Contents:
    """Objects where there are any, columns of numbers otherwise; single values are arguments."""
    looked = list(islice(elements(path), _LOOKED_AT))
    if any(isinstance(element.value, dict) and element.place is not None for element in looked):
        return _of_objects(path, wanted, looked)
    return _of_columns(path, wanted)


def _of_objects(path: Path, wanted: Wanted, looked: list[Element]) -> Contents:
    keys = sorted({key for element in looked if isinstance(element.value, dict) for key, _ in flat(element.value)})
    objects = (_as_object(element) for element in elements(path))
    source = gather(objects, path, names.choose_step(keys, wanted.step, path), wanted, FORMAT)
    source.steps = names.step_candidates(keys)
    return source


def _as_object(element: Element) -> dict[str, Any]:
    if isinstance(element.value, dict) and (element.place is not None or element.key is None):
        return element.value
    return {} if element.key is None else {element.key: element.value}


def _of_columns(path: Path, wanted: Wanted) -> Contents:
    """The step is a column too, or the place in the others, counted from 1."""
    keys = list(islice(_columns(path), _MOST_COLUMNS))
    step = names.choose_step(keys, wanted.step, path)
    metric = names.choose_metric([key for key in keys if not names.is_position(key)], wanted.metric, path)
    steps = array("d", (_or_nan(e.value) for e in _spread(path) if e.key == step is not None))
    run = RawRun(path.stem)
    series, lost = run.keep(metric, wanted), 0
    for element in elements(path):
        if element.key is not None and is_argument(element.key):
            _note_argument(run, element)
    for element in _spread(path):
        if element.key == metric and element.place is not None:
            value = number(element.value)
            where = _at(steps, element.place) if step is not None else float(element.place + 1)
            if value is not None and not math.isnan(where):
                series.add(where, value)
            else:
                lost += 1
    run.note(keys)
    warnings = [f"{lost:,} values have no step, or are no number, and were left out"] if lost else []
    return Contents(FORMAT, [run], step, names.step_candidates(keys), warnings)


def _note_argument(run: RawRun, element: Element) -> None:
    """A column of learning rates was logged step by step; a single value, or the pair of betas, is a setting."""
    assert element.key is not None
    if element.place is None:
        run.arguments[element.key] = element.value
    elif element.key.lower() in BETA_PAIRS:
        if element.place <= 2:  # two are a pair; a third shows that it is none
            run.arguments.setdefault(element.key, []).append(element.value)
    else:
        run.log_argument(element.key, element.value)


def _columns(path: Path) -> Iterator[str]:
    """The names of the columns; those of one name follow one another."""
    for key, _ in groupby(_spread(path), key=lambda element: element.key):
        if key is not None:
            yield key


def _at(steps: Sequence[float], place: int) -> float:
    return steps[place] if place < len(steps) else math.nan


def _or_nan(value: object) -> float:
    converted = number(value)
    return math.nan if converted is None else converted


def _spread(path: Path) -> Iterator[Element]:
    """The elements of columns; a column written as an object (`{"0": 2.0, "1": 1.5}`, as pandas does) is one too."""
    for element in elements(path):
        if element.place is not None:
            yield element
        elif isinstance(element.value, dict):
            for place, value in enumerate(element.value.values()):
                yield Element(element.key, place, value)


def _whole(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
