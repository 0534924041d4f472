"""Logs with bad data in them: the right curve, a warning, or a refusal; never a silent wrong answer."""

import json
import math
import random

import pytest

from oneclock.advise import advise
from oneclock.horizon import Curve
from oneclock.logs import LoggedRun, read_log
from oneclock.logs.arguments import Arguments

LOSSES = [round(1.5 + math.exp(-index / 4) + max(0, index - 16) / 80, 4) for index in range(40)]
STEPS = [500 * (index + 1) for index in range(40)]


def csv(path, rows, header="step,val_loss"):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def warned(log, words):
    return any(words in warning for warning in log.warnings)


def dotted(step):
    return f"{step:,}".replace(",", ".")


@pytest.mark.parametrize("separator", [".", ",", " ", "'", ""])
@pytest.mark.parametrize("delimiter", [";", "\t", ","])
def test_thousands_after_smaller_steps_are_thousands(tmp_path, separator, delimiter):
    quote = '"' if delimiter == "," else ""
    steps = [quote + f"{step:,}".replace(",", separator) + quote for step in STEPS]
    rows = [f"{step}{delimiter}{loss}" for step, loss in zip(steps, LOSSES, strict=True)]
    log = read_log(csv(tmp_path / "log.csv", rows, f"step{delimiter}val_loss"))
    assert log.curves == [Curve(STEPS, LOSSES)]


def test_thousands_from_the_first_row_are_asked_for(tmp_path):
    rows = [f"{dotted(1000 * step)},{loss}" for step, loss in enumerate(LOSSES, 1)]
    with pytest.raises(ValueError, match=r"'1\.000': is it 1000 or 1\?"):
        read_log(csv(tmp_path / "log.csv", rows))


@pytest.mark.parametrize("gap", [" ", "'", "\u202f", ","])
def test_printed_thousands_are_read_whole_or_asked_for(tmp_path, gap):
    path, steps = tmp_path / "log.txt", [f"{step:,}".replace(",", gap) for step in STEPS]
    lines = [f"step {step} | val loss {loss}\n" for step, loss in zip(steps, LOSSES, strict=True)]
    path.write_text("".join(lines))
    assert read_log(path).curves == [Curve(STEPS, LOSSES)]
    path.write_text("".join(lines[1:]))
    if gap in " ,":
        with pytest.raises(ValueError, match="is it 1000 or 1"):
            read_log(path)
    else:
        assert read_log(path).curves == [Curve(STEPS[1:], LOSSES[1:])]


@pytest.mark.parametrize("name", ["lr", "grad_norm", "eval_runtime"])
def test_a_setting_or_a_speed_alone_is_no_loss(tmp_path, name):
    with pytest.raises(ValueError, match="no column that looks like a loss"):
        read_log(csv(tmp_path / "log.csv", ["1,3", "2,2", "3,1"], f"step,{name}"))


def test_points_are_thousands_where_losses_have_decimal_commas(tmp_path):
    rows = [f"{dotted(1000 * step)};{str(loss).replace('.', ',')}" for step, loss in enumerate(LOSSES, 1)]
    log = read_log(csv(tmp_path / "log.csv", rows, "step;val_loss"))
    assert log.curves == [Curve([1000 * step for step in range(1, 41)], LOSSES)]


def test_steps_with_decimals_stay_decimals(tmp_path):
    log = read_log(csv(tmp_path / "log.csv", [f"{float(step):.3f},{loss}" for step, loss in enumerate(LOSSES)]))
    assert log.curves == [Curve(range(40), LOSSES)]


@pytest.mark.parametrize("every", [0.5, 0.25])
def test_steps_that_are_fractions_are_no_optimizer_steps(tmp_path, every):
    """`0.500, 1.000, 1.500` counts thousands or epochs. As optimizer steps it would give a beta for 20 steps."""
    rows = [f"{every * step:.3f},{loss}" for step, loss in enumerate(LOSSES, 1)]
    with pytest.raises(ValueError, match="whole numbers"):
        read_log(csv(tmp_path / "log.csv", rows))
    assert read_log(csv(tmp_path / "log.csv", rows, "epoch,val_loss"), steps_per_epoch=1000).unit == "steps"


@pytest.mark.parametrize("text", ["step {} | val_loss {}", "iteration: {}, val loss: {}"])
def test_printed_thousands(tmp_path, text):
    path = tmp_path / "output.log"
    path.write_text("".join(text.format(dotted(step), loss) + "\n" for step, loss in zip(STEPS, LOSSES, strict=True)))
    assert read_log(path).curves == [Curve(STEPS, LOSSES)]
    path.write_text("".join(text.format(dotted(1000 * (i + 1)), loss) + "\n" for i, loss in enumerate(LOSSES)))
    with pytest.raises(ValueError, match="is it 1000 or 1"):
        read_log(path)


