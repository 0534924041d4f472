"""A command line with places to fill, made safe for the shell that reads it.

Numbers and plain paths are filled in as they are. A value that a shell would read as more than a word (a folder with a
space, or with `$(..)` in its name) goes through the environment: what a variable holds is never executed, wherever in
the line it stands.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

PLACES = re.compile(r"\{(beta|beta1|beta2|lr|seed|budget|folder)\}")


def filled(text: str, places: Mapping[str, str]) -> str:
    """The text with its known places filled, for no shell; other braces stay. ValueError for a place without a value.

    >>> filled("logs/{beta}-{seed}-{}.csv", {"beta": "0.9", "seed": "1"})
    'logs/0.9-1-{}.csv'
    """
    return PLACES.sub(lambda match: _value(match, places), text)


def line(command: str, places: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The command line with its known places filled, and the variables that it needs.

    >>> line("train --beta {beta} --out {folder} --json '{}'", {"beta": "0.9", "folder": "/runs/1"})
    ("train --beta 0.9 --out /runs/1 --json '{}'", {})
    >>> line('train --out "{folder}/a"', {"folder": "/my runs/1"})
    ('train --out "${ONECLOCK_FOLDER}/a"', {'ONECLOCK_FOLDER': '/my runs/1'})
    """
    variables = {}

    def fill(match: re.Match[str]) -> str:
        value, quote = _value(match, places), _open_quote(command[: match.start()])
        if shlex.quote(value) == value:
            return value
        if quote == "'":
            raise ValueError(f"{match[0]} stands in single quotes, and {value!r} is more than a plain word: unquote it")
        variable = f"ONECLOCK_{match[1].upper()}"
        variables[variable] = value
        return f"${{{variable}}}" if quote else f'"${{{variable}}}"'

    return PLACES.sub(fill, command), variables


def _value(match: re.Match[str], places: Mapping[str, str]) -> str:
    if match[1] not in places:
        raise ValueError(f"{match[0]} has no value for an untied pair of betas; use {{beta1}} and {{beta2}}")
    return places[match[1]]


def _open_quote(text: str) -> str:
    """The quote that is open where the text ends, or none.

    >>> _open_quote("a 'b' \\"c"), _open_quote("it\\\\'s"), _open_quote("'a\\\\")
    ('"', '', "'")
    """
    quote, skip = "", False
    for letter in text:
        if skip:
            skip = False
        elif letter == "\\" and quote != "'":
            skip = True
        elif letter == quote:
            quote = ""
        elif letter in "'\"" and not quote:
            quote = letter
    return quote
