"""How much the vectorised bootstrap and noise study save over a plain pandas loop that computes the same figures.

1,000 experiments x 13 betas x 3 seeds. Both sides draw from the same seed-noise model and compute mean, max and CVaR;
times are per draw, and the loop does fewer of them. What does not change between draws is not in the loop's time.
Run: python benchmarks/bench_analysis.py
"""

import math
import time

import numpy as np
import pandas as pd
from oneclock.stats.bootstrap import resample
from oneclock.stats.comparison import Ground

from oneclock.rule import GRID, Refresh, nearest_beta
from oneclock.runs.sweeps import Losses
from oneclock.stats.robustness import noise_study

EXPERIMENTS, SEEDS = 1000, 3
DRAWS, LOOP_DRAWS = 200, 4
REPEATS, LOOP_REPEATS = 100, 2
PICK = 5


def data() -> tuple[Losses, pd.DataFrame, np.ndarray]:
    """The arrays, the same numbers as a long frame, and the horizons."""
    rng = np.random.default_rng(0)
    best = rng.uniform(3, 9, EXPERIMENTS)
    truth = 2 * (1 + 0.004 * (np.arange(13) - best[:, None]) ** 2)
    minima = truth[..., None] * (1 + 0.005 * rng.standard_normal((EXPERIMENTS, 13, SEEDS)))
    losses = Losses(np.tile(GRID, (EXPERIMENTS, 1)), minima, minima.mean(axis=2), np.full((EXPERIMENTS, 13), SEEDS))
    index = pd.MultiIndex.from_product([range(EXPERIMENTS), GRID, range(SEEDS)], names=["experiment", "beta", "seed"])
    return losses, minima_frame(minima, index), rng.choice([6_000, 10_000, 20_000, 40_000], EXPERIMENTS).astype(float)


def minima_frame(minima: np.ndarray, index: pd.MultiIndex) -> pd.DataFrame:
    return pd.DataFrame({"loss": minima.reshape(-1)}, index=index).reset_index()


def figures(gaps: pd.Series) -> tuple[float, float, float]:
    return gaps.mean(), gaps.max(), gaps.nlargest(math.ceil(len(gaps) / 4)).mean()


def pools(frame: pd.DataFrame) -> dict[int, tuple[pd.Series, dict[float, np.ndarray]]]:
    """Per experiment L(beta) and the residuals each beta draws from, once for all draws."""
    prepared = {}
    for experiment, runs in frame.groupby("experiment"):
        means = runs.groupby("beta")["loss"].mean()
        shared = means.nsmallest(5).index
        relative = (runs["loss"] / runs["beta"].map(means) - 1) * math.sqrt(SEEDS / (SEEDS - 1))
        pool = relative[runs["beta"].isin(shared)].to_numpy()
        own = {beta: pool if beta in shared else relative[runs["beta"] == beta].to_numpy() for beta in means.index}
        prepared[experiment] = (means, own)
    return prepared


def loop_bootstrap(prepared: dict[int, tuple[pd.Series, dict[float, np.ndarray]]], draws: int) -> None:
    """The same resampling, an experiment and a beta at a time."""
    rng = np.random.default_rng(1)
    for _ in range(draws):
        gaps = {}
        for experiment, (means, own) in prepared.items():
            scale = math.sqrt(10 / rng.chisquare(10))
            shift = pd.Series({beta: scale * rng.choice(pool, SEEDS).mean() for beta, pool in own.items()})
            drawn = means * np.exp(shift)
            gaps[experiment] = (drawn[GRID[PICK]] - drawn.min()) / drawn.min()
        series = pd.Series(gaps)
        figures(series)
        figures(series.sample(len(series), replace=True, random_state=1))


def loop_noise(frame: pd.DataFrame, horizons: np.ndarray, repeats: int) -> None:
    """The same noise study, a draw at a time."""
    rng = np.random.default_rng(2)
    means = frame.groupby(["experiment", "beta"])["loss"].mean().unstack()
    gaps = means.sub(means.min(axis=1), axis=0).div(means.min(axis=1), axis=0)
    for _ in range(repeats):
        drawn = []
        for experiment, row in gaps.iterrows():
            for _ in range(20):
                noisy = max(horizons[experiment] * (1 + 0.2 * rng.standard_normal()), 1e-300)
                drawn.append(row[nearest_beta(min(max(1 - 1000 / noisy, 0.0), 0.999))])
        figures(pd.Series(drawn))


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    losses, frame, horizons = data()
    every = np.arange(EXPERIMENTS)
    sets = {"development": every, "heldout": every[:0], "all": every}

    def bootstrap() -> None:
        ground = Ground(losses, None, tuple(horizons), {"all": every}, resample(losses, {"all": every}, DRAWS))
        ground.risk(np.full(EXPERIMENTS, PICK), "all")

    ground = Ground(losses, None, tuple(horizons), sets, resample(losses, sets, 2))
    ours = timed(bootstrap) / DRAWS
    prepared = pools(frame)
    theirs = timed(lambda: loop_bootstrap(prepared, LOOP_DRAWS)) / LOOP_DRAWS
    print(f"bootstrap, per draw     {ours * 1e3:9.2f} ms  loop {theirs * 1e3:9.1f} ms  ratio {theirs / ours:8.0f}")
    ours = timed(lambda: noise_study(ground, Refresh(), sigmas=[0.2], repeats=REPEATS)) / REPEATS
    theirs = timed(lambda: loop_noise(frame, horizons, LOOP_REPEATS)) / LOOP_REPEATS
    print(f"noise study, per repeat {ours * 1e3:9.2f} ms  loop {theirs * 1e3:9.1f} ms  ratio {theirs / ours:8.0f}")


if __name__ == "__main__":
    main()