def test_a_counter_that_restarts_after_a_resume_goes_on(tmp_path):
    first, second = LOSSES[:20], LOSSES[20:]
    rows = [f"{500 * (index + 1)},{loss}" for part in (first, second) for index, loss in enumerate(part)]
    log = read_log(csv(tmp_path / "log.csv", rows))
    assert log.curves == [Curve(STEPS, LOSSES)]
    assert warned(log, "from 10,000 to 500")
    assert warned(log, "joined in order")


def test_a_resume_from_a_checkpoint_replaces_what_it_repeats(tmp_path):
    lost = [9.0] * 5  # what the first attempt logged after the checkpoint at step 10,000, at other steps
    rows = [f"{step},{loss}" for step, loss in zip(STEPS[:20], LOSSES[:20], strict=True)]
    rows += [f"{10_000 + 600 * (index + 1)},{loss}" for index, loss in enumerate(lost)]
    rows += [f"{step},{loss}" for step, loss in zip(STEPS[20:], LOSSES[20:], strict=True)]
    log = read_log(csv(tmp_path / "log.csv", rows))
    assert log.curves == [Curve(STEPS, LOSSES)]
    assert warned(log, "from 13,000 to 10,500")
    assert warned(log, "later values replace")


def test_a_second_run_in_the_same_file_is_not_mixed_with_the_first(tmp_path):
    first = [loss + 0.5 for loss in LOSSES[:25]]
    rows = [f"{300 * (index + 1)},{loss}" for index, loss in enumerate(first)]
    rows += [f"{step},{loss}" for step, loss in zip(STEPS, LOSSES, strict=True)]
    log = read_log(csv(tmp_path / "log.csv", rows))
    assert log.curves[0].steps[-40:] == tuple(STEPS)
    assert log.curves[0].losses[-40:] == tuple(LOSSES)
    assert warned(log, "step counter goes back from 7,500 to 500")


def test_a_log_out_of_order_is_sorted_and_that_is_said(tmp_path):
    rows = [f"{step},{loss}" for step, loss in zip(STEPS, LOSSES, strict=True)]
    random.Random(0).shuffle(rows)
    log = read_log(csv(tmp_path / "log.csv", rows))
    assert log.curves == [Curve(STEPS, LOSSES)]
    assert warned(log, "sorted by step")
    late = [*STEPS[:10], STEPS[11], STEPS[10], *STEPS[12:]]
    losses = dict(zip(STEPS, LOSSES, strict=True))
    log = read_log(csv(tmp_path / "log.csv", [f"{step},{losses[step]}" for step in late]))
    assert log.curves == [Curve(STEPS, LOSSES)]
    assert warned(log, "sorted by step")


@pytest.mark.parametrize("placeholder", ["-1", "0", "0.0", "-1.0", "-100", "999", "1e9"])
def test_placeholders_are_not_losses(tmp_path, placeholder):
    rows = [f"{step - 250},{placeholder}\n{step},{loss}" for step, loss in zip(STEPS, LOSSES, strict=True)]
    log = read_log(csv(tmp_path / "log.csv", rows))
    assert log.curves == [Curve(STEPS, LOSSES)]
    assert warned(log, "40 values of 'val_loss'")
    assert warned(log, "placeholder")
    if float(placeholder) > 0:  # as the last loss it would be a divergence
        return
    same_step = [f"{step},{loss}\n{step},{placeholder}" for step, loss in zip(STEPS, LOSSES, strict=True)]
    assert read_log(csv(tmp_path / "log.csv", same_step)).curves == [Curve(STEPS, LOSSES)]


@pytest.mark.parametrize("losses", [[2.0, 0.5, 0.01, 0.0, 0.0], [1.0, 0.0, -1.0, -2.5], [-3.0, -1.0, -4.0]])
def test_losses_that_reach_zero_or_less_are_losses(tmp_path, losses):
    log = read_log(csv(tmp_path / "log.csv", [f"{step},{loss}" for step, loss in enumerate(losses)]))
    assert log.curves == [Curve(range(len(losses)), losses)]
    assert not warned(log, "placeholder")


def test_a_constant_curve_has_no_horizon(tmp_path):
    path = csv(tmp_path / "log.csv", [f"{step},1.5" for step in STEPS])
    assert warned(read_log(path), "every finite 'val_loss' is 1.5")
    with pytest.raises(ValueError, match=r"every evaluation is 1\.5"):
        advise(path)


@pytest.mark.parametrize("options", [{}, {"budget": 20_000}])
def test_steps_after_a_divergence_are_not_useful(tmp_path, options):
    """The loss falls until step 4,000 and is NaN from 4,250 on, of 20,000 planned steps."""
    losses = [3.0 - step / 2000 for step in range(250, 4250, 250)]
    points = [*zip(range(250, 4250, 250), losses, strict=True), *((step, math.nan) for step in range(4250, 8250, 250))]
    path = tmp_path / "log.jsonl"
    entries = [{"step": step, "val_loss": loss, "max_steps": 20_000} for step, loss in points]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    assert warned(read_log(path), "not finite from step 4,250 on")
    advice = advise(path, **options)
    assert advice.horizon <= 4000
    assert advice.diverged
    assert "diverged" in str(advice).splitlines()[0]


