"""Rules side by side: any rule on the same sweeps and the same resampled draws, so that differences mean something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from oneclock.analysis.bootstrap import Resamples, basic_interval, joined
from oneclock.analysis.picks import at, picks
from oneclock.analysis.risk import figures, within
from oneclock.analysis.values import Comparison, Estimate, HorizonSource, Risk, RuleRow
from oneclock.rule import Fixed, Rule
from oneclock.study.best import Interval
from oneclock.study.losses import Losses

FIGURES: tuple[Literal["mean", "max", "cvar"], ...] = ("mean", "max", "cvar")


@dataclass(frozen=True, eq=False)
class Ground:
    """What every rule meets: n sweeps with their horizons and budgets, split into `sets` of indices, and the draws.

    `train_gaps` are n x m gaps on the training loss, None where it was not recorded everywhere.
    """

    losses: Losses
    train_gaps: np.ndarray | None
    horizons: tuple[float, ...]
    sets: dict[str, np.ndarray]
    resamples: Resamples
    known: dict[tuple[str, bytes], Risk] = field(default_factory=dict)

    def row(
        self,
        rule: Rule,
        horizons: Sequence[float] | None = None,
        name: str | None = None,
        horizon: HorizonSource | Literal["t_es"] = "t_es",
        chosen_by: str | None = None,
    ) -> RuleRow:
        """What `rule` picks in every experiment and its risk by split; `horizons` default to T_ES."""
        index = picks(rule, self.horizons if horizons is None else horizons, self.losses.betas)
        risks = {split: self.risk(index, split) for split in self.sets}
        return RuleRow(
            name=name or rule.name,
            horizon=horizon,
            chosen_by=chosen_by,
            betas=_known(at(self.losses.betas, index)),
            gaps=_known(at(self.losses.gaps, index)),
            **risks,
        )

    def risk(self, index: np.ndarray, split: str) -> Risk | None:
        """The risk of these picks on one split; None where it is empty or the rule has no beta anywhere in it."""
        rows = self.sets[split]
        answered = rows[index[rows] >= 0]
        if not len(answered):
            return None
        key = (split, index.tobytes())
        if key not in self.known:
            self.known[key] = self._risk(index, split, len(rows), answered)
        return self.known[key]

    def _risk(self, index: np.ndarray, split: str, experiments: int, answered: np.ndarray) -> Risk:
        gaps = at(self.losses.gaps, index)[answered]
        drawn = self.drawn(self.resamples.gaps_at(index), index, split, answered)
        likely = self.drawn(self.resamples.likely_gaps_at(index, self.losses), index, split, answered)
        mean, largest, tail = (
            Estimate(
                float(value),
                self._interval(float(value), place, drawn[0], likely[0]),
                self._interval(float(value), place, drawn[1], likely[1]),
            )
            for place, value in enumerate(figures(gaps))
        )
        train = None if self.train_gaps is None else float(at(self.train_gaps, index)[answered].mean())
        return Risk(experiments, len(answered), mean, largest, tail, int(within(gaps)), train)

    def _interval(
        self, value: float, place: int, drawn: np.ndarray | None, likely: np.ndarray | None
    ) -> Interval | None:
        if drawn is None or likely is None:
            return None
        return joined(basic_interval(value, drawn[place], self.resamples.level), likely[place])

    def drawn(
        self, gaps: np.ndarray | None, index: np.ndarray, split: str, answered: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """From draws x n gaps (None: no seeds), 3 x draws figures: as drawn, and with experiments resampled too."""
        by_seed = None if gaps is None else gaps[:, answered]
        if len(answered) < 2:
            return (None if by_seed is None else figures(by_seed)), None
        members = (self.resamples.places[split][:, : len(answered)] * len(answered)).astype(np.intp)
        if by_seed is None:
            return None, figures(at(self.losses.gaps, index)[answered][members])
        return figures(by_seed), figures(np.take_along_axis(by_seed, members, axis=1))


def compare(ground: Ground, first: RuleRow, second: RuleRow, split: str) -> list[Comparison]:
    """The differences of two rules in mean, max and CVaR on one split, by paired draws; none where one has no beta."""
    rows = ground.sets[split]
    one, two = (index_of(ground, row) for row in (first, second))
    if not len(rows) or (one[rows] < 0).any() or (two[rows] < 0).any():
        return []
    draws = [ground.drawn(ground.resamples.gaps_at(index), index, split, rows)[1] for index in (one, two)]
    with np.errstate(invalid="ignore"):  # where both diverge, the difference is not known
        values = figures(at(ground.losses.gaps, one)[rows]) - figures(at(ground.losses.gaps, two)[rows])
        drawn = None if draws[0] is None or draws[1] is None else draws[0] - draws[1]
    result = []
    for place, figure in enumerate(FIGURES):
        difference = float(values[place])
        figures_drawn = None if drawn is None else drawn[place]
        interval = basic_interval(difference, figures_drawn, ground.resamples.level, floor=-np.inf)
        interval = joined(interval, figures_drawn)  # a maximum is no smooth figure: both kinds must leave out zero
        apart = interval is not None and (interval.lower > 0 or interval.upper < 0)
        result.append(Comparison(first.name, second.name, split, len(rows), figure, difference, interval, apart))
    return result


def best_fixed(ground: Ground, figure: Literal["mean", "max"]) -> Fixed:
    """The swept beta with the smallest development mean (or max) gap when used everywhere; ties to the smaller beta.

    One that every experiment was swept at comes before one that some were not. Without development experiments all of
    them choose.
    """
    rows = ground.sets["development"] if len(ground.sets["development"]) else ground.sets["all"]
    place = FIGURES.index(figure)
    return min(map(Fixed, swept(ground)), key=lambda rule: (_figure(ground, rule, rows, place), rule.beta))


def swept(ground: Ground) -> list[float]:
    """Every beta that some experiment was swept at, ascending."""
    betas = ground.losses.betas
    return np.unique(betas[~np.isnan(betas)]).tolist()


def _figure(ground: Ground, rule: Rule, rows: np.ndarray, place: int) -> tuple[int, float]:
    """How many experiments the rule has no beta for, and the figure over the others."""
    index = picks(rule, ground.horizons, ground.losses.betas)
    answered = rows[index[rows] >= 0]
    value = float(figures(at(ground.losses.gaps, index)[answered])[place]) if len(answered) else np.inf
    return len(rows) - len(answered), value


def index_of(ground: Ground, row: RuleRow) -> np.ndarray:
    """Where the betas that a rule picked stand in what each experiment was swept at; -1 where it has none."""
    return np.array(
        [
            -1 if beta is None else int(np.searchsorted(grid, beta))
            for grid, beta in zip(ground.losses.betas, row.betas, strict=True)
        ]
    )


def _known(values: np.ndarray) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(value) else float(value) for value in values)
