"""The learning rate of the eleven equals the closed form, computed here by hand."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from oneclock.lab.experiments import EXPERIMENTS
from oneclock.lab.experiments.spec import Schedule
from oneclock.lab.training.schedule import learning_rate, warmup_steps

# name -> updates in all, updates of the warm-up, highest rate, floor; of the paper's appendix.
APPENDIX = {
    "nanogpt-wikitext103": (10_000, 2_000, 6e-4, 6e-6),
    "nanogpt-openwebtext": (10_000, 2_000, 6e-4, 6e-6),
    "llama60m-c4": (10_000, 1_000, 1e-3, 1e-4),
    "llama60m-slimpajama": (10_000, 1_000, 1e-3, 1e-4),
    "vitb16-cifar100": (19_500, 1_000, 5e-4, 5e-6),
    "vitb16-tinyimagenet": (39_050, 1_000, 5e-4, 5e-6),
    "resnet50-food101": (29_550, 1_477, 3e-4, 3e-5),  # 5 % is 1477.5
    "resnet50-imagenet100": (81_200, 4_060, 3e-4, 3e-5),
    "efficientnetb0-cars": (12_800, 640, 8e-4, 1e-5),
    "t5small-bookcorpus": (10_000, 1_000, 1e-4, 1e-5),
    "swint-caltech256": (22_560, 1_128, 4e-4, 4e-6),
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rates_of_the_eleven(name: str) -> None:
    experiment = EXPERIMENTS[name]
    budget, warmup, lr, floor = APPENDIX[name]

    def rate(step: int) -> float:
        return learning_rate(experiment.schedule, experiment.optimizer.lr, experiment.budget, step)

    late = name.startswith("llama")  # whose first update has rate 0
    assert warmup_steps(experiment.schedule, experiment.budget) == warmup
    assert rate(0) == pytest.approx(0 if late else lr / warmup, rel=1e-12)
    assert rate(warmup // 2 - 1 + late) == pytest.approx(lr * (warmup // 2) / warmup, rel=1e-12)
    assert rate(warmup - 1) == pytest.approx(lr * (warmup - late) / warmup, rel=1e-12)
    assert rate(warmup) == lr
    halfway = (budget + warmup) // 2
    angle = math.pi * (halfway - warmup) / (budget - warmup)
    assert rate(halfway) == pytest.approx((lr + floor) / 2 + (lr - floor) / 2 * math.cos(angle), rel=1e-12)
    assert rate(halfway) == pytest.approx((lr + floor) / 2, rel=1e-3)
    last = math.pi * (budget - 1 - warmup) / (budget - warmup)
    assert rate(budget - 1) == pytest.approx(floor + (lr - floor) * (1 + math.cos(last)) / 2, rel=1e-12)
    assert floor < rate(budget - 1) < 1.001 * floor


def test_the_closed_phase_ends_at_the_floor() -> None:
    schedule = Schedule(min_lr=0.1, warmup_steps=4)
    assert [learning_rate(schedule, 1.0, 8, step) for step in (0, 3, 7)] == [0.25, 1.0, 0.1]
    assert learning_rate(schedule, 1.0, 8, 4) < 1.0


def test_the_larger_warm_up_counts() -> None:
    schedule = Schedule(min_lr=0.0, warmup_steps=100, warmup_share=0.05)
    assert [warmup_steps(schedule, budget) for budget in (1_000, 2_000, 4_000)] == [100, 100, 200]


def test_a_share_that_floats_round_down_is_whole() -> None:
    assert warmup_steps(Schedule(min_lr=0.0, warmup_share=0.29), 100) == 29


def test_no_warm_up_starts_at_the_full_rate() -> None:
    assert learning_rate(Schedule(min_lr=0.1), 1.0, 10, 0) == 1.0


@given(
    budget=st.integers(1, 500),
    warmup=st.integers(0, 600),
    share=st.floats(0, 1),
    lr=st.floats(1e-6, 1.0),
    floor=st.just(0.0) | st.floats(1e-9, 1),  # a denormal floor times lr is 0
)
@example(budget=190, warmup=189, share=0.0, lr=0.21366664492058762, floor=1.0)  # lr * 189 / 189 < lr
def test_rises_then_falls_within_its_bounds(budget: int, warmup: int, share: float, lr: float, floor: float) -> None:
    schedule = Schedule(min_lr=floor * lr, warmup_steps=warmup, warmup_share=share)
    rates = [learning_rate(schedule, lr, budget, step) for step in range(budget)]
    peak = min(warmup_steps(schedule, budget), budget) - 1
    assert all(0 < rate <= lr * (1 + 1e-12) for rate in rates) or floor == 0
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    if budget > peak + 1:
        assert rates[-1] == pytest.approx(floor * lr, abs=1e-12 * lr)
