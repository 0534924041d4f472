"""Which beta is best: the one verdict on a sweep, from runs of several betas, seeds and learning rates.

Losses are paired by seed, and each beta counts at its own best learning rate. A diverged run makes its beta worse than
any finite loss; a run without a result says nothing, and the verdict is then more cautious.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from oneclock.recommend import short_beta
from oneclock.runs.paired import CellRun, Difference, Interval, PairedSweep
from oneclock.runs.planned import missing_in_words
from oneclock.runs.record import ON_PURPOSE, RunRecord
from oneclock.runs.sweeps import Sweep

NEAR = 5
"""Betas that share one parabola: the best and two to each side."""

_SAME_LENGTH = 0.99
"""Runs whose last steps differ by a smaller share count as equally long."""

TiedCell = tuple[float, float | None]
"""A tied beta and its learning rate."""


@dataclass(frozen=True)
class Baseline:
    """An untied pair of betas at its own best learning rate, and how far its loss lies above the best tied beta's."""

    betas: tuple[float, float]
    lr: float | None
    difference: Difference


@dataclass(frozen=True)
class Best:
    """The best tied beta of a sweep; `beta` is None if the runs allow no answer. `note` says why, or what to know.

    `interval` is the 95 % CI of the best beta. It spans `tied_with` (the betas that are statistically tied with it) and
    `not_measured` (betas in it or next to it without a result, or without one at a learning rate near their best one).
    It is None if the spread between seeds is unknown. `lr` is the learning rate that the best beta was best at; None
    where one was used. `at_edge` names what was swept too little, `beta` or `lr`: the best may lie beyond the sweep.
    `lost_runs` counts the runs without a result at the best beta; at all betas if none is best.
    """

    beta: float | None
    interval: Interval | None
    tied_with: tuple[float, ...]
    note: str
    lr: float | None = None
    at_edge: tuple[str, ...] = ()
    not_measured: tuple[float, ...] = ()
    seeds_repeat: bool = False
    baselines: tuple[Baseline, ...] = ()
    lost_runs: int = 0

    @property
    def summary(self) -> str:
        """One line for people, in two or three digits.

        >>> Best(0.68377, Interval(0.43766, 0.82217), (), "0.44 and 0.82 are statistically tied with it").summary
        'best beta 0.68 (95 % CI 0.44 to 0.82; 0.44 and 0.82 are statistically tied with it)'
        """
        if self.beta is None:
            return f"no best beta: {self.note}"
        lr = "" if self.lr is None else f" at lr {self.lr:g}"
        interval = "" if self.interval is None else f"{ci_words(self.interval)}; "
        return f"best beta {short_beta(self.beta)}{lr} ({interval}{self.note})"


def at_best_lrs(sweep: Sweep) -> Sweep:
    """The sweep with each beta, and each baseline, at its own best learning rate, paired by seed."""
    runs = [*sweep.tied, *sweep.untied]
    if len({run.lr for run in runs}) < 2:
        return sweep
    lrs = PairedSweep(cell_runs(runs)).best_lrs()
    tied, untied = (tuple(run for run in side if run.lr == lrs[run.beta]) for side in (sweep.tied, sweep.untied))
    return replace(sweep, tied=tied, untied=untied)


def cell_runs(runs: Iterable[RunRecord]) -> list[CellRun]:
    """Runs in the form for the fit."""
    return [(run.beta, run.lr, run.seed, run.loss) for run in runs]


def best_of(runs: Iterable[RunRecord], under_way: bool = False) -> Best:
    """The verdict on a sweep: the best tied beta at its best learning rate, its 95 % CI, and baselines beside it.

    >>> from oneclock.runs.key import RunKey
    >>> def run(beta, lr, loss): return RunRecord(RunKey("a", beta, 1, 9, lr), "finished", 9, loss)
    >>> best = best_of([run(0.9, 1.0, 2.0), run(0.9, 0.5, 1.8), run(0.99, 1.0, 1.9), run(0.99, 0.5, 2.1)])
    >>> best.beta, best.lr
    (0.9, 0.5)
    """
    records = list(runs)
    return with_missing(judge(PairedSweep(cell_runs(records))), records, under_way)


