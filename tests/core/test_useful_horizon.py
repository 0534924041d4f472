"""The useful horizon: what awkward curves say, that the interval covers, and that no committed curve contradicts it."""

import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oneclock.horizon import Curve, early_stop, useful_horizon
from oneclock.horizon.schedule import SHAPES, guess_schedule
from oneclock.horizon.unimodal import lasting_variance, noise_variance, without_spikes
from oneclock.lab.simulated_curves import PLAN, simulate, slow_waves
from oneclock.lab.studies.curves import read_curves

STUDIES = sorted((Path(__file__).parents[2] / "studies").glob("*/runs.jsonl"))


def valley(bottom, count, noise=0.0, seed=0, slope=1.0):
    draw = random.Random(seed)
    return [1 + slope * abs(at + 1 - bottom) / count + draw.gauss(0, noise) for at in range(count)]


def falling(count, noise=0.0, seed=0):
    draw = random.Random(seed)
    return [1 + (at + 1) ** -0.5 + draw.gauss(0, noise) for at in range(count)]


def found(losses, plan=None, every=100):
    return useful_horizon(Curve([every * (at + 1) for at in range(len(losses))], losses), plan)


@pytest.mark.parametrize("count", [10, 30, 100, 1000])
@pytest.mark.parametrize("where", [0.2, 0.5, 0.7])
def test_a_clear_turn_is_found(count, where):
    answer = found(valley(where * count, count, noise=0.01))
    assert answer.turned
    assert answer.low <= where * count * 100 <= answer.high
    assert answer.steps == pytest.approx(where * count * 100, rel=0.25)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10, 30, 100, 1000])
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_a_falling_curve_is_useful_to_the_end(count, noise):
    answer = found(falling(count, noise))
    assert not answer.turned
    assert (answer.steps, answer.high) == (100 * count, 100 * count)


def test_three_evaluations_never_confirm_a_turn():
    for losses in ([1.0, 2.0, 3.0], [3.0, 1.0, 2.0], [2.0, 1.0, 9.0]):
        answer = found(losses)
        assert (answer.turned, answer.steps) == (False, 300)
        assert answer.low <= 100 * (1 + losses.index(1.0)) <= answer.high


@pytest.mark.parametrize("at", [3, 20, 36, 37, 38, 39])
@pytest.mark.parametrize("height", [1.0, 100.0])
def test_one_spike_changes_nothing(at, height):
    losses = falling(40, noise=0.01)
    losses[at] += height
    assert not found(losses).turned
    turning = valley(20, 40, noise=0.01)
    turning[at] += height
    assert found(turning).low <= 2000 <= found(turning).high


def test_a_warm_restart_that_ends_lower_is_useful_to_the_end():
    losses = [*falling(20), *[1.9 - 0.05 * at for at in range(20)]]  # up by a restart, then lower than before
    assert losses[-1] < min(losses[:20])
    assert not found(losses).turned


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_warm_restart_under_way_is_not_yet_a_turn(noise):
    """The loss jumps at 2,000 of 4,000 steps and comes down again. The plan stands until it has had its chance."""
    draw = random.Random(3)
    losses = [1 + 3 * (at % 20 + 1) ** -0.5 + draw.gauss(0, noise) for at in range(40)]
    for count in range(22, 38):
        answer = found(losses[:count], plan=4000)
        assert (answer.turned, answer.steps, answer.high, answer.seen) == (False, 4000, 4000, 100 * count)
        assert answer.stays >= 0.5


def test_a_rise_that_recovers_is_no_turn():
    hump = [1 + (at + 1) ** -0.5 + 0.3 * math.exp(-(((at - 20) / 4) ** 2)) for at in range(40)]
    assert not found(hump).turned


def test_an_accuracy_is_read_as_its_negative():
    answer = found([-0.5 - 0.4 * (1 - abs(at - 15) / 40) for at in range(40)])
    assert answer.turned
    assert answer.low <= 1600 <= answer.high


def test_losses_that_are_not_finite_do_not_count():
    losses = valley(20, 40, noise=0.01)
    clean = found(losses)
    for at in (0, 7, 21, 39):
        losses[at] = math.nan if at % 2 else math.inf
    assert found(losses).turned
    assert found(losses).steps == pytest.approx(clean.steps, rel=0.1)
    early = useful_horizon(Curve([100, 200, 300, 400], [math.nan, math.nan, 1.0, math.nan]))
    assert (early.turned, early.steps) == (False, 400)


