"""The corpus: every form that people have gives back the known horizon, from Python and from standard input."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from logs_corpus import CORPUS
from logs_known import BUDGET, CURVE, same_horizon

from oneclock import guards, logs
from oneclock.advise import advise


def test_there_are_at_least_twenty_forms():
    assert len(CORPUS) >= 20


@pytest.mark.parametrize("name", CORPUS)
def test_the_known_horizon(name, tmp_path):
    form = CORPUS[name]
    log = logs.read_log(form.written(tmp_path), **form.options)
    assert (log.format, log.unit) == (form.format, "steps")
    same_horizon(log.curves[0], CURVE, BUDGET)
    assert any("may be a training loss" in warning for warning in log.warnings) != form.validation
    advice = advise(log, budget=BUDGET)
    assert advice.beta is not None
    assert f"horizon={advice.horizon:_}" in advice.next


PRINTED = [name for name, form in CORPUS.items() if form.format.startswith("terminal")]


@pytest.mark.parametrize("name", PRINTED)
def test_printed_with_nothing_before_and_much_between(name, tmp_path):
    form = CORPUS[name]
    lines = form.content.splitlines(keepends=True)[3:]
    noise = "WARNING: 3 files, 17 retries\r  5%|#    | 1/20 [00:01<00:19, 1.0it/s]\n, ,\n{not json\n"
    for text in ("".join(lines), "".join(noise + line for line in lines)):
        (tmp_path / "output.log").write_text(text)
        log = logs.read_log(tmp_path / "output.log", **form.options)
        assert log.format == form.format
        same_horizon(log.curves[0], CURVE, BUDGET)


@pytest.mark.parametrize("name", [name for name, form in CORPUS.items() if isinstance(form.content, str)])
def test_the_same_from_standard_input(name, tmp_path):
    form = CORPUS[name]
    with open(form.written(tmp_path), "rb") as stream, guards.copied(stream.read) as path:
        same_horizon(logs.read_log(path, **form.options).curves[0], CURVE, BUDGET)
    assert not path.exists()
