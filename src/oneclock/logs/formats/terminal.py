"""The captured terminal output of a run, with any other text between its lines."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

from oneclock import guards
from oneclock.logs.formats.printed import ANY, LineReader, PrintedLine
from oneclock.logs.number_text import UnclearStep
from oneclock.logs.source import Contents, RawRun, Wanted

FORMAT = "terminal output"
_LOOKED_AT = 20_000  # the first lines decide which trainer printed it; some print their own source before
_ENOUGH = 2  # this many lines with a step and a loss make any text a log; one is enough for known output


def sniff(path: Path) -> bool:
    if not guards.head(path):
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
    run, lines, units = RawRun(path.stem), LineReader(pattern, path), Counter[str]()
    unit = _unit(path, pattern)
    for line in guards.read_lines(path):
        if (printed := lines.take(line)) is not None:
            units[printed.unit] += 1
            if printed.unit == unit:
                _add(run, printed, wanted)
    left_out = units.total() - units[unit]
    warnings = [f"{left_out:,} lines that count something other than the {unit} were left out"] if left_out else []
    name = f"{FORMAT}, {pattern}" if pattern != ANY else FORMAT
    return Contents(name, [run], unit, [unit], warnings)


def _add(run: RawRun, printed: PrintedLine, wanted: Wanted) -> None:
    for metric, value in printed.metrics.items():
        run.add(metric, printed.position, value, wanted)
    if printed.planned is not None:
        run.arguments["max_steps"] = printed.planned


def _pattern(path: Path, enough: int) -> str | None:
    """Which trainer printed it, or `ANY` for lines with a step and a loss; None if there are too few of them."""
    lines, loose = LineReader(where=path), 0
    for line in islice(guards.read_lines(path), _LOOKED_AT):
        loose += lines.take(line) is not None
        if lines.pattern is not None:
            return lines.pattern
    return ANY if loose >= enough else None


def _unit(path: Path, pattern: str) -> str:
    """Steps where any line has them, else epochs, else tokens."""
    lines = LineReader(pattern, path)
    units = {one.unit for line in islice(guards.read_lines(path), _LOOKED_AT) if (one := lines.take(line)) is not None}
    return next((unit for unit in ("step", "epoch") if unit in units), "tokens")
