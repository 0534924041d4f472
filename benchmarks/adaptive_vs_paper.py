"""The adaptive protocol against the paper's 23 runs: how many runs it spends and the gap it ends at, seeds being noisy.

    python benchmarks/adaptive_vs_paper.py [--repeats 400] [--study studies/laptop] [--real SEEDS]

Published sweeps: the mean losses that the authors published are taken as the truth, and every run adds seed noise of a
known size. Both protocols see the same noise, and a 23-run sweep does not find the true best either: that is what is
compared. Beside what a person is told to use stands the plain minimum, which is what it was before.
`--study` takes the mean losses of a recorded study for the truth and the spread of its seeds for the noise.
`--real` trains the benchmark's network with that many seeds at all 13 betas, takes the mean over all seeds as the
truth, and lets both protocols draw three of them.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from oneclock import rule
from oneclock.lab.paper.published import losses_study
from oneclock.lab.protocol.losses import losses_of
from oneclock.runs.adaptive import Adaptive
from oneclock.runs.best import judge
from oneclock.runs.key import RunKey
from oneclock.runs.paired import PairedSweep
from oneclock.runs.protocols import Paper, Protocol, next_step
from oneclock.stats import read

BASE = RunKey("task", 0.9, 1, budget=1)

PROTOCOLS: dict[str, Protocol] = {
    "paper": Paper(),
    "adaptive": Adaptive(),
    "adaptive, 7 runs": Adaptive(max_runs=7),
}


def published_truth() -> Iterator[tuple[int, dict[float, float]]]:
    """(budget, beta -> gap in percent) of each published experiment, by the authors' own losses."""
    sweeps = losses_study().sweeps
    losses = losses_of(sweeps)
    for place, sweep in enumerate(sweeps):
        assert sweep.budget is not None
        yield int(sweep.budget), dict(zip(sweep.betas, (100 * losses.gaps[place]).tolist(), strict=True))


def recorded_truth(folder: Path) -> Iterator[tuple[int, dict[float, float], float]]:
    """(budget, beta -> gap in percent, seed noise in percent) of each experiment of a study."""
    for sweep in read(folder).sweeps:
        losses = losses_of([sweep])
        several = losses.minima[0, losses.counts[0] > 1]
        noise = np.sqrt(np.mean(np.nanvar(several, axis=1, ddof=1))) / np.nanmin(losses.loss)
        gaps = dict(zip(sweep.betas, (100 * losses.gaps[0]).tolist(), strict=True))
        assert sweep.budget is not None
        yield int(sweep.budget), gaps, 100 * float(noise)


def played(protocol: Protocol, budget: int, loss: Callable[[RunKey], float]) -> dict[RunKey, float]:
    """The losses of all runs that a protocol asks for."""
    losses: dict[RunKey, float] = {}
    while runs := next_step(protocol, losses, replace(BASE, budget=budget)).runs:
        losses |= {key: loss(replace(key, budget=BASE.budget)) for key in runs}
    return losses


def best(losses: Mapping[RunKey, float]) -> float:
    """What a person is told to use; losses here may be negative, and only their differences count."""
    runs = ((key.beta, key.seed, loss) for key, loss in losses.items() if isinstance(key.beta, float))
    found = judge(PairedSweep((beta, None, seed, loss) for beta, seed, loss in runs))
    assert found.beta is not None
    return found.beta


def smallest_mean(losses: Mapping[RunKey, float]) -> float:
    """The smallest mean among the betas with the most seeds, without any valley."""
    seeds = {beta: [loss for key, loss in losses.items() if key.beta == beta] for beta in {c.beta for c in losses}}
    most = max(map(len, seeds.values()))
    return min((statistics.fmean(own), beta) for beta, own in seeds.items() if len(own) == most)[1]


def mean_over_seeds(losses: Mapping[RunKey, float]) -> float:
    """The beta with the smallest L(beta) as the paper counts it: a beta with one seed counts with one."""
    betas = {key.beta for key in losses}
    means = {beta: statistics.fmean(loss for key, loss in losses.items() if key.beta == beta) for beta in betas}
    return min(means, key=lambda beta: (means[beta], beta))


def cvar(gaps: list[float]) -> float:
    return statistics.fmean(sorted(gaps)[-math.ceil(len(gaps) / 4) :])


