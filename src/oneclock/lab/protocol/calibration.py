"""R0 and the power family: chosen on the development experiments, and checked on the held-out ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from oneclock.horizon.early_stop import one_digit
from oneclock.lab.protocol.data import ProtocolData, best_fixed, select_beta
from oneclock.lab.protocol.resampling import NoiseFloor, noise_floors
from oneclock.lab.protocol.risk import ProtocolRow, Risk, take_selected
from oneclock.rule import CALIBRATED, Power, Refresh, Rule
from oneclock.stats.experiments import FittedSweep, rule_beta
from oneclock.stats.rules import Outcome, RuleComparison, compare, mean_max_cvar

CANDIDATES: tuple[float, ...] = tuple(range(300, 2001, 100))
"""The paper's values of R0."""

SHORT_CANDIDATES: tuple[float, ...] = (10, 15, 20, 30, 50, 70, 100, 150, 200)
"""More values below them, for horizons shorter than the paper's."""

ALPHAS: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
SCALES: tuple[float, ...] = tuple(round(10 ** (-k / 8), 6) for k in range(2, 25))
"""1 - beta at the typical horizon, eight values per decade from 0.56 to 0.001."""


@dataclass(frozen=True)
class R0Row:
    """One candidate of the R0 sweep: admissible where it has a beta for every development experiment."""

    refreshes: float
    admissible: bool
    rule: ProtocolRow


@dataclass(frozen=True)
class PowerRow:
    """One member of 1 - beta = c * (T / t0) ** -alpha, on the development experiments; None if it has no beta."""

    alpha: float
    c: float
    mean: float | None
    max: float | None
    cvar: float | None


@dataclass(frozen=True)
class LeftOut:
    """One development experiment left out: the R0 that the others choose, and its gap in this one."""

    experiment: str
    refreshes: float | None
    beta: float | None
    gap: float | None


@dataclass(frozen=True)
class Calibration:
    """R0 and the power family chosen on the development experiments, and how far the choice can be trusted.

    `chosen` has the smallest maximum gap, ties to the smallest R0; `plateau` is every R0 with that maximum;
    `chosen_by_mean` is what the mean would choose. `power` is the family's table, `power_best` its best by max, ties
    to the smaller mean, then to alpha nearest 1, and `power_plateau` all with that maximum. `left_out_mean` and
    `left_out_max` sum up `left_out`. `noise_floor` is over the development experiments: the mean of their means, and
    the quantile of the largest among them, to hold against a mean and a maximum.
    """

    candidates: tuple[R0Row, ...]
    chosen: float | None
    plateau: tuple[float, ...]
    chosen_by_mean: float | None
    heldout: Risk | None
    power_t0: float
    power: tuple[PowerRow, ...]
    power_best: PowerRow | None
    power_plateau: tuple[PowerRow, ...]
    left_out: tuple[LeftOut, ...]
    left_out_mean: float | None
    left_out_max: float | None
    comparisons: tuple[RuleComparison, ...]
    noise_floor: NoiseFloor | None
    verdict: tuple[str, ...]


def candidates_for(horizons: Sequence[float]) -> tuple[float, ...]:
    """The R0 values to sweep: the paper's, and smaller ones where a horizon lies below the paper's range.

    >>> candidates_for([10_000, 30_000])[:3]
    (300, 400, 500)
    >>> candidates_for([2_000])[:3]
    (10, 15, 20)
    """
    return CANDIDATES if min(horizons) >= CALIBRATED[0] else SHORT_CANDIDATES + CANDIDATES


def choose(gaps: np.ndarray, figure: str = "max") -> tuple[int | None, tuple[int, ...]]:
    """The candidate (row) with the smallest figure over experiments (columns), the first of a tie; and all in the tie.

    A candidate with a NaN has no beta somewhere and cannot be chosen; None if that is all of them.

    >>> choose(np.array([[0.0, 3.0], [1.0, 2.0], [2.0, 2.0], [0.0, np.nan]]))
    (1, (1, 2))
    """
    if not gaps.size:
        return None, ()
    score = gaps.max(axis=1) if figure == "max" else gaps.mean(axis=1)
    score = np.where(np.isnan(score), np.inf, score)
    if not np.isfinite(score).any():
        return None, ()
    plateau = tuple(np.flatnonzero(score == score.min()).tolist())
    return plateau[0], plateau


