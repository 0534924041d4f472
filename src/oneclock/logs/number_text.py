"""Numbers as logs write them. Steps may be written as 12000, 12,000, 12.000 or 12 000."""

from __future__ import annotations

import math
import re

_GROUPED = re.compile(r"[1-9]\d{0,2}(?:([.,])\d{3})(?:\1\d{3})*")
_SPACES = re.compile(r"(?<=\d)[ '\u00a0\u202f\u2019](?=\d{3})")


def number(value: object) -> float | None:
    """A logged value as a float, or None if it is not a number."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except ValueError:
        return None


class UnclearStep(ValueError):
    """A step that may mean two numbers."""


class StepText:
    """Reads the steps of one log, cell by cell.

    A point or a comma before three digits may separate thousands or decimals. Earlier steps decide: after `900`, the
    step `1.000` is one thousand; after `0.000` it is one. Otherwise the log's other numbers decide: `decimal` is their
    decimal mark, so the other mark separates thousands. If neither helps, `UnclearStep` asks for plain numbers.
    """

    def __init__(self, where: object, decimal: str | None = None) -> None:
        self._where, self._decimal = where, decimal
        self._steps_have: str | None = None  # "whole" or "decimals", as soon as one step shows it

    def number(self, cell: str) -> float | None:
        """The step in a cell, None if it is not a number."""
        text = cell.strip()
        if text.isdecimal():
            self._steps_have = self._steps_have or "whole"
            return number(text)
        text = _SPACES.sub("", text)
        grouped = _GROUPED.fullmatch(text)
        if grouped is None or (self._steps_have == "decimals" and text.count(grouped[1]) == 1):
            value = number(text.replace(",", ".") if self._decimal == "," else text)
            if value is not None and re.search(r"[.,]\d", text):
                self._steps_have = self._steps_have or "decimals"
            return value
        mark, thousands = grouped[1], text.replace(grouped[1], "")
        if text.count(mark) > 1 or self._steps_have == "whole" or self._decimal not in (None, mark):
            return float(thousands)
        whole = text.split(mark)[0]
        raise UnclearStep(
            f"{self._where} has the step {text!r}: is it {thousands} or {whole}? Write it without separators"
        )