def row(name: str, gaps: list[float], runs: list[int]) -> str:
    return (
        f"{name:28} {statistics.fmean(runs):6.2f} {max(runs):5d} {statistics.fmean(gaps):9.3f} "
        f"{cvar(gaps):9.3f} {max(gaps):9.3f}"
    )


def simulate(
    truths: list[tuple[int, dict[float, float], float]], repeats: int
) -> dict[str, tuple[list[float], list[int]]]:
    """Protocol -> (true gap at its choice, runs spent), one per experiment and repeat; noise in percent of the loss."""
    found: dict[str, tuple[list[float], list[int]]] = {}
    for repeat in range(repeats):
        for number, (budget, gaps, noise) in enumerate(truths):
            dice = random.Random(f"{repeat} {number} {noise}")
            drawn = {BASE.at(beta, seed): gaps[beta] + dice.gauss(0, noise) for beta in rule.GRID for seed in (1, 2, 3)}
            for name, protocol in PROTOCOLS.items():
                losses = played(protocol, budget, drawn.__getitem__)
                picks = {name: best(losses), f"{name}, plain minimum": smallest_mean(losses)}
                if name == "paper":
                    picks["paper, one seed counts too"] = mean_over_seeds(losses)
                for label, beta in picks.items():
                    gaps_, runs = found.setdefault(label, ([], []))
                    gaps_.append(gaps[beta])
                    runs.append(len(losses))
    return found


def real(seeds: int, repeats: int) -> dict[str, tuple[list[float], list[int]]]:
    """The same on losses of the benchmark's network, trained here; prints each beta's mean and spread."""
    sys.path.insert(0, str(Path(__file__).parent / "sweep_peers"))
    from digits import best

    budget, dice = 1500, random.Random(1)
    trained = {beta: [best(beta, seed, budget)[0] for seed in range(1, seeds + 1)] for beta in rule.GRID}
    truth = {beta: statistics.fmean(losses) for beta, losses in trained.items()}
    for beta, losses in trained.items():
        gap = 100 * (truth[beta] / min(truth.values()) - 1)
        print(
            f"  beta {beta:<8g} mean {truth[beta]:.4f}, gap {gap:6.2f} %, seeds spread {statistics.stdev(losses):.4f}"
        )
    found: dict[str, tuple[list[float], list[int]]] = {}
    for _ in range(repeats):
        three = dice.sample(range(seeds), 3)
        drawn = {BASE.at(beta, seed): losses[three[seed - 1]] for beta, losses in trained.items() for seed in (1, 2, 3)}
        for name, protocol in PROTOCOLS.items():
            losses = played(protocol, budget, drawn.__getitem__)
            gaps, runs = found.setdefault(name, ([], []))
            gaps.append(100 * (truth[best(losses)] / min(truth.values()) - 1))
            runs.append(len(losses))
    return found


def main(repeats: int, seeds: int, study: Path | None) -> None:
    head = f"{'':28} {'runs':>6} {'most':>5} {'mean gap':>9} {'CVaR 25%':>9} {'max gap':>9}   (percent)"
    for noise in (0.03, 0.1, 0.3, 1.0, 3.0):
        print(f"\npublished sweeps, seed noise {noise} %\n{head}")
        truths = [(budget, gaps, noise) for budget, gaps in published_truth()]
        for name, (gaps, runs) in simulate(truths, repeats).items():
            print(row(name, gaps, runs))
    if study:
        truths = list(recorded_truth(study))
        spread = ", ".join(f"{noise:.2g}" for _, _, noise in truths)
        print(f"\nrecorded in {study}, seed noise {spread} %\n{head}")
        for name, (gaps, runs) in simulate(truths, repeats).items():
            print(row(name, gaps, runs))
    if seeds:
        print("\na real network on scikit-learn's digits")
        found = real(seeds, repeats)
        print(head)
        for name, (gaps, runs) in found.items():
            print(row(name, gaps, runs))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--study", type=Path, metavar="FOLDER")
    parser.add_argument("--real", type=int, default=0, metavar="SEEDS")
    arguments = parser.parse_args()
    main(arguments.repeats, arguments.real, arguments.study)
