"""How much the vectorised bootstrap and noise study save over a plain pandas loop that computes the same figures.

1,000 experiments x 13 betas x 3 seeds. Both sides draw from the same seed-noise model and print mean, max and CVaR;
the loop does fewer draws, and its time is scaled to theirs. Run: python benchmarks/bench_analysis.py
"""

import math
import time

import numpy as np
import pandas as pd

from oneclock.analysis.arena import Ground
from oneclock.analysis.bootstrap import resample
from oneclock.analysis.losses import Losses
from oneclock.analysis.robustness import noise_study
from oneclock.rule import GRID, Refresh, nearest_beta

EXPERIMENTS, SEEDS = 1000, 3
DRAWS, LOOP_DRAWS = 200, 2
REPEATS, LOOP_REPEATS = 100, 1
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


def loop_bootstrap(frame: pd.DataFrame, draws: int) -> None:
    """The same resampling, an experiment and a beta at a time."""
    rng = np.random.default_rng(1)
    for _ in range(draws):
        gaps = {}
        for experiment, runs in frame.groupby("experiment"):
            means = runs.groupby("beta")["loss"].mean()
            shared = means.nsmallest(5).index
            relative = (runs["loss"] / runs["beta"].map(means) - 1) * math.sqrt(SEEDS / (SEEDS - 1))
            pool = relative[runs["beta"].isin(shared)].to_numpy()
            scale = math.sqrt(10 / rng.chisquare(10))
            drawn = pd.Series(
                {
                    beta: mean
                    * math.exp(
                        scale
                        * rng.choice(
                            pool if beta in shared else relative[runs["beta"] == beta].to_numpy(), SEEDS
                        ).mean()
                    )
                    for beta, mean in means.items()
                }
            )
            gaps[experiment] = (drawn[GRID[PICK]] - drawn.min()) / drawn.min()
        gaps = pd.Series(gaps)
        figures(gaps)
        figures(gaps.sample(len(gaps), replace=True, random_state=1))


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
    theirs = timed(lambda: loop_bootstrap(frame, LOOP_DRAWS)) / LOOP_DRAWS
    print(f"bootstrap, per draw     {ours * 1e3:9.2f} ms  loop {theirs * 1e3:9.1f} ms  ratio {theirs / ours:8.0f}")
    ours = timed(lambda: noise_study(ground, Refresh(), sigmas=[0.2], repeats=REPEATS)) / REPEATS
    theirs = timed(lambda: loop_noise(frame, horizons, LOOP_REPEATS)) / LOOP_REPEATS
    print(f"noise study, per repeat {ours * 1e3:9.2f} ms  loop {theirs * 1e3:9.1f} ms  ratio {theirs / ours:8.0f}")


if __name__ == "__main__":
    main()
