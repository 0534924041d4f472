"""Which beta is best: what a person should use, told from runs of several betas and seeds, with how sure that is.

Every seed starts from the same weights and sees the same batches at every beta, so a seed lifts or lowers its whole
curve: that lift is taken out first, by least squares over the best few betas, and a beta with one seed is then compared
fairly with one that has three. Of the betas within one standard error of the smallest loss, the one is best at which a
parabola in log10(1 - beta) through the neighbourhood is lowest: in `benchmarks/adaptive_vs_paper.py` this loses less
than the plain minimum where seeds are noisy, and no more where they are not. A diverged run makes its beta worse than
any finite loss. The paper's oracle, the smallest mean of all, is in `oneclock.study.losses`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from oneclock.study.identity import Beta
from oneclock.study.sweeps import Sweep, Trial

NEAR = 5
"""Betas that share one estimate of the noise and one parabola: the best and two to each side."""

DRAWS = 2000
LEVEL = 0.95

Cell = tuple[float, int, float]
"""(beta, seed, loss) of one run: infinite where it diverged, NaN where it failed and nothing is known."""


@dataclass(frozen=True)
class Interval:
    """An interval at `level` (0.95: nineteen of twenty)."""

    lower: float
    upper: float
    level: float


@dataclass(frozen=True)
class Best:
    """The best beta of a sweep; None where the runs allow no answer, and `word` says why or how sure it is.

    `interval` holds the best beta in nineteen of twenty repeats, and all of `tied_with`: the betas not told apart from
    it, by seeds in pairs. Both need a beta with two seeds: without, the interval is None and nothing is tied. `rate` is
    the learning rate that the best beta was best at; None where one rate was swept. `at_end` names what was swept too
    little, `beta` or `rate`: the best lies at an end of it, and may lie beyond.
    """

    beta: float | None
    interval: Interval | None
    tied_with: tuple[float, ...]
    word: str
    rate: float | None = None
    at_end: tuple[str, ...] = ()


def best_beta(runs: Iterable[Cell], draws: int = DRAWS) -> Best:
    """The best of the betas that were run, each with one seed or more; without `draws`, how sure that is stays open.

    >>> runs = [(0.9, 1, 2.00), (0.9, 2, 2.20), (0.99, 1, 2.10), (0.99, 2, 2.31), (0.5, 1, 2.05)]
    >>> found = best_beta(runs)
    >>> found.beta, found.tied_with
    (0.9, (0.5,))
    """
    fit = _Paired(runs)
    if not fit.betas:
        return _none("no beta ended with a finite loss" if fit.swept else "no run with one beta has left a loss")
    if len(fit.betas) == 1:
        return _none("one beta was swept: there is nothing to compare it with")
    if max(fit.level.values()) - min(fit.level.values()) <= 1e-12 * max(map(abs, fit.level.values())):
        return _none("all betas end at the same loss: no one of them is best")
    beta = fit.chosen
    end = _at_an_end(beta, fit.swept)
    at_end = ("beta",) if end else ()
    drawn = fit.drawn(draws)
    if drawn is None:
        return Best(beta, None, (), _joined(end, "one seed: how sure this is cannot be told"), at_end=at_end)
    share = round((1 - LEVEL) / 2 * draws)
    lowest = np.partition(drawn.argmin(axis=1), [share, draws - 1 - share])
    lower, upper = fit.near[lowest[share]], fit.near[lowest[draws - 1 - share]]
    differences = np.partition(drawn - drawn[:, [fit.near.index(beta)]], share, axis=0)[share]
    tied = tuple(b for b, low in zip(fit.near, differences, strict=True) if b != beta and low <= 0)
    interval = Interval(min(lower, beta, *tied), max(upper, beta, *tied), LEVEL)
    return Best(beta, interval, tied, _joined(end, _told_apart(tied)), at_end=at_end)


RatedCell = tuple[Beta, float | None, int, float]
"""(beta or untied pair, rate, seed, loss) of one run."""


def best_rates(runs: Iterable[RatedCell]) -> dict[Beta, float | None]:
    """The rate at which each beta has its smallest loss, seeds in pairs: what it is compared at.

    >>> best_rates([(0.9, 1.0, 1, 2.0), (0.9, 0.5, 1, 1.8), (0.99, 1.0, 1, 1.9), (0.99, 0.5, 1, 2.1)])
    {0.9: 0.5, 0.99: 1.0}
    """
    known = list(runs)
    only = dict((beta, rate) for beta, rate, _, _ in known)
    if all(rate == only[beta] for beta, rate, _, _ in known):  # one each: nothing to compare
        return only
    found: dict[Beta, tuple[float, float | None]] = {}
    for (beta, rate), level in levels(known).items():
        if beta not in found or level < found[beta][0]:
            found[beta] = level, rate
    return {beta: rate for beta, (_, rate) in found.items()}


def levels(runs: Iterable[RatedCell]) -> dict[tuple[Beta, float | None], float]:
    """The loss of every (beta, rate) as the mean seed would have it, infinite where a run of it diverged.

    >>> levels([(0.9, 1.0, 1, 2.0), (0.9, 1.0, 2, 3.0), (0.5, 1.0, 1, 2.5)])
    {(0.9, 1.0): 2.5, (0.5, 1.0): 3.0}
    """
    known = list(runs)
    places = {pair: place for place, pair in enumerate(dict.fromkeys((beta, rate) for beta, rate, _, _ in known))}
    fit = _Paired((float(places[beta, rate]), seed, loss) for beta, rate, seed, loss in known)
    return {pair: fit.level.get(float(place), math.inf) for pair, place in places.items()}


def at_best_rates(sweep: Sweep) -> Sweep:
    """The sweep with each beta, and each baseline, at its own best rate alone; itself where it has one rate."""
    trials = [*sweep.tied, *sweep.untied]
    if len({trial.rate for trial in trials}) < 2:
        return sweep
    rates = best_rates((_beta(trial), trial.rate, trial.seed, trial.loss) for trial in trials)
    kept = [trial for trial in trials if trial.rate == rates[_beta(trial)]]
    tied = tuple(trial for trial in kept if trial.beta2 is None)
    return replace(sweep, tied=tied, untied=tuple(trial for trial in kept if trial.beta2 is not None))


def _beta(trial: Trial) -> Beta:
    return trial.beta if trial.beta2 is None else (trial.beta, trial.beta2)


def best_pair(runs: Iterable[RatedCell]) -> Best:
    """The best tied beta, each at its own best rate, and that rate where several were swept.

    >>> found = best_pair([(0.9, 1.0, 1, 2.0), (0.9, 0.5, 1, 1.8), (0.99, 1.0, 1, 1.9), (0.99, 0.5, 1, 2.1)])
    >>> found.beta, found.rate
    (0.9, 0.5)
    """
    known = list(runs)
    rates = best_rates(known)
    tied = [(beta, rate, seed, loss) for beta, rate, seed, loss in known if not isinstance(beta, tuple)]
    found = best_beta((beta, seed, loss) for beta, rate, seed, loss in tied if rate == rates[beta])
    swept = {rate for _, rate, _, _ in tied}
    if found.beta is None or len(swept) < 2:
        return found
    rate = rates[found.beta]
    end = _at_a_last_rate(rate, swept)
    at_end = (*found.at_end, "rate") if end else found.at_end
    return replace(found, rate=rate, word=_joined(end, found.word), at_end=at_end)


def best_of_sweep(sweep: Sweep) -> Best:
    """The best tied beta of one experiment, each at its own best rate where several were swept, with that rate.

    >>> from oneclock.study.table import read
    >>> table = {"experiment": "aaa", "budget": [9] * 3, "beta": [0.5, 0.9, 0.99], "min_val_loss": [3, 1, 2]}
    >>> best_of_sweep(read(table).sweeps[0]).beta
    0.9
    """
    return best_pair((_beta(trial), trial.rate, trial.seed, trial.loss) for trial in (*sweep.tied, *sweep.untied))


def distance(sweep: Sweep, beta: Beta, draws: int = DRAWS) -> tuple[float, np.ndarray | None]:
    """How far the loss of a beta or an untied pair lies from the lowest of the other tied betas, as a share of that.

    Seeds in pairs, each at its own best rate; below 0 where it is the lower one. Also `draws` of it as repeats of the
    sweep would have them, None where no beta has two seeds. Infinite where it has no finite loss, NaN where no other
    beta has one.

    >>> from oneclock.study.table import read
    >>> table = {"experiment": "aaa", "budget": [9] * 3, "beta": [0.5, 0.9, 0.9], "seed": [1, 1, 2],
    ...          "min_val_loss": [3.0, 2.0, 1.0]}
    >>> distance(read(table).sweeps[0], 0.5, draws=0)  # 3 against 2 with the seed that both have: 2.5 and 1.5
    (0.6666666666666667, None)
    """
    tuned = at_best_rates(sweep)
    own = 2.0 if isinstance(beta, tuple) else beta  # beside the betas, which end at 1
    runs = [(trial.beta, trial.seed, trial.loss) for trial in tuned.tied]
    fit = _Paired(runs + [(own, trial.seed, trial.loss) for trial in tuned.untied if _beta(trial) == beta])
    others = [one for one in fit.betas if one != own and one < 1]
    if own not in fit.betas or not others:
        return (math.nan if own in fit.betas else math.inf), None
    drawn = fit.drawn(draws, [own, *others])
    lowest = min(fit.level[one] for one in others)
    if drawn is None:
        return fit.level[own] / lowest - 1, None
    return fit.level[own] / lowest - 1, drawn[:, 0] / drawn[:, 1:].min(axis=1) - 1


def between(sweep: Sweep, one: float, two: float) -> tuple[float, float]:
    """How far the loss at one beta lies above that at another, as a share of it, and the standard error of that.

    Seeds in pairs, each beta at its own best rate; the error is NaN where no beta has two seeds.

    >>> from oneclock.study.table import read
    >>> table = {"experiment": "aaaa", "budget": [9] * 4, "beta": [0.5, 0.5, 0.9, 0.9], "seed": [1, 2, 1, 2],
    ...          "min_val_loss": [3.0, 4.2, 2.0, 3.0]}
    >>> tuple(round(number, 3) for number in between(read(table).sweeps[0], 0.5, 0.9))
    (0.44, 0.04)
    """
    fit = _Paired((trial.beta, trial.seed, trial.loss) for trial in at_best_rates(sweep).tied)
    spread, base = fit.noise[0], fit.level[two]
    error = spread * math.sqrt(1 / len(fit.seeds[one]) + 1 / len(fit.seeds[two]))
    return fit.level[one] / base - 1, error / base


class _Paired:
    """Runs with each seed's lift taken out: `level` is the loss of each finite beta as the mean seed would have it."""

    def __init__(self, runs: Iterable[Cell]) -> None:
        known = sorted(run for run in runs if not math.isnan(run[2]))
        self.swept = sorted({beta for beta, _, _ in known})
        diverged = {beta for beta, _, loss in known if math.isinf(loss)}
        self.runs = [run for run in known if run[0] not in diverged]
        self.betas = sorted({beta for beta, _, _ in self.runs})
        self.seeds: dict[float, list[int]] = {beta: [] for beta in self.betas}
        for beta, seed, _ in self.runs:
            self.seeds[beta].append(seed)
        self.near: list[float] = self.betas
        self._solved: dict[tuple[float, ...], tuple[dict[int, float], float, int]] = {}
        self.level: dict[float, float] = {}
        for _ in range(2 if self.betas else 0):  # first by all betas, then by the best few alone: far betas are noisier
            self.level = self._levels(self._lifts()[0])
            self.near = sorted(sorted(self.betas, key=lambda beta: (self.level[beta], beta))[:NEAR])

    def _lifts(self) -> tuple[dict[int, float], float, int]:
        """Each seed's lift by the near betas, the spread of one run around them, and its degrees of freedom."""
        key = tuple(self.near)
        if key not in self._solved:
            self._solved[key] = self._solve()
        return self._solved[key]

    def _solve(self) -> tuple[dict[int, float], float, int]:
        near = [run for run in self.runs if run[0] in self.near]
        seeds = sorted({seed for _, seed, _ in near})
        loss = np.array([one for _, _, one in near])
        members = np.equal.outer([beta for beta, _, _ in near], self.near)
        lifted = np.equal.outer([seed for _, seed, _ in near], seeds[1:])
        design = np.hstack([members, lifted]).astype(float)
        solved, _, rank, _ = np.linalg.lstsq(design, loss, rcond=None)
        if rank < design.shape[-1]:  # no beta links some seeds: they cannot be paired
            design = members.astype(float)
            solved, _, rank, _ = np.linalg.lstsq(design, loss, rcond=None)
        freedom = len(loss) - int(rank)
        spread = float(np.sqrt(np.sum((loss - design @ solved) ** 2) / freedom)) if freedom else math.nan
        lifts = dict(zip(seeds[1:], solved[len(self.near) :].tolist(), strict=False))
        middle = math.fsum(lifts.values()) / max(len(seeds), 1)
        return {seed: lifts.get(seed, 0.0) - middle for seed in seeds}, spread, freedom

    def _levels(self, lifts: dict[int, float]) -> dict[float, float]:
        level: dict[float, list[float]] = {}
        for beta, seed, loss in self.runs:
            level.setdefault(beta, []).append(loss - lifts.get(seed, 0.0))
        return {beta: math.fsum(losses) / len(losses) for beta, losses in level.items()}

    @cached_property
    def noise(self) -> tuple[float, int]:
        """The spread of one run once its seed's lift is out, and the degrees of freedom it is known by."""
        return self._lifts()[1:]

    @cached_property
    def chosen(self) -> float:
        """The lowest point of the valley among the betas within one standard error of the smallest loss."""
        lowest = min(self.betas, key=lambda beta: (self.level[beta], beta))
        spread, freedom = self.noise
        window = _window(self.betas, lowest)
        fitted = self._valley(window) if freedom and len(window) > 3 else None
        if fitted is None:
            return lowest
        error = {beta: spread * math.sqrt(1 / len(self.seeds[beta]) + 1 / len(self.seeds[lowest])) for beta in window}
        near = [beta for beta in window if beta in self.near]
        within = [beta for beta in near if self.level[beta] - self.level[lowest] <= error[beta]]
        return min(within, key=lambda beta: (fitted[beta], beta))

    def _valley(self, window: Sequence[float]) -> dict[float, float] | None:
        """A parabola through the levels, weighed by seeds; None where it has no lowest point."""
        u = np.log10(1 - np.array(window))
        weights = np.sqrt([len(self.seeds[beta]) for beta in window])
        curve = np.polyfit(u, [self.level[beta] for beta in window], 2, w=weights)
        return dict(zip(window, np.polyval(curve, u).tolist(), strict=True)) if curve[0] > 0 else None

    def drawn(self, draws: int, betas: Sequence[float] | None = None) -> np.ndarray | None:
        """draws x betas (default: near): levels as repeats of the sweep would have them.

        None where no beta has two seeds.
        """
        betas = self.near if betas is None else betas
        spread, freedom = self.noise
        if not freedom or not draws:
            return None
        scale, errors = _repeats(draws, len(betas), freedom)
        per_seed = spread * scale / np.sqrt([len(self.seeds[beta]) for beta in betas])
        level = np.array([self.level[beta] for beta in betas])
        return level + per_seed * errors


