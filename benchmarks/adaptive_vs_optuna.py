"""How many runs a beta sweep needs: `adaptive` against Optuna's default sampler, on losses that were really measured.

    python benchmarks/adaptive_vs_optuna.py [--repeats 20] [--trials 30]

The truth is the mean losses of the paper's eleven experiments and of the laptop study, straight between the betas of
the grid in log10(1 - beta). Every run adds seed noise: 0.3 or 1 % on the paper's losses, the study's own noise on the
laptop's. `adaptive` runs betas of the grid until it stops by itself. Optuna tries any beta from 0 to 0.999, evenly in
log10(1 - beta), and answers with its best trial. Printed: the share of cases whose answer lies within 0.5 % of the true
best loss after so many runs, and their mean gap.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import optuna
from adaptive_vs_paper import BASE, best, played, published_truth, recorded_truth

from oneclock import rule
from oneclock.runs.adaptive import Adaptive

WITHIN = 0.5
"""Percent above the true best loss that count as found."""

LAPTOP = Path(__file__).resolve().parents[1] / "studies" / "laptop"
Truth = tuple[int, dict[float, float], float]


def gap_at(gaps: Mapping[float, float], beta: float) -> float:
    """The true gap between the betas of the grid, straight in log10(1 - beta)."""
    betas = sorted(gaps, reverse=True)
    return float(np.interp(math.log10(1 - beta), [math.log10(1 - one) for one in betas], [gaps[one] for one in betas]))


def answers_of_optuna(truth: Truth, trials: int, seed: int) -> list[float]:
    """The true gap of Optuna's answer after 1, 2, .. trials."""
    _, gaps, noise = truth
    dice = random.Random(seed)
    answers: list[float] = []

    def loss(trial: optuna.Trial) -> float:
        beta = 1 - 10 ** trial.suggest_float("log10 of 1 - beta", -3.0, 0.0)
        trial.set_user_attr("gap", gap_at(gaps, beta))
        return float(trial.user_attrs["gap"]) + dice.gauss(0, noise)

    def note(study: optuna.Study, _: optuna.trial.FrozenTrial) -> None:
        answers.append(study.best_trial.user_attrs["gap"])

    optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed)).optimize(loss, trials, callbacks=[note])
    return answers


def answer_of_adaptive(truth: Truth, seed: int) -> tuple[float, int]:
    """The true gap of the answer of `adaptive`, and its runs."""
    budget, gaps, noise = truth
    dice = random.Random(seed)
    drawn = {BASE.at(beta, seed): gaps[beta] + dice.gauss(0, noise) for beta in rule.GRID for seed in (1, 2, 3)}
    losses = played(Adaptive(), budget, drawn.__getitem__)
    return gaps[best(losses)], len(losses)


def row(name: str, runs: float, gaps: Sequence[float]) -> str:
    share = 100 * sum(gap <= WITHIN for gap in gaps) / len(gaps)
    return f"{name:22}{runs:6.1f}{share:12.0f} %{statistics.fmean(gaps):12.2f} %"


def compare(title: str, truths: Sequence[Truth], repeats: int, trials: int) -> None:
    print(f"\n{title}\n{'':22}{'runs':>6}{f'within {WITHIN} %':>14}{'mean gap':>14}")
    cases = [(truth, 1_000 * repeat + number) for repeat in range(repeats) for number, truth in enumerate(truths)]
    ends = [answer_of_adaptive(*case) for case in cases]
    print(row("adaptive", statistics.fmean(runs for _, runs in ends), [gap for gap, _ in ends]))
    answers = [answers_of_optuna(truth, trials, seed) for truth, seed in cases]
    for count in (5, 10, 15, 20, 30, 50):
        if count <= trials:
            print(row("Optuna", count, [one[count - 1] for one in answers]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--trials", type=int, default=30)
    asked = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    for noise in (0.3, 1.0):
        truths = [(budget, gaps, noise) for budget, gaps in published_truth()]
        compare(f"the paper's eleven experiments, seed noise {noise} %", truths, asked.repeats, asked.trials)
    compare("the laptop study, its own noise", list(recorded_truth(LAPTOP)), asked.repeats, asked.trials)


if __name__ == "__main__":
    main()
