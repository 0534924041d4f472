"""Text from others, made safe to show or share: no terminal escapes, no formulas in cells, no paths of this machine."""

from __future__ import annotations

import re

_PLACE = re.compile(
    r"""(?P<quote>['"])(?:~?/|[A-Za-z]:[\\/])[^'"\n]*[\\/](?=[^'"\s])"""  # a quoted path may contain spaces
    r"""|(?<![\w/.~-])(?:file://)?~?/(?!/)(?:[^\s/'"]+/)*(?=[^\s/])"""
    r"""|\b[A-Za-z]:\\+(?:[^\s\\'"]+\\+)*"""
)
_FORMULA = re.compile(r"'*[=+@\t\r-]")  # a spreadsheet reads what begins so as a formula; quotes are taken off again


def printable(text: str) -> str:
    r"""Text that is safe to print: control characters, and those that change its direction, are written as escapes.

    >>> printable("val\x1b[2Jloss")
    'val\\x1b[2Jloss'
    """
    unsafe = "[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
    return re.sub(unsafe, lambda match: match[0].encode("unicode_escape").decode(), text)


def plain_cell(text: str) -> str:
    """A cell for a CSV file that no spreadsheet reads as a formula: a quote is put before text that begins like one.

    >>> plain_cell("=cmd|' /C calc'!A0"), plain_cell("-0.5"), plain_cell("resnet")
    ("'=cmd|' /C calc'!A0", '-0.5', 'resnet')
    """
    try:
        float(text)
    except ValueError:
        return f"'{text}" if _FORMULA.match(text) else text
    return text


def cell_as_it_was(text: str) -> str:
    """The text of a cell before `plain_cell` changed it.

    >>> [cell_as_it_was(plain_cell(text)) for text in ("=1+1", "'=1+1", "-0.5", "resnet", "'tis")]
    ['=1+1', "'=1+1", '-0.5', 'resnet', "'tis"]
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def without_places(text: str) -> str:
    """Text for others to read: absolute paths are cut to their last part.

    >>> without_places("No such file: '/home/ann lee/data/x.csv' (see /tmp/run.log:3, https://example.org/a/b, 9/11)")
    "No such file: 'x.csv' (see run.log:3, https://example.org/a/b, 9/11)"
    """
    return _PLACE.sub(lambda match: match["quote"] or "", text)