@lru_cache(maxsize=16)
def _repeats(draws: int, betas: int, freedom: int) -> tuple[np.ndarray, np.ndarray]:
    """How far off the spread and each level are in repeats of a sweep: the same for all sweeps of one shape."""
    rng = np.random.default_rng(0)
    return np.sqrt(freedom / rng.chisquare(freedom, (draws, 1))), rng.standard_normal((draws, betas))


def _window(betas: Sequence[float], middle: float) -> Sequence[float]:
    first = max(min(betas.index(middle) - NEAR // 2, len(betas) - NEAR), 0)
    return betas[first : first + NEAR]


def _at_an_end(beta: float, swept: Sequence[float]) -> str:
    """Words where nothing was tried beyond the best; below 0 there is nothing to try."""
    if beta == swept[-1]:
        return f"{beta:g} is the largest beta swept, and the best may lie beyond it"
    if beta == swept[0] and beta > 0:
        return f"{beta:g} is the smallest beta swept, and the best may lie below it"
    return ""


def _at_a_last_rate(rate: float | None, swept: Iterable[float | None]) -> str:
    """Words where no rate beyond the best one was tried; a rate that was left alone is not known."""
    known = sorted(one for one in swept if one is not None)
    if rate is None or rate not in (known[0], known[-1]):
        return ""
    end, beyond = ("largest", "beyond") if rate == known[-1] else ("smallest", "below")
    return f"{rate:g} is the {end} rate swept, and the best may lie {beyond} it"


def _told_apart(tied: Sequence[float]) -> str:
    if not tied:
        return "told apart from every other beta"
    return f"not told apart from {', '.join(f'{beta:g}' for beta in tied)}"


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _none(word: str) -> Best:
    return Best(None, None, (), word)
