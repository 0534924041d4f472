"""Text files line by line, in bounded memory whatever bytes they hold."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from pathlib import Path

LONGEST_LINE = 2**20
"""Characters a line may have; beyond it the file is not a log of lines."""

_BLOCK = 2**18


def lines(path: Path) -> Iterator[str]:
    """Every line without its end, in UTF-8 or as its byte order mark says; bytes of no character become U+FFFD."""
    rest = ""
    with open(path, encoding=_encoding(path), errors="replace") as file:
        while block := file.read(_BLOCK):
            *whole, rest = (rest + block).split("\n")
            yield from whole
            if len(rest) > LONGEST_LINE:
                raise ValueError(f"{path} has a line of more than {LONGEST_LINE:,} characters; it is not a log")
    if rest:
        yield rest


def ends_whole(path: Path) -> bool:
    """Whether the last line is ended; one that is not may have been cut off."""
    with open(path, "rb") as file:
        file.seek(max(os.path.getsize(path) - 2, 0))
        return any(byte in b"\n\r" for byte in file.read())


def head(path: Path, size: int = 2**16) -> str:
    """The start of the file as text, or nothing where it cannot be text."""
    with open(path, "rb") as file:
        data = file.read(size)
    encoding = _encoding(path)
    if b"\0" in data and not encoding.startswith("utf-16"):
        return ""
    return data.decode(encoding, errors="replace")


def _encoding(path: Path) -> str:
    with open(path, "rb") as file:
        mark = file.read(4)
    if mark.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-8-sig"
