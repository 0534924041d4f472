"""What a trainer printed: the captured output of a run, whoever wrote it, with anything else between its lines."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

from oneclock import guards
from oneclock.logs.formats.printed import ANY, LineReader, Said
from oneclock.logs.source import Contents, Found, Wanted

FORMAT = "terminal output"
_LOOKED_AT = 20_000  # first lines that settle whose output it is; some trainers print their own source before
_ENOUGH = 2  # lines with a step and a loss that make any text a log; one will do in what is known to be printed


def sniff(path: Path) -> bool:
    if not guards.head(path):
        return False
    try:
        return _pattern(path, _ENOUGH) is not None
    except ValueError:
        return False


def load(path: Path, wanted: Wanted) -> Contents:
    pattern = _pattern(path, 1)
    if pattern is None:
        raise ValueError(f"{path} has no lines with a step and a loss in them")
    run, lines, units = Found(path.stem), LineReader(pattern), Counter[str]()
    unit = _unit(path, pattern)
    for line in guards.lines(path):
        if (said := lines.take(line)) is not None:
            units[said.unit] += 1
            if said.unit == unit:
                _add(run, said, wanted)
    left_out = units.total() - units[unit]
    warnings = [f"{left_out:,} lines that count something else than the {unit} were left out"] if left_out else []
    name = f"{FORMAT}, {pattern}" if pattern != ANY else FORMAT
    return Contents(name, [run], unit, [unit], warnings)


def _add(run: Found, said: Said, wanted: Wanted) -> None:
    for metric, value in said.metrics.items():
        run.add(metric, said.place, value, wanted)
    if said.planned is not None:
        run.arguments["max_steps"] = said.planned


def _pattern(path: Path, enough: int) -> str | None:
    """Whose lines these are: a trainer's by name, or of anyone who prints a step and a loss; None where no one's."""
    lines, loose = LineReader(), 0
    for line in islice(guards.lines(path), _LOOKED_AT):
        loose += lines.take(line) is not None
        if lines.pattern is not None:
            return lines.pattern
    return ANY if loose >= enough else None


def _unit(path: Path, pattern: str) -> str:
    """Steps where any line has them, else epochs, else tokens."""
    lines = LineReader(pattern)
    said = {one.unit for line in islice(guards.lines(path), _LOOKED_AT) if (one := lines.take(line)) is not None}
    return next((unit for unit in ("step", "epoch") if unit in said), "tokens")