def calibrate(
    data: ProtocolData, sweeps: Sequence[FittedSweep], names: Sequence[str], candidates: Sequence[float] | None = None
) -> Calibration:
    """Sweep R0 and the power family, leave each experiment out once, and compare the choice with its rivals.

    Without development experiments, all experiments calibrate and none is held out.
    """
    split = "development" if len(data.sets["development"]) else "all"
    rows = data.sets[split]
    candidates = sorted(candidates or candidates_for(data.horizons))
    sweep = [Refresh(refreshes) for refreshes in candidates]
    gaps = _gaps(data, sweep, rows)
    best, plateau = choose(gaps)
    by_mean, _ = choose(gaps, "mean")
    r0_rows = tuple(
        R0Row(float(rule.refreshes), bool(np.isfinite(row).all()), data.row(rule))
        for rule, row in zip(sweep, gaps, strict=True)
    )
    t0 = float(one_digit(float(np.exp(np.mean(np.log(np.array(data.horizons)[rows]))))))
    power, power_best, power_plateau = _power_family(data, rows, t0)
    left_out = _leave_one_out(data, sweep, gaps, rows, names)
    left_gaps = [left.gap for left in left_out if left.gap is not None]
    chosen = None if best is None else r0_rows[best]
    return Calibration(
        candidates=r0_rows,
        chosen=None if chosen is None else chosen.refreshes,
        plateau=tuple(r0_rows[index].refreshes for index in plateau),
        chosen_by_mean=None if by_mean is None else r0_rows[by_mean].refreshes,
        heldout=None if chosen is None or split == "all" else chosen.rule.heldout,
        power_t0=t0,
        power=power,
        power_best=power_best,
        power_plateau=power_plateau,
        left_out=left_out,
        left_out_mean=float(np.mean(left_gaps)) if left_gaps else None,
        left_out_max=max(left_gaps) if left_gaps else None,
        comparisons=_comparisons(data, sweeps, chosen, power_best, t0),
        noise_floor=_noise_floor(data, rows),
        verdict=(),
    )


def _gaps(data: ProtocolData, rules: Sequence[Rule], rows: np.ndarray) -> np.ndarray:
    """rules x experiments, NaN if a rule has no beta."""
    return np.stack(
        [take_selected(data.losses.gaps, select_beta(rule, data.horizons, data.losses.betas))[rows] for rule in rules]
    )


def _power_family(
    data: ProtocolData, rows: np.ndarray, t0: float
) -> tuple[tuple[PowerRow, ...], PowerRow | None, tuple[PowerRow, ...]]:
    members = [Power(c, alpha, t0) for alpha in ALPHAS for c in SCALES]
    gaps = _gaps(data, members, rows)
    complete = np.isfinite(gaps).all(axis=1)
    table = tuple(
        PowerRow(rule.alpha, rule.c, *(map(float, mean_max_cvar(row)) if answered else (None, None, None)))
        for rule, row, answered in zip(members, gaps, complete, strict=True)
    )
    _, indices = choose(gaps)
    plateau = tuple(table[index] for index in indices)
    best = min(plateau, key=lambda row: (row.mean or 0.0, abs(row.alpha - 1), row.c), default=None)
    return table, best, plateau


def _leave_one_out(
    data: ProtocolData, sweep: Sequence[Refresh], gaps: np.ndarray, rows: np.ndarray, names: Sequence[str]
) -> tuple[LeftOut, ...]:
    if len(rows) < 2:
        return ()
    result = []
    for number, row in enumerate(rows):
        best, _ = choose(np.delete(gaps, number, axis=1))
        if best is None or np.isnan(gaps[best, number]):
            result.append(LeftOut(names[row], None if best is None else float(sweep[best].refreshes), None, None))
            continue
        index = select_beta(sweep[best], data.horizons, data.losses.betas)
        beta = float(data.losses.betas[row, index[row]])
        result.append(LeftOut(names[row], float(sweep[best].refreshes), beta, float(gaps[best, number])))
    return tuple(result)


def _comparisons(
    data: ProtocolData,
    sweeps: Sequence[FittedSweep],
    chosen: R0Row | None,
    power: PowerRow | None,
    t0: float,
) -> tuple[RuleComparison, ...]:
    """The chosen R0 against its rivals on all experiments, each at T_ES and at its own beta, paired by seed."""
    if chosen is None:
        return ()

    def at_t_es(rule: Rule) -> Outcome:
        return Outcome(rule.name, tuple(rule_beta(rule, steps) for steps in data.horizons))

    rivals: list[Rule] = [best_fixed(data, "mean"), best_fixed(data, "max")]
    if power is not None:
        rivals.append(Power(power.c, power.alpha, t0))
    own = at_t_es(Refresh(chosen.refreshes))
    return compare([(own, at_t_es(rival)) for rival in dict.fromkeys(rivals)], sweeps)


def _noise_floor(data: ProtocolData, rows: np.ndarray) -> NoiseFloor | None:
    floors, drawn = noise_floors(data.losses, data.resamples)
    measured = [floor for row, floor in enumerate(floors) if floor is not None and row in rows]
    if drawn is None or not measured:
        return None
    level = data.resamples.level
    return NoiseFloor(
        mean=float(drawn[:, rows].mean()),
        high=float(np.quantile(drawn[:, rows].max(axis=1), level)),
        level=level,
        relative_spread=float(np.mean([floor.relative_spread for floor in measured])),
    )
