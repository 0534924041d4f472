"""The paper's protocol: rules at T_ES, moved to the nearest swept beta, by the gap of plain means to the oracle.

The paper's tables, the calibration of R0 and the noise in T_ES are made from this. `oneclock.stats.rules` compares
rules without the grid, paired by seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from oneclock.lab.protocol.horizons import Horizons
from oneclock.lab.protocol.losses import Losses, losses_of
from oneclock.lab.protocol.resampling import DRAWS, Resamples, basic_interval, resample, widened
from oneclock.lab.protocol.risk import Estimate, ProtocolRow, Risk, take_selected
from oneclock.rule import Fixed, Rule
from oneclock.runs.paired import Interval
from oneclock.runs.sweeps import Sweep
from oneclock.stats.experiments import rule_beta
from oneclock.stats.rules import NEAR, mean_max_cvar

FIGURES: tuple[Literal["mean", "max", "cvar"], ...] = ("mean", "max", "cvar")


@dataclass(frozen=True, eq=False)
class ProtocolData:
    """The data for every rule: n sweeps with their horizons, split into `sets` of indices, and the draws."""

    losses: Losses
    horizons: tuple[float, ...]
    sets: dict[str, np.ndarray]
    resamples: Resamples
    computed: dict[tuple[str, bytes], Risk] = field(default_factory=dict)

    def row(self, rule: Rule, name: str | None = None) -> ProtocolRow:
        """What `rule` picks in every experiment by T_ES, and its risk by split."""
        index = select_beta(rule, self.horizons, self.losses.betas)
        risks = {split: self.risk(index, split) for split in self.sets}
        return ProtocolRow(
            name=name or rule.name,
            betas=_known(take_selected(self.losses.betas, index)),
            gaps=_known(take_selected(self.losses.gaps, index)),
            **risks,
        )

    def risk(self, index: np.ndarray, split: str) -> Risk | None:
        """The risk of these picks on one split; None if it is empty or the rule has no beta anywhere in it."""
        rows = self.sets[split]
        answered = rows[index[rows] >= 0]
        if not len(answered):
            return None
        key = (split, index.tobytes())
        if key not in self.computed:
            self.computed[key] = self._risk(index, split, len(rows), answered)
        return self.computed[key]

    def _risk(self, index: np.ndarray, split: str, experiments: int, answered: np.ndarray) -> Risk:
        gaps = take_selected(self.losses.gaps, index)[answered]
        drawn = self.drawn(self.resamples.gaps_at(index), index, split, answered)
        likely = self.drawn(self.resamples.likely_gaps_at(index, self.losses), index, split, answered)
        mean, largest, tail = (
            Estimate(
                float(value),
                self._interval(float(value), figure, drawn[0], likely[0]),
                self._interval(float(value), figure, drawn[1], likely[1]),
            )
            for figure, value in enumerate(mean_max_cvar(gaps))
        )
        return Risk(experiments, len(answered), mean, largest, tail, int((gaps < NEAR).sum()))

    def _interval(
        self, value: float, index: int, drawn: np.ndarray | None, likely: np.ndarray | None
    ) -> Interval | None:
        if drawn is None or likely is None:
            return None
        return widened(basic_interval(value, drawn[index], self.resamples.level), likely[index])

    def drawn(
        self, gaps: np.ndarray | None, index: np.ndarray, split: str, answered: np.ndarray
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """From draws x n gaps (None: no seeds), 3 x draws figures: as drawn, and with experiments resampled too."""
        by_seed = None if gaps is None else gaps[:, answered]
        if len(answered) < 2:
            return (None if by_seed is None else mean_max_cvar(by_seed)), None
        members = (self.resamples.uniforms[split][:, : len(answered)] * len(answered)).astype(np.intp)
        if by_seed is None:
            return None, mean_max_cvar(take_selected(self.losses.gaps, index)[answered][members])
        return mean_max_cvar(by_seed), mean_max_cvar(np.take_along_axis(by_seed, members, axis=1))


def best_fixed(data: ProtocolData, figure: Literal["mean", "max"]) -> Fixed:
    """The swept beta with the smallest development mean (or max) gap when used everywhere; ties to the smaller beta.

    Betas that every experiment swept are preferred. Without development experiments, all experiments choose.
    """
    rows = data.sets["development"] if len(data.sets["development"]) else data.sets["all"]
    index = FIGURES.index(figure)
    return min(map(Fixed, swept(data)), key=lambda rule: (_figure(data, rule, rows, index), rule.beta))


def swept(data: ProtocolData) -> list[float]:
    """Every beta that some experiment was swept at, ascending."""
    betas = data.losses.betas
    return np.unique(betas[~np.isnan(betas)]).tolist()


def _figure(data: ProtocolData, rule: Rule, rows: np.ndarray, number: int) -> tuple[int, float]:
    """How many experiments the rule has no beta for, and the figure over the others."""
    index = select_beta(rule, data.horizons, data.losses.betas)
    answered = rows[index[rows] >= 0]
    value = float(mean_max_cvar(take_selected(data.losses.gaps, index)[answered])[number]) if len(answered) else np.inf
    return len(rows) - len(answered), value


def index_of(data: ProtocolData, row: ProtocolRow) -> np.ndarray:
    """The index of the rule's picks among the swept betas of each experiment; -1 where it has none."""
    return np.array(
        [
            -1 if beta is None else int(np.searchsorted(grid, beta))
            for grid, beta in zip(data.losses.betas, row.betas, strict=True)
        ]
    )


