"""The intervals of the studies hold what they say, by simulation; the tables come from the records."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from oneclock.lab.studies.analyse import (
    LAW,
    across,
    best_rate,
    best_tied,
    excesses,
    mean_over_tasks,
    noise_of,
    pool_by_length,
    read_losses,
)
from oneclock.lab.studies.turns import counts

ROOT = Path(__file__).parents[3]


def test_intervals_of_a_condition_hold_together_in_95_percent() -> None:
    random, hits, trials = np.random.default_rng(1), 0, 600
    truth = {LAW: 0.0, "a": 0.5, "b": -1.0, "c": 0.0, "d": 2.0}
    for _ in range(trials):
        seeds = random.normal(0, 1.0, 3)
        losses = {
            betas: {1e-3: {seed: 2 * (100 + value + seeds[seed] + random.normal(0, 0.4)) for seed in range(3)}}
            for betas, value in truth.items()
        }
        found = excesses("one", losses)
        hits += all(one.low <= 100 * truth[one.betas] / 100 <= one.high for one in found)
    assert 0.93 <= hits / trials <= 0.99


def test_a_condition_with_one_seed_takes_the_noise_of_another() -> None:
    random, hits, trials = np.random.default_rng(3), 0, 600
    truth = {LAW: 0.0, "tied 0.8": 0.5, "tied 0.95": -1.0, "growing": -2.0}
    for _ in range(trials):
        two, one = (
            {
                betas: {1e-3: {seed: 100 + value + random.normal(0, 0.4) for seed in range(count)}}
                for betas, value in truth.items()
            }
            for count in (3, 1)
        )
        found = excesses("one", one, noise_of(two))
        hits += all(excess.low <= truth[excess.betas] <= excess.high for excess in found)
    assert 0.93 <= hits / trials <= 0.99
    assert all(excess.borrowed for excess in found)
    assert best_tied(found) == "tied 0.95"
    assert not any(excess.borrowed for excess in excesses("two", two, (1.0, 4)))


@pytest.mark.parametrize(("tasks", "spread"), [(2, 0.0), (2, 1.0), (4, 0.0), (4, 1.0)])
def test_random_effects_intervals_cover_the_mean(tasks: int, spread: float) -> None:
    random, hits, trials = np.random.default_rng(2), 0, 1000
    for _ in range(trials):
        errors = random.uniform(0.1, 0.4, tasks)
        values = 1.0 + random.normal(0, spread, tasks) + random.normal(0, errors)
        _, low, high = mean_over_tasks([*values], [*errors])
        hits += low <= 1.0 <= high
    assert hits / trials >= 0.93


def test_a_diverged_candidate_is_infinitely_worse_and_leaves_the_others_their_intervals() -> None:
    losses = {
        LAW: {1e-3: {1: 2.0, 2: 2.1}},
        "a": {1e-3: {1: 2.02, 2: 2.13}, 1e-2: {1: 2.5, 2: math.inf}},
        "bad": {1e-3: {1: math.inf, 2: math.inf}},
    }
    good, bad = excesses("one", losses)
    assert good.lr == 1e-3
    assert good.at_edge
    assert good.percent == pytest.approx(100 * 0.025 / 2.05)
    assert math.isinf(bad.percent)
    assert math.isfinite(good.low)


def test_the_best_learning_rate_is_among_those_with_all_seeds() -> None:
    assert best_rate({0.1: {1: 1.0}, 0.2: {1: 2.0, 2: 2.0}, 0.4: {1: 3.0, 2: 3.0}}) == (0.2, False)


def test_the_page_of_the_overfit_study_states_what_its_records_say() -> None:
    page = (ROOT / "docs/research/overfit.md").read_text()
    rows = {"development": "development", "held out": "heldout"}
    rows |= {f"weight decay {one}": f"weight decay {one}" for one in (0, 1)}
    rows |= {"constant learning rate": "constant", "cosine": "cosine"}
    for factor in ("split", "decay", "schedule"):
        found = counts(ROOT / "studies/overfit", factor)
        levels = {level for level, _ in found}
        for name, level in rows.items():
            if level in levels:
                cells = [found[level, kind] for kind in ("turn", "turn outside", "unclear", "none")]
                assert f"| {name} | {' | '.join(map(str, cells))} |" in page
    split = counts(ROOT / "studies/overfit")
    assert sum(number for (_, kind), number in split.items() if kind == "turn") == 294
    assert sum(number for (_, kind), number in split.items() if kind == "none") == 530


def test_the_page_of_the_fine_tuning_study_states_what_its_records_say() -> None:
    page = (ROOT / "docs/research/finetune.md").read_text()
    tables = read_losses(ROOT / "studies/finetune").items()
    found = [(steps, one) for name, (steps, losses) in tables for one in excesses(name, losses)]
    rows = pool_by_length(found)
    assert len(rows) == 21
    for one in rows:
        numbers = f"{one.percent:+.2f} ({one.low:+.2f} to {one.high:+.2f})"
        assert f"| {one.steps:,} | {one.betas} | {numbers} |" in page


def test_all_studies_together_have_one_effect_per_task() -> None:
    found = {
        one.betas: one for one in across(ROOT / "studies" / name for name in ("finetune", "size", "batch", "long"))
    }
    assert {found[betas].tasks for betas in ("growing", "(0.9, 0.95)", "(0.9, 0.999)", "(law, 0.999)")} == {8}
    assert -0.3 < found["growing"].low < found["growing"].high < 0.3
    assert found["(law, 0.999)"].low < 0 < found["(law, 0.999)"].high
