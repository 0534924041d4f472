"""Limits for reading files from others: memory, time and disk, the same for every reader.

Only regular files are read, up to the size they had when they were opened. Lines, tables and documents have a largest
size. Text from a file is printed without control characters.
"""

from __future__ import annotations

import codecs
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_LINE = 2**20
"""Characters a line may have; beyond it the file is not a log of lines."""

LARGEST_WHOLE = 2**24
"""Bytes of a file that is read whole."""

MOST_COLUMNS = 10_000
"""Columns a table may have."""

MOST_CELLS = 10**8
"""Rows times columns of a table whose file may be far smaller than what it unpacks to."""

LARGEST_CURVE = 2**28
"""Bytes of the evaluations of one run."""

MOST_FILES = 100_000
"""Files and folders that are listed below one folder."""

MOST_COPIED = 2**31
"""Bytes that standard input may put on disk."""

COPY = "standard-input"
"""The file name of a copy of standard input."""

_BLOCK = 2**18


def plain_file(path: Path) -> Path:
    """`path` itself if it is a regular file; ValueError for a pipe, device or socket, which could be endless.

    >>> plain_file(Path("/dev/zero"))
    Traceback (most recent call last):
    ValueError: /dev/zero is a device, not a file; save its output to a file first
    """
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode):
        return path
    if stat.S_ISDIR(mode):
        raise ValueError(f"{path} is a folder, not a file; name the file in it")
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
    raise ValueError(f"{path} is {kind}, not a file; save its output to a file first")


def read_lines(path: Path) -> Iterator[str]:
    """Every line without its newline, as UTF-8 or as the byte order mark says; invalid bytes become U+FFFD.

    Only the part that exists at the start is read, even if the file grows.
    """
    left = os.path.getsize(plain_file(path))
    decoder = codecs.getincrementaldecoder(_encoding(path))(errors="replace")
    rest, after_return = "", False
    with open(path, "rb") as file:
        while left > 0 and (block := file.read(min(_BLOCK, left))):
            left -= len(block)
            text = decoder.decode(block, final=left <= 0)
            if after_return and text.startswith("\n"):
                text = text[1:]
            after_return = text.endswith("\r") if text else after_return
            *whole, rest = (rest + text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
            yield from whole
            if len(rest) > LONGEST_LINE:
                raise ValueError(f"{path} has a line of more than {LONGEST_LINE:,} characters; it is not a log")
    if rest:
        yield rest


def head(path: Path, size: int = 2**16) -> str:
    """The start of the file as text, or nothing if it cannot be text."""
    with open(plain_file(path), "rb") as file:
        data = file.read(size)
    encoding = _encoding(path)
    if b"\0" in data and not encoding.startswith("utf-16"):
        return ""
    return data.decode(encoding, errors="replace")


def ends_whole(path: Path) -> bool:
    """Whether the file ends with a newline; otherwise its last line may be incomplete."""
    with open(path, "rb") as file:
        file.seek(max(os.path.getsize(path) - 2, 0))
        return any(byte in b"\n\r" for byte in file.read())


def files(folder: Path) -> Iterator[Path]:
    """Every file below a folder; ValueError if there are too many for the folder of an experiment."""
    seen = 0
    for parent, folders, names in os.walk(folder):
        seen += len(folders) + len(names)
        if seen > MOST_FILES:
            raise ValueError(f"{folder} holds more than {MOST_FILES:,} files; name the folder of one run")
        yield from (path for name in names if (path := Path(parent, name)).is_file())


def small_file(path: Path, most: int = LARGEST_WHOLE) -> Path:
    """`path` itself if it is a file that may be read whole, ValueError if it is larger."""
    if os.path.getsize(plain_file(path)) > most:
        raise ValueError(f"{path} has more than {most // 2**20} MB, and must be read as a whole; give a smaller one")
    return path


_TO_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait


def small_bytes(path: str | Path, most: int = LARGEST_WHOLE) -> bytes:
    """All bytes of a file that may be read whole, ValueError as in `small_file`. Few system calls, for very many files.

    >>> small_bytes("/dev/null")
    Traceback (most recent call last):
    ValueError: /dev/null is a device, not a file; save its output to a file first
    """
    try:
        handle = os.open(path, _TO_READ)
    except OSError:
        plain_file(Path(path))  # a socket cannot be opened: the message says so
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most:
            small_file(Path(path), most)
        data = os.read(handle, status.st_size)
        while len(data) < status.st_size and (part := os.read(handle, status.st_size - len(data))):
            data += part
        return data
    finally:
        os.close(handle)


def plain_table(path: Path, delimiter: str) -> Path:
    """`path` itself if it is a file of lines that a table reader can take: bounded lines, columns and cells.

    It reads the file through once, a block at a time.
    """
    columns = next(read_lines(path), "").count(delimiter) + 1
    refuse_vast(path, 1, columns)
    refuse_vast(path, sum(1 for _ in read_lines(path)), columns)
    return path


def refuse_vast(path: Path, rows: int, columns: int) -> None:
    """ValueError if a table has too many columns or cells for a table of runs.

    It is called before the table is unpacked.

    >>> refuse_vast(Path("t.csv"), 10**6, 10**3)
    Traceback (most recent call last):
    ValueError: t.csv has 1,000,000 rows of 1,000 columns, more than 100,000,000 cells; split it
    """
    if columns > MOST_COLUMNS:
        raise ValueError(f"{path} has {columns:,} columns, more than {MOST_COLUMNS:,}; it is not a table of runs")
    if rows * columns > MOST_CELLS:
        raise ValueError(f"{path} has {rows:,} rows of {columns:,} columns, more than {MOST_CELLS:,} cells; split it")


@contextmanager
def copied(
    read: Callable[[int], bytes], most: int = MOST_COPIED, name: str = COPY, what: str = "standard input"
) -> Iterator[Path]:
    """A temporary file with everything that `read` returns, to be read twice.

    Messages call it `what`.
    """
    with tempfile.TemporaryDirectory(prefix="oneclock-") as folder:
        path, left = Path(folder) / name, most
        with open(path, "wb") as file:
            while block := read(_BLOCK):
                left -= len(block)
                if left < 0:
                    raise ValueError(f"{what} has more than {most:,} bytes; give a smaller log")
                file.write(block)
        try:
            yield path
        except ValueError as error:
            if str(path) not in str(error):
                raise
            raise ValueError(str(error).replace(str(path), what)) from None


def _encoding(path: Path) -> str:
    with open(path, "rb") as file:
        mark = file.read(4)
    if mark.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return "utf-8-sig"