def with_missing(best: Best, runs: Sequence[RunRecord], under_way: bool = False) -> Best:
    """The verdict with a note on runs without a result, or with less training: another beta might be the best.

    While a sweep is under way, planned runs are not missing but still to come.
    """
    without = [run for run in runs if not run.has_loss]
    missing = [run.key for run in without if run.status in ("waiting", "damaged")]
    lost = [run for run in without if best.beta is None or (run.beta == best.beta and best.lr in (None, run.lr))]
    notes = [best.note]
    if (count := sum(run.key not in missing for run in lost)) and best.beta is not None:
        notes.append(f"{count} run{' has' if count == 1 else 's have'} no result at {short_beta(best.beta)}")
    notes += [missing_in_words(missing, under_way) if missing else "", _shorter(runs)]
    return replace(best, note="; ".join(filter(None, notes)), lost_runs=len(lost))


def _shorter(runs: Sequence[RunRecord]) -> str:
    """Finished runs that end before others, other than on purpose.

    >>> from oneclock.runs.key import RunKey
    >>> _shorter([RunRecord(RunKey("a", 0.9, seed, 900), "finished", 300 * seed) for seed in (1, 2, 3)])
    '2 of 3 runs end before step 900, the earliest at step 300'
    """
    ends = [run.steps for run in runs if run.status == "finished" and not (run.reason or "").startswith(ON_PURPOSE)]
    last = max(ends, default=0)
    early = [step for step in ends if step < _SAME_LENGTH * last]
    if not early:
        return ""
    end = "ends" if len(early) == 1 else "end"
    return f"{len(early)} of {len(ends)} runs {end} before step {last:,}, the earliest at step {min(early):,}"


def judge(sweep: PairedSweep) -> Best:
    """`best_of` for a fitted sweep."""
    lrs = sweep.best_lrs()
    tied = [(beta, lr) for beta, lr in lrs.items() if not isinstance(beta, tuple)]
    finite = [cell for cell in tied if cell in sweep.cells]
    if why := _why_none(sweep, tied, finite):
        return Best(None, None, (), why, seeds_repeat=sweep.seeds_repeat)
    best = _choose(sweep, finite)
    others = [cell for cell in finite if cell != best]
    compared = zip(others, sweep.compare([({cell: 1.0}, {best: 1.0}) for cell in others], finite), strict=True)
    ties = tuple(cell[0] for cell, one in compared if one.interval and one.interval.lower <= 0)
    swept, unknown = sorted(beta for beta, _ in tied), without_result(sweep)
    near = _widened(Interval(min(best[0], *ties, best[0]), max(best[0], *ties, best[0])), swept, unknown)
    not_measured = tuple(one for one in unknown if one in near)
    swept_lrs = _swept_lrs(sweep)
    edges = _edges(best, swept, unknown, swept_lrs)
    missing = f"no result yet at {beta_list(not_measured)}, where the best may lie" if not_measured else ""
    pairs = [(pair, lr) for pair, lr in lrs.items() if isinstance(pair, tuple) and (pair, lr) in sweep.cells]
    differences = sweep.compare([({pair: 1.0}, {best: 1.0}) for pair in pairs])  # their CIs hold together
    return Best(
        beta=best[0],
        interval=near if sweep.has_noise else None,
        tied_with=ties,
        note="; ".join(filter(None, (*edges.values(), missing, _seeds(sweep, ties, bool(unknown))))),
        lr=best[1] if len(swept_lrs) > 1 else None,
        at_edge=tuple(edges),
        not_measured=not_measured,
        seeds_repeat=sweep.seeds_repeat,
        baselines=tuple(Baseline(*pair, one) for pair, one in zip(pairs, differences, strict=True)),
    )