def test_the_best_loss_is_the_loss_of_the_best_step(tmp_path):
    """A dip long after the early stop must not lend its loss to the best step before it."""
    losses = [*LOSSES[:35], 0.5, *LOSSES[36:]]
    path = csv(tmp_path / "log.csv", [f"{step},{loss}" for step, loss in zip(STEPS, losses, strict=True)])
    for run in advise(path, budget=20_000).runs:
        assert run.best_loss == losses[STEPS.index(run.best_step)]


RATES = [3e-3 * min(step / 2000, 0.5 * (1 + math.cos(math.pi * step / 20_000))) for step in STEPS]


@pytest.mark.parametrize("key", ["lr", "learning_rate", "train/learning_rate"])
def test_the_learning_rate_is_the_peak_not_the_last(tmp_path, key):
    entries = [{"step": s, "val_loss": v, key: r} for s, v, r in zip(STEPS, LOSSES, RATES, strict=True)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    peak = max(RATES)
    assert read_log(path).runs[0].arguments.lr == pytest.approx(peak, rel=5e-3)
    assert f"lr={peak:.3g}" in str(advise(path))
    state = tmp_path / "trainer_state.json"
    state.write_text(json.dumps({"global_step": 20_000, "max_steps": 20_000, "log_history": entries}))
    assert read_log(state).runs[0].arguments.lr == pytest.approx(peak, rel=5e-3)
    rows = [f"{s},{r},{v}" for s, v, r in zip(STEPS, LOSSES, RATES, strict=True)]
    table = csv(tmp_path / "log.csv", rows, f"step,{key},val_loss")
    assert read_log(table).runs[0].arguments.lr == pytest.approx(peak, rel=5e-3)
    columns = tmp_path / "history.json"
    columns.write_text(json.dumps({"step": STEPS, "val_loss": LOSSES, key: RATES}))
    assert read_log(columns).runs[0].arguments.lr == pytest.approx(peak, rel=5e-3)


def test_a_setting_counts_before_what_was_logged(tmp_path):
    path = tmp_path / "log.jsonl"
    entries = [{"lr": 0.003, "beta1": 0.9, "beta2": 0.95}]
    entries += [{"step": s, "val_loss": v, "learning_rate": r} for s, v, r in zip(STEPS, LOSSES, RATES, strict=True)]
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    arguments = read_log(path).runs[0].arguments
    assert (arguments.lr, arguments.beta1, arguments.beta2) == (0.003, 0.9, 0.95)


def test_a_beta_that_changes_is_not_the_beta_of_the_run(tmp_path):
    path = tmp_path / "log.jsonl"
    rows = [{"step": s, "val_loss": v, "beta": 0.9 + s / 1e6} for s, v in zip(STEPS, LOSSES, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_log(path).runs[0].arguments.beta1 is None


def test_tables_in_memory(tmp_path):
    pandas = pytest.importorskip("pandas")
    columns = {"step": STEPS, "train_loss": [1.0] * 40, "val_loss": LOSSES}
    path = csv(tmp_path / "log.csv", [f"{step},{loss}" for step, loss in zip(STEPS, LOSSES, strict=True)])
    frame = pandas.DataFrame(columns)
    for table in (
        columns,
        frame,
        frame.set_index("step"),
        frame[["step", "val_loss"]].melt(id_vars="step", var_name="metric"),
    ):
        assert read_log(table).curves == [Curve(STEPS, LOSSES)]
        assert advise(table).beta == advise(path).beta
    assert read_log(frame).path == "the table"
    sparse = {"step": [1, 2, 3, 4], "val_loss": [math.nan, 2.0, math.nan, 1.0]}
    assert read_log(pandas.DataFrame(sparse)).curves == [Curve([2, 4], [2.0, 1.0])]
    diverged = {"step": [1, 2, 3, 4], "val_loss": [3.0, 2.0, math.nan, math.nan]}
    assert warned(read_log(pandas.DataFrame(diverged)), "not finite from step 3")


@pytest.mark.parametrize("source", [[3.0, 2.5], 3.0, [Curve([1, 2], [2.0, 1.0]), 7], None])
def test_what_is_no_log_is_refused_in_one_line(source):
    with pytest.raises(ValueError, match="give a table"):
        advise(source)
    with pytest.raises(ValueError, match="a log is a path"):
        read_log(source)


def test_a_curve_is_taken_as_a_run():
    curve = Curve(STEPS, LOSSES)
    assert advise(curve).beta == advise(LoggedRun("a", curve, Arguments())).beta
