"""Limits for reading files from others: memory, time and disk, the same for every reader.

Only regular files are read, up to the size they had when they were opened.
"""

from __future__ import annotations

import codecs
import io
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LONGEST_LINE = 2**20  # characters; beyond it the file is not a log of lines
LARGEST_WHOLE = 2**24  # bytes of a file that is read whole
LARGEST_CURVE = 2**28  # bytes of the evaluations of one run
MOST_COLUMNS = 10_000  # of a table
MOST_CELLS = 10**8  # of a table, whose file may be far smaller than what it unpacks to
MOST_FILES = 100_000  # files and folders that are listed below one folder
MOST_COPIED = 2**31  # bytes that standard input may put on disk
COPY = "standard-input"  # the file name of a copy of it

_BLOCK = 2**18
_TO_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait


def plain_file(path: Path) -> Path:
    """`path` itself if it is a regular file; ValueError for a pipe, device or socket, which could be endless."""
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
    lines, rest = io.IncrementalNewlineDecoder(decoder, translate=True), ""
    with open(path, "rb") as file:
        while left > 0 and (block := file.read(min(_BLOCK, left))):
            left -= len(block)
            *whole, rest = (rest + lines.decode(block, final=left <= 0)).split("\n")
            yield from whole
            if len(rest) > LONGEST_LINE:
                raise ValueError(f"{path} has a line of more than {LONGEST_LINE:,} characters; it is not a log")
    if rest:
        yield rest


def head_bytes(path: Path, size: int) -> bytes:
    """The first bytes of a file."""
    with open(plain_file(path), "rb") as file:
        return file.read(size)


def head(path: Path, size: int = 2**16) -> str:
    """The start of the file as text, or nothing if it cannot be text."""
    data, encoding = head_bytes(path, size), _encoding(path)
    return "" if b"\0" in data and encoding != "utf-16" else data.decode(encoding, errors="replace")


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


def small_bytes(path: str | Path, most: int = LARGEST_WHOLE) -> bytes:
    """All bytes of a file, ValueError if there are more than `most`. Few system calls, for very many files."""
    try:
        handle = os.open(path, _TO_READ)
    except OSError:
        plain_file(Path(path))  # a socket cannot be opened: the message says so
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            plain_file(Path(path))
        if status.st_size > most:
            raise ValueError(
                f"{path} has more than {most // 2**20} MB, and must be read as a whole; give a smaller one"
            )
        data = os.read(handle, status.st_size)
        while len(data) < status.st_size and (part := os.read(handle, status.st_size - len(data))):
            data += part
        return data
    finally:
        os.close(handle)


def plain_table(path: Path, delimiter: str) -> None:
    """ValueError if a table reader should not take the file: one pass over its lines, which are bounded too."""
    columns = next(read_lines(path), "").count(delimiter) + 1
    refuse_vast(path, 1, columns)
    refuse_vast(path, sum(1 for _ in read_lines(path)), columns)


def refuse_vast(path: Path, rows: int, columns: int) -> None:
    """ValueError if a table, not unpacked yet, has too many columns or cells for a table of runs."""
    if columns > MOST_COLUMNS:
        raise ValueError(f"{path} has {columns:,} columns, more than {MOST_COLUMNS:,}; it is not a table of runs")
    if rows * columns > MOST_CELLS:
        raise ValueError(f"{path} has {rows:,} rows of {columns:,} columns, more than {MOST_CELLS:,} cells; split it")


@contextmanager
def copied(
    read: Callable[[int], bytes], most: int = MOST_COPIED, name: str = COPY, what: str = "standard input"
) -> Iterator[Path]:
    """A temporary file with everything that `read` returns, to be read twice; messages call it `what`."""
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
    return "utf-16" if head_bytes(path, 2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
