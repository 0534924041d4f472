"""A study as a notebook shows it: a row for each experiment, with how many runs have ended and what they say."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from oneclock.plain_text import printable

if TYPE_CHECKING:
    from oneclock.runs.best import Best
    from oneclock.runs.store import Study

_HEADS = ("experiment", "runs ended", "best beta", "how sure")


def as_html(study: Study) -> str:
    """A table, nothing of a record in it raw.

    >>> import tempfile
    >>> from oneclock.runs.store import Study
    >>> as_html(Study(tempfile.mkdtemp())).count("<tr>")
    1
    """
    rows = []
    for name in study.experiments:
        best = study.best(name)
        beta = "none" if best.beta is None else f"{best.beta:g}"
        beta += "" if best.lr is None else f", lr {best.lr:g}"
        ended = len(study.runs(name))
        rows.append((name, str(ended), beta, _how_sure(best)))
    head = "".join(f"<th style='text-align:left'>{word}</th>" for word in _HEADS)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _how_sure(best: Best) -> str:
    between = "" if best.interval is None else f"{best.interval.lower:g} to {best.interval.upper:g}; "
    return between + best.note


def _cell(text: str) -> str:
    return f"<td style='text-align:left'>{html.escape(printable(text))}</td>"
