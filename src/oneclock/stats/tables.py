"""The tables of an analysis: plain values with their columns, nothing rendered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from oneclock.rule import Power
from oneclock.runs.paired import Interval
from oneclock.stats.analyse import Analysis
from oneclock.stats.exponents import Series
from oneclock.stats.verdict import bounds_words, in_brackets

Cell = str | int | float | None


@dataclass(frozen=True)
class Column:
    """A column: its heading, the group above it, and its numbers as `form` (".3f") prints them, maybe in per cent."""

    title: str
    group: str = ""
    form: str = ""
    percent: bool = False

    def show(self, value: Cell) -> str:
        """The cell as text; an unknown value is a dash.

        >>> Column("gap", form=".3f", percent=True).show(0.00515)
        '0.515'
        """
        if value is None:
            return "-"
        return value if isinstance(value, str) else format(value * 100 if self.percent else value, self.form)


@dataclass(frozen=True)
class Table:
    """A table of values: `best` has the (row, column) pairs in bold, `rules_after` the rows with a line below."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    rules_after: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def shown(self, row: int, column: int) -> str:
        """One cell as printed."""
        return self.columns[column].show(self.rows[row][column])


def interval_columns(figure: str, group: str, form: str, percent: bool = False) -> tuple[Column, ...]:
    """The columns of a figure and the two ends of its interval."""
    return tuple(Column(title, group, form, percent) for title in (figure, "from", "to"))


def bounds(interval: Interval | None) -> tuple[float | None, float | None]:
    """Both ends of an interval as cells; unknown if there is no interval."""
    return (None, None) if interval is None else (interval.lower, interval.upper)


def rules(analysis: Analysis) -> Table:
    """Every rule at its own beta for the planned steps: mean, max and CVaR of its excess loss."""
    rows = [
        (one.name, one.mean, *bounds(one.interval), one.max, one.cvar, f"{one.within}/{one.measured}")
        for one in analysis.rules
    ]
    whole = [row for row, one in enumerate(analysis.rules) if one.measured == len(analysis.experiments)]
    lowest = {column: min((rows[row][column] or 0.0 for row in whole), default=None) for column in (1, 4, 5)}
    note = (
        "Each rule at its own beta for the planned steps, interpolated between the swept ones, paired by seed. An "
        "experiment that was not swept near a rule's beta is left out for that rule. Bold is the best of the rules "
        "that leave out none."
    )
    figures = (Column(title, "Loss above the best, %", ".3f", True) for title in ("Mean", "from", "to", "Max", "CVaR"))
    return Table(
        name="rules",
        title="Rules side by side: excess loss over the best beta",
        columns=(Column("Rule"), *figures, Column("Under 1 %")),
        rows=tuple(rows),
        best=frozenset((row, column) for column, low in lowest.items() for row in whole if rows[row][column] == low),
        notes=(note,),
    )


def comparisons(analysis: Analysis) -> Table:
    """Rules two at a time: the mean difference by random effects; the CIs hold for all rows together."""
    return Table(
        name="rule-comparisons",
        title="Rules compared two at a time",
        columns=(
            *map(Column, ("Rule", "Against")),
            *interval_columns("mean", "Loss above it, %", ".2f", percent=True),
            Column("Experiments"),
            *(Column(title, "Significantly") for title in ("better", "worse")),
        ),
        rows=tuple(
            (one.first, one.second, one.difference, *bounds(one.interval), one.differing, one.better, one.worse)
            for one in analysis.comparisons
        ),
        notes=("95 % CIs that hold for all rows together. Experiments: those in which the two have different betas.",),
    )


def baselines(analysis: Analysis) -> Table:
    """Untied pairs beside the sweep, each against the recommended beta; no rows where there are none."""
    return Table(
        name="baselines",
        title="Baselines against the recommended beta",
        columns=(
            *map(Column, ("Experiment", "Betas")),
            Column("lr", form="g"),
            Column("Seeds"),
            Column("Loss", form=".4g"),
            Column("Against beta", form=".3g"),
            *interval_columns("excess", "Loss above it, %", ".2f", percent=True),
        ),
        rows=tuple(
            (result.name, one.name, one.lr, one.seeds, one.loss, one.against, one.excess, *bounds(one.interval))
            for result in analysis.experiments
            for one in result.baselines
        ),
        notes=("95 % CIs, paired by seed; those of one experiment hold together.",),
    )


def best_pairs(analysis: Analysis) -> Table:
    """The best pair of beta and learning rate, measured and fitted; no rows if one learning rate was swept."""
    rows: list[tuple[Cell, ...]] = []
    for result in analysis.experiments:
        if (surface := result.surface) is not None:
            beta, lr = map(bounds, (surface.beta_interval, surface.lr_interval))
            rows.append((result.name, result.best.beta, result.best.lr, surface.beta, *beta, surface.lr, *lr))
    measured = (Column("Experiment"), Column("beta", "Measured", "g"), Column("lr", "Measured", "g"))
    fitted = (*interval_columns("best", "Fitted beta", ".4f"), *interval_columns("best", "Fitted lr", ".3g"))
    return Table("best-pairs", "The best pair of beta and learning rate", measured + fitted, tuple(rows))


def series(analysis: Analysis) -> Table:
    """The best beta at each budget of a controlled series, with its interval; no rows where there is none."""
    points = [(one.name, point) for one in analysis.series for point in one.points]
    names = [name for name, _ in points]
    return Table(
        name="series",
        title="The best beta where only the horizon differs",
        columns=(
            Column("Series"),
            Column("Budget", form=".0f"),
            *interval_columns("best", "beta", ".4f"),
            Column("Bracketed"),
        ),
        rows=tuple(
            (name, point.budget, point.beta, *bounds(point.beta_interval), "yes" if point.bracketed else "no")
            for name, point in points
        ),
        rules_after=tuple(row for row, pair in enumerate(pairwise(names)) if pair[0] != pair[1]),
        notes=tuple(map(_alpha, analysis.series)),
    )


def _alpha(one: Series) -> str:
    alpha = f"alpha {one.alpha:.2f}{in_brackets(bounds_words(one.alpha_interval))}"
    flat = "; one beta for all lengths is not excluded" if one.flat else ""
    power = f"1 - beta = {one.c:.3g} (T / {Power.t0:,}) ** -alpha"
    lr = "" if one.lr_alpha is None else f"; lr ~ T ** -alpha with alpha {one.lr_alpha:.2f}"
    return f"{one.name}: {power} with {alpha}{flat}{lr}{in_brackets(bounds_words(one.lr_alpha_interval))}"


EVERY: tuple[Callable[[Analysis], Table], ...] = (best_pairs, baselines, rules, comparisons, series)