@pytest.mark.parametrize("count", [5, 10, 20, 40])
def test_noise_larger_than_the_trend_gives_the_plan_and_a_wide_interval(count):
    turned = 0
    for seed in range(150):
        draw = random.Random(seed)
        answer = found([1 + draw.gauss(0, 0.1) for _ in range(count)])
        turned += answer.turned
        if not answer.turned:
            assert answer.steps == answer.high == 100 * count
    assert turned <= 4


def wandering(count, shared, seed):
    """A loss that falls for a third of the run and then stays, with noise that neighbours share."""
    draw, error, losses = random.Random(seed), 0.0, []
    for at in range(count):
        error = shared * error + math.sqrt(1 - shared**2) * draw.gauss(0, 0.03)
        losses.append(1 + max(0.0, 1 - 3 * (at + 1) / count) + error)
    return losses


@pytest.mark.parametrize(("count", "shared", "most"), [(20, 0.5, 3), (64, 0.5, 8), (100, 0.5, 4), (300, 0.8, 8)])
def test_noise_that_neighbours_share_is_seldom_a_turn(count, shared, most):
    assert sum(found(wandering(count, shared, seed)).turned for seed in range(100)) <= most


@pytest.mark.parametrize("count", [20, 64, 300])
def test_noise_that_grows_is_seldom_a_turn(count):
    turned = 0
    for seed in range(60):
        draw = random.Random(seed)
        losses = [loss + draw.gauss(0, 0.2 * (at / count) ** 3) for at, loss in enumerate(falling(count, 0.01, seed))]
        turned += found(losses).turned
    assert turned <= 9


@pytest.mark.parametrize("count", [10, 20, 40, 64])
def test_two_high_losses_at_the_end_are_no_turn(count):
    curves = [falling(count, 0.01, seed) for seed in range(20)]
    assert sum(found([*losses[:-2], *(loss + 1 for loss in losses[-2:])]).turned for losses in curves) <= 1


def hump(height, end):
    """A loss that falls for twelve evaluations, rises by `height + end`, and comes down again by `height`."""
    bell = [height * math.exp(-(((at - 32) / 9) ** 2)) for at in range(64)]
    return [1 + max(0.0, 1 - at / 12) + (at > 12) * (end + bell[at]) for at in range(64)]


def test_a_finished_run_that_comes_down_again_but_stays_clearly_higher_turned():
    answer = found(hump(height=0.5, end=0.8))
    assert answer.turned
    assert answer.low <= 1300 <= answer.high


def test_a_finished_run_that_nearly_comes_back_may_be_a_slow_wave():
    """It is not confirmed. The interval holds the place, and the run is not said to be useful to its end."""
    answer = found(hump(height=1.0, end=0.2))
    assert (answer.turned, answer.steps) == (False, 6400)
    assert answer.low <= 1300 <= answer.high
    assert answer.stays < 0.05


@pytest.mark.parametrize(("count", "most"), [(20, 0.12), (30, 0.15), (64, 0.09), (100, 0.08), (300, 0.04)])
def test_slow_waves_are_seldom_a_turn(count, most):
    draw = random.Random(count)
    turned = sum(useful_horizon(slow_waves(draw, count)).turned for _ in range(300))
    assert turned <= most * 300


def test_a_falling_learning_rate_makes_a_turn_less_likely():
    """The schedule moves the forecast; with none given, and with a constant one, nothing changes."""
    losses = falling(20, noise=0.02)
    stays = {name: useful_horizon(Curve(range(1, 21), losses), 40, name).stays for name in (None, *SHAPES)}
    assert stays[None] == stays["constant"] < stays["wsd"] < stays["cosine"]
    assert stays["constant"] < stays["linear"]
    turned = useful_horizon(Curve(range(1, 41), valley(15, 40, noise=0.01)), schedule="cosine")
    assert turned.turned
    assert turned.low <= 15 <= turned.high
    with pytest.raises(ValueError, match=r"the schedule must be one of constant, cosine, linear, wsd, got 'step'"):
        useful_horizon(Curve([1, 2], [2.0, 1.0]), schedule="step")


def test_noise_that_neighbours_share_lasts_and_a_spike_is_moved_to_its_neighbour():
    waves = [0.0, 0.1, 0.3, 0.4, 0.3, 0.1] * 10
    assert lasting_variance(waves) > 2 * noise_variance(waves)
    assert without_spikes([3.0, 2.9, 9.0, 2.8, 2.7], variance=0.01) == [3.0, 2.9, 2.9, 2.8, 2.7]


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("done", [0.35, 0.5, 0.9])
def test_the_schedule_is_told_from_the_learning_rate(name, done):
    guess = guess_schedule(SHAPES[name](done), done)
    assert guess is not None
    assert SHAPES[guess](done) == SHAPES[name](done)  # `wsd` is constant until it falls, and all others meet half way


