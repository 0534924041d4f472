"""The page: one HTML file that opens from disk with no network.

One experiment opens with its answer and its valley; several open with one table and one picture. Details are folded.

The plots are drawn by the page's own script from the same chart values as the printed figures. Everything that comes
from the data is escaped by the template, and a content security policy lets no other script run.
"""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from itertools import groupby
from typing import Any

from oneclock.report import words
from oneclock.report.chart import Figure
from oneclock.report.explorer import chart_data, explorer
from oneclock.report.palette import colours
from oneclock.report.selection import words_on_rest
from oneclock.report.subject import Subject
from oneclock.report.tables import numeric_columns, shown_cells
from oneclock.stats.tables import Table

DATA_FILES = (("runs.csv", "every run"), ("curves.csv", "every evaluation"), ("analysis.json", "the whole analysis"))


def page(
    subject: Subject,
    tables: Sequence[Table],
    figures: Sequence[Figure],
    curves: Sequence[Figure],
    command: str,
    formats: Sequence[str],
    reload_seconds: int | None = None,
) -> str:
    """The page of a subject. It shows `figures`, the first one on the first screen.

    `curves` are only linked, because the explorer draws them. With several experiments the first table is on the first
    screen too. `formats` are those of the printed figures beside the page. With `reload_seconds` it reloads itself.
    """
    analysis = subject.analysis
    shown = explorer(subject.study, analysis)
    return _rendered(
        subject=subject,
        command=command,
        reload_seconds=reload_seconds,
        refreshes=f"{analysis.summary.refreshes:g}",
        single=(single := len(analysis.experiments) == 1),
        overview=None if single else _table(tables[0]),
        over_all=list(words.over_all(analysis)),
        experiments=[
            {
                "name": result.name,
                "heldout": result.split == "heldout",
                "answer": words.answer(result),
                "why": words.why(result, analysis.summary.refreshes),
            }
            for result in analysis.experiments
        ],
        sure=list(words.how_sure(analysis)),
        calibration=analysis.calibration.verdict,
        missing=analysis.missing,
        figures=list(enumerate(figures)),
        surfaces=[index for index, figure in enumerate(figures) if figure.name.startswith("surface-")],
        formats=formats,
        curve_names=[(figure.name, figure.title.partition(": ")[2]) for figure in curves],
        tables=[_table(table) for table in (tables if single else tables[1:])],
        drawn=[experiment["name"] for experiment in shown["experiments"]],
        not_drawn=words_on_rest(analysis),
        last_stop=len(shown["stops"]) - 1,
        data={
            "explorer": shown,
            "figures": [[chart_data(chart) for chart in figure.charts] for figure in figures],
            "reload_seconds": reload_seconds,
        },
    )


def waiting_page(title: str, reason: str, command: str, reload_seconds: int | None) -> str:
    """The page of a study without results yet; it reloads itself if seconds are given."""
    return _rendered(
        subject={"title": title},
        command=command,
        reload_seconds=reload_seconds,
        experiments=[],
        empty=f"Nothing to show yet: {reason}.",
        data={"reload_seconds": reload_seconds},
    )


def _rendered(**values: Any) -> str:
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup

    folder = files("oneclock.report") / "page"
    script = (folder / "page.js").read_text(encoding="utf-8")
    environment = Environment(
        loader=PackageLoader("oneclock.report", "page"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template("report.html").render(
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=Markup((folder / "page.css").read_text(encoding="utf-8")),
        light=colours(),
        dark=colours(dark=True),
        version=version("oneclock"),
        python=platform.python_version(),
        data_files=DATA_FILES,
        **values,
    )


def _table(table: Table) -> dict[str, Any]:
    """A table as the template reads it; `value` is what a column is sorted by, None if it is not known."""
    numeric = numeric_columns(table)
    groups = [(group, len(list(members))) for group, members in groupby(table.columns, key=lambda column: column.group)]
    return {
        "name": table.name,
        "title": table.title,
        "notes": table.notes,
        "groups": groups if any(group for group, _ in groups) else [],
        "columns": [(column.title, number) for column, number in zip(table.columns, numeric, strict=True)],
        "rows": [
            {
                "rule": row in table.rules_after,
                "cells": [
                    {
                        "text": text,
                        "value": table.rows[row][column],
                        "numeric": numeric[column],
                        "best": (row, column) in table.best,
                    }
                    for column, text in enumerate(texts)
                ],
            }
            for row, texts in enumerate(shown_cells(table))
        ],
    }
