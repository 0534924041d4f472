"""The page: one HTML file that opens from disk with no network.

Its own script draws the plots from the same chart values as the printed figures. The template escapes everything that
comes from the data, and a content security policy lets no other script run.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import platform
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from oneclock.report import words
from oneclock.report.chart import Chart, Figure
from oneclock.report.palette import colours
from oneclock.report.tables import column_groups, numeric_columns, shown_cells
from oneclock.stats.tables import Table
from oneclock.stats.verdict import comparison_words

if TYPE_CHECKING:
    from oneclock.report.folder import Subject

DATA_FILES = (("runs.csv", "every run"), ("curves.csv", "every evaluation"), ("analysis.json", "the whole analysis"))


def page(
    subject: Subject,
    tables: Sequence[Table],
    figures: Sequence[Figure],
    curves: Sequence[Figure],
    command: str,
    formats: Sequence[str],
) -> str:
    """The page. The first figure is on the first screen; with several experiments the first table is too."""
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup

    analysis = subject.analysis
    single, shown = len(analysis.experiments) == 1, [*figures, *curves]
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
        table_groups=column_groups,
        table_cells=shown_cells,
        table_numeric=numeric_columns,
        subject=subject,
        command=command,
        single=single,
        overview=None if single else tables[0],
        over_all=list(words.over_all(analysis)),
        experiments=[{"name": result.name, "answer": words.answer(result)} for result in analysis.experiments],
        sure=list(comparison_words(analysis.comparisons)),
        missing=analysis.missing,
        figures=list(enumerate(shown)),
        surfaces=[index for index, figure in enumerate(shown) if figure.name.startswith("surface-")],
        curves=[index for index, figure in enumerate(shown) if index >= len(figures)],
        formats=formats,
        tables=tables if single else tables[1:],
        data={"figures": [[chart_data(chart) for chart in figure.charts] for figure in shown]},
    )


def chart_data(chart: Chart) -> dict[str, Any]:
    """A chart as the page reads it: numbers with six digits, without empty fields."""
    series = [
        {name: _short(value) for name, value in vars(series).items() if name in "xy" or value not in ("", ())}
        for series in chart.series
    ]
    return dataclasses.asdict(dataclasses.replace(chart, series=())) | {"series": series}


def _short(value: Any) -> Any:
    """Numbers to six digits: what a screen can show."""
    if isinstance(value, tuple):
        return [_short(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
