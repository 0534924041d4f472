"""Rows of names and values, sorted into runs, steps, metrics and arguments. Most formats are read as such rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from oneclock.logs import names
from oneclock.logs.arguments import ARGUMENTS, LoggedArgument, is_argument
from oneclock.logs.number_text import StepText, number
from oneclock.logs.source import MOST_RUNS, Contents, RawRun, Wanted

_LOOKED_AT = 1000  # the first rows decide which name is the step
_MOST_WORDS = 100  # different words that are kept for a warning

Row = Mapping[str, Any]
"""What is logged at once: names with numbers, words, or further rows."""


def read_rows(
    rows: Iterable[Row],
    path: Path,
    wanted: Wanted,
    format: str,
    keys: Sequence[str] = (),
    to_number: Callable[[Any], float | None] = number,
    decimal: str | None = None,
) -> Contents:
    """Rows that each log some metrics at some step, one run for each value of the names that name a run.

    One of the `keys` is the step, by default of those of the first rows; without one the rows of a run are counted.
    Rows without their step are left out, but before the first step they hold settings. If a row names a part of the
    data (`"split": "val"`), that becomes a prefix of its metrics: `val/loss`. `decimal` is the decimal mark of text.
    """
    rest = iter(rows)
    start = list(islice(rest, _LOOKED_AT))
    keys = keys or list(dict.fromkeys(key for row in start for key in flat(row)))
    log = _Log(path, wanted, names.choose_step(keys, wanted.step, path), to_number, StepText(path, decimal))
    for row in chain(start, rest):
        log.add(flat(row))
    for run in log.runs.values():
        run.arguments |= log.settings
    return Contents(format, list(log.runs.values()), log.step, names.step_candidates(keys), log.warnings())


class _Log:
    """The runs of rows that are added one by one, and what was left out."""

    def __init__(
        self, path: Path, wanted: Wanted, step: str | None, number: Callable[[Any], float | None], step_text: StepText
    ) -> None:
        self.path, self.wanted, self.step, self.number, self.step_text = path, wanted, step, number, step_text
        self.runs: dict[str, RawRun] = {}
        self.settings: dict[str, Any] = {}
        self.counted: Counter[str] = Counter()  # rows of each run
        self.words: Counter[tuple[str, str]] = Counter()  # in place of numbers
        self.stepless = 0

    def add(self, pairs: Row) -> None:
        label = ", ".join([f"{key} {content}" for key, content in pairs.items() if names.kind(key) == "run"])
        at = self._step_of(pairs, label)
        if at is None:
            return
        if label not in self.runs:
            if len(self.runs) >= MOST_RUNS:
                raise ValueError(f"{self.path} holds more than {MOST_RUNS} runs; read those of one experiment alone")
            self.runs[label] = RawRun(label or self.path.stem)
        run, prefix = self.runs[label], part_prefix(pairs)
        for key, content in pairs.items():
            value = self.number(content)
            if key != self.step and is_argument(key):
                logged = run.logged_arguments.get(key) or LoggedArgument()
                run.logged_arguments[key] = logged.with_value(content if value is None else value)
            if key != self.wanted.metric and (key == self.step or names.is_position(key)):
                continue
            if value is not None:
                run.add(prefix + key, at, value, self.wanted)
            elif key == self.wanted.metric or (self.wanted.metric is None and names.rank(key) is not None):
                self._count_word(key, content)

    def _step_of(self, pairs: Row, label: str) -> float | None:
        if self.step is None:
            self.counted[label] += 1
            return self.counted[label]
        cell = pairs.get(self.step)
        if isinstance(cell, str) and names.kind(self.step) != "epoch":
            step = self.step_text.number(cell)
        else:
            step = self.number(cell)
        if step is None and not self._count_word(self.step, cell):
            self.stepless += any(names.rank(key) is not None for key in pairs)
        if cell is None and not self.runs:
            self.settings |= {key: value for key, value in pairs.items() if key.lower() in ARGUMENTS}
        return step

    def _count_word(self, key: str, cell: Any) -> bool:
        """Count a word in place of a number; False if it is none."""
        word = "" if cell is None else str(cell).strip()
        if word:
            self.words[key, word[:40] if len(self.words) < _MOST_WORDS else "..."] += 1
        return bool(word)

    def warnings(self) -> list[str]:
        """Warnings about what was left out; of the words under one name, with the most frequent one."""
        warnings = []
        if self.stepless:
            warnings.append(f"left out: {names.counted(self.stepless, 'row')} with a loss and without {self.step!r}")
        for key in dict.fromkeys(key for key, _ in self.words):
            counts = {word: count for (where, word), count in self.words.items() if where == key}
            count, example = sum(counts.values()), max(counts, key=lambda word: counts[word])
            values = names.counted(count, "value")
            warnings.append(f"left out, not a number: {values} of {key!r}, for example {example!r}")
        return warnings


def flat(values: Row, prefix: str = "", depth: int = 4) -> dict[str, Any]:
    """Nested rows as `outer/inner` pairs, to a limited depth."""
    pairs: dict[str, Any] = {}
    for key, value in values.items():
        if not isinstance(value, dict):
            pairs[f"{prefix}{key}"] = value
        elif depth:
            pairs |= flat(value, f"{prefix}{key}/", depth - 1)
    return pairs


def part_prefix(pairs: Row) -> str:
    """The prefix for the metrics of a row that names a part of the data, or an empty string."""
    cells = (cell for key, cell in pairs.items() if names.kind(key) == "part" and isinstance(cell, str))
    return next((f"{cell.strip()}/" for cell in cells if names.is_part(cell)), "")
