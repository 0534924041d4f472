"""Numbers as people type them: 20000, 20,000, 20_000, 2e4, 20k, 2.6B."""

from __future__ import annotations

import re

_TIMES = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
_NUMBER = re.compile(r"([-+]?(?:\d{1,3}(?:[,_]\d{3})+|\d+)?(?:\.\d*)?(?:e[-+]?\d+)?)\s*([kmbgt]?)", re.IGNORECASE)

_THOUSANDS = re.compile(r"[1-9]\d{0,2}\.\d{3}")


def count(text: str) -> float:
    """A number of steps, tokens or the like; for Typer, as `typer.Option(parser=count)`.

    >>> count("20k"), count("20,000"), count("2.6B"), count("2e4")
    (20000.0, 20000.0, 2600000000.0, 20000.0)
    >>> count("2,0")
    Traceback (most recent call last):
    ValueError: '2,0' is not a number; type it as 20000, 20,000, 2e4 or 20k
    """
    if _THOUSANDS.fullmatch(text.strip()):
        raise ValueError(f"{text!r} may mean {text.replace('.', '')} or {float(text):g}; write it without a point")
    match = _NUMBER.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        return float(re.sub("[,_]", "", match[1])) * _TIMES[match[2].lower()]
    except ValueError:
        raise ValueError(f"{text!r} is not a number; type it as 20000, 20,000, 2e4 or 20k") from None