def _known(values: np.ndarray) -> tuple[float | None, ...]:
    return tuple(None if np.isnan(value) else float(value) for value in values)


def protocol_data(
    sweeps: Sequence[Sweep], horizons: Sequence[Horizons], draws: int = DRAWS, seed: int = 0
) -> ProtocolData:
    """The data for every rule: the arrays of the sweeps, their split, and the resampled draws."""
    losses = losses_of(sweeps)
    splits = np.array([sweep.split for sweep in sweeps])
    sets = {split: np.flatnonzero(splits == split) for split in ("development", "heldout")}
    sets["all"] = np.arange(len(sweeps))
    return ProtocolData(
        losses=losses,
        horizons=tuple(horizon.used for horizon in horizons),
        sets=sets,
        resamples=resample(losses, sets, draws, seed=seed),
    )


_APART = 1e-12
"""For betas farther apart than this, rounding cannot change which one is nearer."""


def nearest(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """The index of the nearest value of one experiment's grid, for many values; a tie goes to the smaller.

    Plain distance, as `rule.nearest_beta`. The grid ascends and is padded with NaN.

    >>> nearest(np.array([[0.95, 0.5]]), np.array([0.0, 0.9, 0.99, np.nan]))
    array([[2, 1]])
    """
    grid = grid[np.isfinite(grid)]
    if len(grid) == 1:
        return np.zeros(values.shape, dtype=np.intp)
    index = np.clip(np.searchsorted(grid, values), 1, len(grid) - 1)  # from the first that is not below
    while True:
        down = (index > 0) & (np.abs(grid[index - 1] - values) <= np.abs(grid[index] - values))
        index -= down
        if not down.any() or np.diff(grid).min() > _APART:
            return index


def select_beta(rule: Rule, horizons: Sequence[float], grids: np.ndarray) -> np.ndarray:
    """The index of the swept beta that the rule picks in each experiment, -1 where the rule has no beta.

    A fixed beta is that very beta: it is not projected, and has no answer where it was not swept.

    >>> from oneclock.rule import Fixed, Refresh
    >>> grids = np.array([[0.0, 0.9, 0.99], [0.0, 0.95, 0.99]])
    >>> select_beta(Fixed(0.95), [20_000] * 2, grids), select_beta(Refresh(), [20_000] * 2, grids)
    (array([-1,  1]), array([2, 1]))
    """
    picks = np.full(len(grids), -1)
    for row, (horizon, grid) in enumerate(zip(horizons, grids, strict=True)):
        beta = rule_beta(rule, horizon)
        if beta is not None and (not isinstance(rule, Fixed) or beta in grid):
            picks[row] = nearest(np.array([beta]), grid)[0]
    return picks