@pytest.mark.parametrize(("left", "done"), [(None, 0.5), (1.0, 0.2), (math.nan, 0.5), (1.5, 0.5), (-0.1, 0.5)])
def test_a_learning_rate_that_says_nothing_gives_no_schedule(left, done):
    assert guess_schedule(left, done) is None


def test_an_early_turn_of_a_long_curve_is_found_where_it_is():
    answer = found(valley(40, 5000, noise=0.001, slope=5.0))
    assert answer.turned
    assert 2000 <= answer.low <= 4000 <= answer.high <= 6000


def test_while_a_run_goes_on_the_plan_is_the_answer_until_a_turn_is_confirmed():
    losses = valley(20, 60, noise=0.005)
    answers = [found(losses[:count], plan=6000) for count in range(1, 61)]
    turned = [answer.turned for answer in answers]
    first = turned.index(True)
    assert 22 <= first <= 30
    assert all(turned[first:])
    assert {answer.steps for answer in answers[:15]} == {6000}
    assert all(answer.steps == (answer.turn if answer.stays < 0.5 else 6000) for answer in answers[:first])
    assert {answer.high for answer in answers[:first]} == {6000}
    assert all(answer.low <= 2000 <= answer.high for answer in answers[first:])
    assert not answers[10].finished
    assert answers[-1].finished


def test_a_plan_of_its_own_and_what_is_refused():
    curve = Curve([100, 200, 300], [3.0, 2.0, 1.0])
    assert useful_horizon(curve, plan=200).plan == 300  # the log goes on beyond its plan
    for plan in (0, -1, math.nan, math.inf):
        with pytest.raises(ValueError, match="plan must be"):
            useful_horizon(curve, plan)
    with pytest.raises(ValueError, match="ends at step 0"):
        useful_horizon(Curve([0], [1.0]))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(st.floats(-1e308, 1e308), st.floats(0, 2), st.sampled_from([math.nan, math.inf, 1.0])),
        min_size=1,
        max_size=150,
    ).filter(lambda losses: any(map(math.isfinite, losses))),
    st.floats(1e-6, 1e12),
    st.floats(1, 20),
)
def test_any_curve_has_an_ordered_answer(losses, every, longer):
    curve = Curve([every * (at + 1) for at in range(len(losses))], losses)
    plan = curve.steps[-1] * longer
    answer = useful_horizon(curve, plan)
    assert 0 <= answer.low <= answer.steps <= answer.high <= plan * (1 + 1e-9)
    assert answer.low <= curve.best_step <= answer.high
    assert 0 <= answer.stays <= 1
    assert math.isfinite(answer.noise) or max(map(abs, losses)) > 1e300 or not all(map(math.isfinite, losses))


@pytest.mark.parametrize(("evaluations", "curves"), [(3, 800), (5, 800), (10, 800), (30, 500), (100, 300), (1000, 400)])
def test_the_interval_covers_what_it_says(evaluations, curves):
    """Nominal 90 %: of simulated curves with a known horizon, 85 to 95 %, with room for the chance of the draw."""
    draw = random.Random(evaluations)
    made = [simulate(draw, evaluations) for _ in range(curves)]
    answers = [useful_horizon(one.curve, PLAN) for one in made]
    held = sum(answer.low <= one.horizon <= answer.high for answer, one in zip(answers, made, strict=True)) / curves
    chance = math.sqrt(0.09 / curves)
    assert 0.85 - chance <= held <= 0.95 + chance


def committed():
    """Every curve of the committed studies with its plan."""
    for path in STUDIES:
        for line in path.read_text().splitlines()[1:]:
            files = json.loads(line)["files"]
            points = [json.loads(point) for point in files["curve.jsonl"].splitlines()]
            points = [(point["step"], point["val_loss"]) for point in points if point.get("val_loss") is not None]
            if points:
                yield Curve(*zip(*points, strict=True)), json.loads(files["run.json"])["budget"]
    for run in read_curves(STUDIES[0].parents[1] / "horizon"):
        yield run.curve, run.key.budget


def test_no_committed_curve_contradicts_its_horizon():
    """Never a horizon before the lowest loss, beyond the noise; and to the end where the lowest loss is the last."""
    count = false_stops = 0
    for curve, plan in committed():
        answer = useful_horizon(curve, plan)
        count += 1
        false_stops += early_stop(curve, plan).stop < curve.best_step
        if curve.best_step == curve.steps[-1]:
            assert answer.steps == plan
        if answer.steps < curve.best_step:
            around = [loss for step, loss in zip(curve.steps, curve.losses, strict=True) if step >= answer.low]
            assert min(around) - curve.best_loss <= 3 * answer.noise
    assert count > 6800
    assert false_stops > 200
