"""One JSON document, element by element: an array, or an object of arrays, of any length in bounded memory."""

from __future__ import annotations

import codecs
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from oneclock import guards

_BLOCK = 2**17
_DECODER = json.JSONDecoder()
_SPACE = " \t\n\r"


class Element(NamedTuple):
    """A value of the document: below which key (None in an array), at which place there (None where it is alone)."""

    key: str | None
    place: int | None
    value: Any


def elements(path: Path) -> Iterator[Element]:
    """The elements of the outermost array, or of an object's arrays one by one, and its other values whole.

    ValueError where the text is not JSON, or where one element has more than 2**20 characters.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "history.json"
    >>> _ = path.write_text('{"lr": 0.1, "loss": [2.0, 1.5]}')
    >>> [tuple(element) for element in elements(path)]
    [('lr', None, 0.1), ('loss', 0, 2.0), ('loss', 1, 1.5)]
    """
    text = _Text(path)
    opening = text.next()
    if opening == "[":
        yield from _array(text, None)
    elif opening == "{":
        yield from _object(text)
    else:
        raise ValueError(f"{path} is not a JSON array or object")


def _object(text: _Text) -> Iterator[Element]:
    if text.peek() == "}":
        return
    while True:
        key = text.value()
        if not isinstance(key, str) or text.next() != ":":
            raise text.broken()
        if text.peek() == "[":
            text.next()
            yield from _array(text, key)
        else:
            yield Element(key, None, text.value())
        if (after := text.next()) == "}":
            return
        if after != ",":
            raise text.broken()


def _array(text: _Text, key: str | None) -> Iterator[Element]:
    place = 0
    if text.peek() == "]":
        text.next()
        return
    while True:
        yield Element(key, place, text.value())
        place += 1
        if (after := text.next()) == "]":
            return
        if after != ",":
            raise text.broken()


class _Text:
    """The text of a file, taken a value or a character at a time."""

    def __init__(self, path: Path) -> None:
        self._path, self._left = path, os.path.getsize(guards.plain_file(path))
        self._decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
        self._blocks = self._read()
        self._text, self._at = "", 0

    def peek(self) -> str:
        """The next character that is no space, nothing at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def next(self) -> str:
        """The same, taken."""
        character = self.peek()
        self._at += 1
        return character

    def value(self) -> Any:
        """The next value; a number at the very end of what was read may go on in what was not."""
        if not self.peek():
            raise self.broken()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except (ValueError, RecursionError):
                end = None
            if end is not None and end < len(self._text):
                self._at = end
                return value
            if len(self._text) - self._at > guards.LONGEST_LINE:
                raise ValueError(f"{self._path} has a value of more than {guards.LONGEST_LINE:,} characters in it")
            if not self._more():
                raise self.broken()

    def broken(self) -> ValueError:
        """What to raise where the text is no JSON."""
        return ValueError(f"{self._path} is not whole JSON; it may be cut off: take an earlier copy of it")

    def _more(self) -> bool:
        block = next(self._blocks, "")
        self._text, self._at = self._text[self._at :] + block, 0
        return bool(block)

    def _read(self) -> Iterator[str]:
        with open(self._path, "rb") as file:
            while self._left > 0 and (block := file.read(min(_BLOCK, self._left))):
                self._left -= len(block)
                if text := self._decode(block):
                    yield text
