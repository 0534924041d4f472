"""Which way a metric improves: known by its name, guessed from its curve and said, or asked for."""

import json

import pytest

from oneclock import metric
from oneclock.advise import advise
from oneclock.cli import main
from oneclock.logs import read_log

HIGHER = (
    "reward val_elbo mIoU psnr exact_match pass@1 mAP50 spearman win_rate eval/f1 test_auc bleu rougeL ssim r2 "
    "ep_rew_mean top5 eval/return valacc neg_mean_squared_error val_score miou@0.5 log_likelihood nll_improvement"
)
LOWER = (
    "val_loss nll ppl perplexity wer cer mse val_mae rmse bpb bpc top5_err word_error_rate iou_loss neg_elbo valloss "
    "-elbo 1-acc"
)
RISES = [0.1 + 0.8 * (1 - 0.9**index) for index in range(40)]


@pytest.mark.parametrize(("names", "higher"), [(HIGHER, True), (LOWER, False), ("value metric eval/x kl", None)])
def test_known_by_name(names, higher):
    assert {name: metric.higher_is_better(name) for name in names.split()} == dict.fromkeys(names.split(), higher)


def table(name, values):
    return {"step": [500 * (index + 1) for index in range(len(values))], name: values}


@pytest.mark.parametrize("name", HIGHER.split())
@pytest.mark.parametrize("asks_for_it", [True, False])
def test_a_metric_that_rises_is_not_a_loss(name, asks_for_it):
    """A run that improves to its end is useful to its end; read as a loss it would be useless from its start."""
    values = [*RISES[:20], *(RISES[19] - 0.01 * index for index in range(20))]
    log = read_log(table(name, values), metric=name if asks_for_it else None)
    assert (log.direction.higher_is_better, log.direction.source) == (True, "name")
    assert log.runs[0].values == pytest.approx(values)
    assert log.curves[0].best_step == 10_000
    assert any("higher-is-better" in warning for warning in log.warnings)


@pytest.mark.parametrize(("values", "higher"), [(RISES, True), ([1 - value for value in RISES], False)])
def test_an_unknown_name_is_judged_by_its_curve_and_that_is_said(values, higher):
    log = read_log(table("thing", values))
    assert (log.direction.higher_is_better, log.direction.source) == (higher, "curve")
    assert any("because it" in warning for warning in log.warnings)
    assert log.curves[0].best_step == log.curves[0].steps[-1]


@pytest.mark.parametrize("values", [[1.0, 0.5, 0.3, 0.8, 2.0], [0.5, 0.5, 0.5], [0.7], [0.2, 0.9, 0.1, 0.8, 0.15]])
def test_where_the_curve_does_not_say_it_the_user_is_asked(values):
    with pytest.raises(ValueError, match="--higher-is-better"):
        read_log(table("thing", values))
    for higher in (True, False):
        log = read_log(table("thing", values), higher_is_better=higher)
        assert (log.direction.higher_is_better, log.direction.source) == (higher, "asked")
        assert log.curves[0].best_loss == (-max(values) if higher else min(values))


def test_the_user_overrules_the_name():
    assert read_log(table("val_score", [3.0, 2.0, 1.0]), higher_is_better=False).curves[0].best_loss == 1.0


def test_runs_that_disagree_about_an_unknown_metric_ask():
    rows = {"seed": [1, 1, 2, 2], "step": [1, 2, 1, 2], "thing": [1.0, 2.0, 2.0, 1.0]}
    with pytest.raises(ValueError, match="--higher-is-better"):
        read_log(rows)


def test_logs_of_two_directions_are_not_mixed():
    with pytest.raises(ValueError, match="one metric for all"):
        advise([read_log(table("val_loss", [2.0, 1.0])), read_log(table("val_acc", [0.5, 0.6]))])


def test_a_thinned_curve_still_shows_its_direction(monkeypatch):
    monkeypatch.setattr("oneclock.logs.series.LIMIT", 16)
    log = read_log(table("thing", RISES))
    assert log.direction.source == "curve"
    assert log.curves[0].best_loss == pytest.approx(-max(RISES))


@pytest.mark.parametrize(("flag", "best"), [("--higher-is-better", 0.9), ("--lower-is-better", 0.5)])
def test_the_command_takes_the_direction_and_shows_the_metrics_own_sign(tmp_path, capsys, flag, best):
    path = tmp_path / "log.csv"
    path.write_text("step,thing\n" + "".join(f"{500 * i},{v}\n" for i, v in enumerate([0.7, 0.5, 0.9, 0.6, 0.6], 1)))
    with pytest.raises(SystemExit) as end:
        main(["advise", str(path), flag, "--budget", "20k", "--json"])
    assert end.value.code in (0, None)
    answer = json.loads(capsys.readouterr().out)
    assert answer["logs"][0]["direction"] == {"higher_is_better": flag == "--higher-is-better", "source": "asked"}
    assert answer["runs"][0]["best_loss"] == best
