"""The plain lines of a YAML file, as hyperparameters are written: no tags, no nesting, and no objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from oneclock import guards
from oneclock.logs.number_text import number


def plain_pairs(path: Path) -> Iterator[tuple[str, object]]:
    """The `name: value` lines, and lists of numbers below a name; nothing if there is no such file."""
    key, items = "", []
    for line in guards.head(path).splitlines() if path.is_file() else []:
        if (item := re.fullmatch(r"\s*- (\S+)", line)) and number(item[1]) is not None:
            items.append(number(item[1]))
            yield key, list(items)
        elif pair := re.fullmatch(r"([\w./-]+):\s*(.*)", line):
            key, items = pair[1], []
            if pair[2] and not pair[2].startswith(("!", "&")):
                yield key, pair[2].strip("'\"")
