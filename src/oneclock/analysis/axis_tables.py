"""The tables of a second axis: the best pair of beta and learning rate, and the best beta over horizons."""

from __future__ import annotations

from oneclock.analysis.axes import Series
from oneclock.analysis.table import Cell, Column, Table
from oneclock.analysis.values import Analysis
from oneclock.rule import Power
from oneclock.study.best import Interval


def best_pairs(analysis: Analysis) -> Table:
    """The best pair of beta and learning rate, measured and by a fitted bowl; no rows where one rate was swept."""
    rows: list[tuple[Cell, ...]] = []
    for result in analysis.experiments:
        if (surface := result.surface) is not None:
            beta, rate = map(bounds, (surface.beta_interval, surface.rate_interval))
            rows.append((result.name, result.best_beta, result.best_rate, surface.beta, *beta, surface.rate, *rate))
    betas = (Column(title, "Fitted beta", ".4f") for title in ("best", "from", "to"))
    rates = (Column(title, "Fitted lr", ".3g") for title in ("best", "from", "to"))
    measured = (Column("beta", "Measured", "g"), Column("lr", "Measured", "g"))
    columns = (Column("Experiment"), *measured, *betas, *rates)
    return Table("best-pairs", "The best pair of beta and learning rate", columns, tuple(rows))


def series(analysis: Analysis) -> Table:
    """The best beta at each budget of a controlled series, with its interval; no rows where there is none."""
    rows: list[tuple[Cell, ...]] = []
    lines: list[int] = []
    for one in analysis.series:
        for point in one.points:
            beta, refreshes = map(bounds, (point.beta_interval, point.refreshes_interval))
            inside = "yes" if point.bracketed else "no"
            rows.append((one.name, point.budget, point.horizon, point.beta, *beta, point.refreshes, *refreshes, inside))
        lines.append(len(rows) - 1)
    return Table(
        name="series",
        title="The best beta where only the horizon differs",
        columns=(
            Column("Series"),
            Column("Budget", form=".0f"),
            Column("T_ES", form=".0f"),
            Column("best", "beta", ".4f"),
            Column("from", "beta", ".4f"),
            Column("to", "beta", ".4f"),
            Column("best", "Refreshes", ".0f"),
            Column("from", "Refreshes", ".0f"),
            Column("to", "Refreshes", ".0f"),
            Column("Bracketed"),
        ),
        rows=tuple(rows),
        rules_after=tuple(lines[:-1]),
        notes=tuple(_alpha(one) for one in analysis.series),
    )


def _alpha(one: Series) -> str:
    def shown(value: float, interval: Interval | None) -> str:
        return f"{value:.2f}" + (f" ({interval.lower:.2f} to {interval.upper:.2f})" if interval else "")

    useful = "" if one.alpha_useful is None else f", over T_ES {shown(one.alpha_useful, one.alpha_useful_interval)}"
    flat = "; one beta for all lies in every interval" if one.flat else ""
    power = f"1 - beta = {one.c:.3g} (T / {Power.t0:,}) ** -alpha"
    rate = ""
    if one.rate_alpha is not None:
        rate = f"; lr ~ T ** -alpha with alpha {shown(one.rate_alpha, one.rate_alpha_interval)}"
    return f"{one.name}: {power} with alpha {shown(one.alpha, one.alpha_interval)}{useful}{flat}{rate}"


def bounds(interval: Interval | None) -> tuple[float | None, float | None]:
    """Both ends of an interval as cells; of none, two that are not known."""
    return (None, None) if interval is None else (interval.lower, interval.upper)