def _why_none(sweep: PairedSweep, tied: Sequence[TiedCell], finite: Sequence[TiedCell]) -> str:
    if not finite:
        return "no beta ended with a finite loss" if tied else "no run with one beta has finished"
    if len(finite) == 1:
        return "only one beta has a loss: there is nothing to compare it with"
    losses = [sweep.losses[cell] for cell in finite]
    if max(losses) - min(losses) <= 1e-12 * max(map(abs, losses)):
        return f"all betas {'' if len(finite) == len(tied) else 'with a loss '}end at the same loss"
    return ""


def _choose(sweep: PairedSweep, cells: Sequence[TiedCell]) -> TiedCell:
    """The lowest point of a parabola in log10(1 - beta), among the betas within one standard error of the lowest loss.

    In `benchmarks/adaptive_vs_paper.py` this loses less than the plain minimum where seeds are noisy, and no more where
    they are not.
    """
    lowest = min(cells, key=lambda cell: (sweep.losses[cell], cell[0]))
    first = max(min(cells.index(lowest) - NEAR // 2, len(cells) - NEAR), 0)
    window = cells[first : first + NEAR]
    if not sweep.has_noise or len(window) < 4:
        return lowest
    u = np.log10([1 - beta for beta, _ in window])
    levels = np.array([sweep.losses[cell] for cell in window])
    levels = np.log(levels) if sweep.is_log else levels
    curve = np.polyfit(u, levels, 2, w=np.sqrt([sweep.seeds_at(cell) for cell in window]))
    if curve[0] <= 0:
        return lowest
    above = dict(zip(window, (levels - levels.min()).tolist(), strict=True))
    height = dict(zip(window, np.polyval(curve, u).tolist(), strict=True))
    within = [cell for cell in window if above[cell] <= sweep.standard_error(cell, lowest)]
    return min(within, key=lambda cell: (height[cell], cell[0]))


def without_result(sweep: PairedSweep) -> list[float]:
    """Tied betas without a result, or without one at a learning rate next to their best one: they may be better."""
    best, swept = sweep.best_lrs(), _swept_lrs(sweep)

    def may_be_better(beta: float, lr: float | None) -> bool:
        if (own := best.get(beta)) is None:
            return True
        return lr is not None and abs(swept.index(lr) - swept.index(own)) <= 1

    return sorted({beta for beta, lr in sweep.unknown if not isinstance(beta, tuple) and may_be_better(beta, lr)})


def _swept_lrs(sweep: PairedSweep) -> list[float]:
    """The learning rates of tied runs, with and without a result."""
    cells = (*sweep.losses, *sweep.unknown)
    return sorted({lr for beta, lr in cells if lr is not None and not isinstance(beta, tuple)})


def _widened(interval: Interval, measured: Sequence[float], unknown: Sequence[float]) -> Interval:
    """The interval, extended to the betas next to it that have no result."""
    order = sorted({*measured, *unknown})
    low, high = order.index(interval.lower), order.index(interval.upper)
    while low > 0 and order[low - 1] in unknown:
        low -= 1
    while high < len(order) - 1 and order[high + 1] in unknown:
        high += 1
    return Interval(order[low], order[high])


def _edges(best: TiedCell, swept: Sequence[float], unknown: Sequence[float], lrs: Sequence[float]) -> Mapping[str, str]:
    """A note for each axis at whose edge the best lies. Below a beta of 0 there is nothing to sweep."""
    (beta, lr), edges = best, {}
    if beta == swept[-1] or (beta == swept[0] and beta > 0):
        which = "largest" if beta == swept[-1] else "smallest"
        beyond = any(one > beta if beta == swept[-1] else one < beta for one in unknown)
        kind = "beta with a result" if beyond else "beta swept"
        edges["beta"] = f"at the edge of the sweep: {short_beta(beta)} is the {which} {kind}"
    if lr is not None and len(lrs) > 1 and lr in (lrs[0], lrs[-1]):
        which = "largest" if lr == lrs[-1] else "smallest"
        edges["lr"] = f"at the edge of the sweep: {lr:g} is the {which} learning rate swept"
    return edges


def _seeds(sweep: PairedSweep, ties: Sequence[float], missing: bool) -> str:
    """What the spread between seeds shows."""
    if sweep.seeds_repeat:
        where = "all seeds gave the same losses at all or most betas"
        return f"{where}, so there is no interval: does the training use its seed?"
    repeated = f"seed {', '.join(map(str, sweep.repeated))} repeats the losses of another seed and counts once; "
    if not sweep.has_noise and sweep.noise[0].freedom:
        words = "seeds differ by the same factor at every beta, so there is no interval"
    elif not sweep.has_noise:
        words = f"{'one seed' if len(sweep.seeds) == 1 else 'too few seeds'}: no interval"
    elif not ties:
        words = f"statistically different from every other beta{' with a result' if missing else ''}"
    elif len(ties) > 4:
        words = f"{len(ties)} other betas are statistically tied with it"
    else:
        words = f"{beta_list(ties)} {'is' if len(ties) == 1 else 'are'} statistically tied with it"
    return (repeated if sweep.repeated else "") + words


def next_step(best: Best) -> str:
    """The next step after a verdict: the line to paste, or what to run first.

    >>> next_step(Best(0.9, Interval(0.9, 0.9), (), ""))
    'BalancedAdamW(model.parameters(), lr=..., beta=0.9)'
    """
    if best.beta is None and best.lost_runs:
        return f"get the missing results, {best.lost_runs} in all (the same sweep again, oneclock retry, or wait)."
    if best.beta is None:
        return "sweep more betas, or more seeds, with --extend."
    if best.seeds_repeat:
        return "make the training use its seed, and sweep again."
    lower = sorted((one for one in best.baselines if one.difference.value < 0), key=lambda one: one.difference.value)
    for one in lower:
        if one.difference.significant:
            line = f"AdamW(model.parameters(), lr={_lr(one.lr)}, betas={_pair(one)})"
            return f"{line} is significantly better than the best tied beta of this sweep."
    if best.not_measured or best.lost_runs:
        lacking = sorted({*best.not_measured, *([best.beta] if best.lost_runs else [])})
        return f"get results at beta {beta_list(lacking)} (oneclock retry, or wait), before you rely on it."
    if best.at_edge:
        edges = " ".join("--betas .." if axis == "beta" else "--learning-rates .." for axis in best.at_edge)
        return f"sweep beyond the edge with --extend {edges}, before you rely on it."
    line = f"BalancedAdamW(model.parameters(), lr={_lr(best.lr)}, beta={best.beta:g})"
    if not lower:
        return line
    if all(one.difference.interval is None for one in lower):
        than = f"{_pair(lower[0])} has a lower loss than every tied beta"
        return f"sweep more seeds with --extend: {than}, and one seed cannot tell."
    return f"{line}. {_pair(lower[0])} has a lower loss, but is statistically tied."


def _pair(one: Baseline) -> str:
    return f"({one.betas[0]:g}, {one.betas[1]:g})"


def _lr(lr: float | None) -> str:
    return "..." if lr is None else f"{lr:g}"


def beta_list(betas: Sequence[float]) -> str:
    """`0.44, 0.68 and 0.82`."""
    *most, last = map(short_beta, betas)
    return " and ".join(filter(None, (", ".join(most), last)))


def ci_words(interval: Interval) -> str:
    """`95 % CI 0.44 to 0.82`, of betas."""
    return f"{100 * interval.level:g} % CI {short_beta(interval.lower)} to {short_beta(interval.upper)}"
