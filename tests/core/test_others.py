"""Rules of others: what they ask for, and what they answer."""

import pytest

from oneclock.lab.published_rules import BySteps, HalfLife, Training, half_lives
from oneclock.rule import RECOMMENDED


def test_a_half_life_in_tokens_keeps_its_tokens_whatever_the_batch():
    rule = HalfLife(10_000)
    assert rule(Training(steps=1, tokens=10_000)) == pytest.approx(0.5)
    assert rule(Training(steps=1, tokens=1_000)) ** 10 == pytest.approx(0.5)


def test_what_is_not_known_is_asked_for():
    with pytest.raises(ValueError, match="tokens per optimizer step"):
        HalfLife(10_000)(Training(steps=1_000, batch=32))
    with pytest.raises(ValueError, match="half_life"):
        HalfLife(0)


def test_our_rules_look_at_the_steps_alone():
    assert BySteps(RECOMMENDED)(Training(steps=20_000, batch=8, tokens=512)) == RECOMMENDED(20_000)
    assert len(half_lives(1, 1e3, per_decade=4)) == 13
