"""Workers that share one study: no driver, any number of them, ended, frozen and woken; no run has two writers."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import chaos
import pytest
from chaos import until

from oneclock.lab import experiment_target
from oneclock.lab.training import checkpoint
from oneclock.runs import lock as claims
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.lock import join, leave, take_alone, workers
from oneclock.runs.store import Study
from oneclock.sweep import Command, Execution, Grid, Paper, Plan
from oneclock.sweep.api import target_of
from oneclock.sweep.exec.job import Ended, Job
from oneclock.sweep.exec.supervise import give_up
from oneclock.sweep.exec.worker import Worker, shared_plan, work
from oneclock.sweep.plan import base_of

SMALL = {"betas": (0.5, 0.9, 0.99), "seeds": (1, 2)}


def planned(folder, protocol=None, budget=200, target=f"{chaos.TARGET}:train"):
    """A study that is asked for, and that nobody works on yet."""
    Plan(folder, [target_of(target, budget)], protocol or Grid(**SMALL)).write()
    return folder


def worker(study, marked, *more, within=(), **environment):
    line = [*within, sys.executable, "-m", "oneclock", "work", study, "--jobs", "1", *more]
    return subprocess.Popen(
        line, env=marked.environment(**environment), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def lines(study):
    return sum(len(path.read_text().splitlines()) for path in study.glob("runs/*/*/curve.jsonl"))


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    study = planned(tmp_path_factory.mktemp("calm") / "study")
    assert work(study, quiet=True) is None
    return chaos.table(study)


def test_a_worker_refuses_code_that_is_not_that_of_the_plan(tmp_path):
    train = tmp_path / "train.py"
    train.write_text("def train(beta, seed, run):\n    run.log(run.budget, val_loss=1.0 + beta)\n")
    study = planned(tmp_path / "study", target=f"{train}:train")
    train.write_text(train.read_text().replace("1.0", "2.0"))
    with pytest.raises(ValueError, match=r"the code has changed since the plan of .* was written \(train.py\)"):
        work(study, quiet=True)
    planned(study, target=f"{train}:train")
    assert work(study, quiet=True) is None
    assert {run.best_loss for run in Study(study).rows()} == {2.5, 2.9, 2.99}


def test_workers_that_come_and_go_together_leave_each_other_alone(tmp_path):
    line = (
        "import sys; from pathlib import Path; from oneclock.runs.lock import join, leave\n"
        "for _ in range(100):\n    claim = join(Path(sys.argv[1]))\n    assert not claim.lost\n    leave(claim)\n"
    )
    four = [subprocess.Popen([sys.executable, "-c", line, tmp_path], stderr=subprocess.PIPE) for _ in range(4)]
    told = [one.communicate(timeout=120)[1] for one in four]
    assert [one.returncode for one in four] == [0] * 4, told
    assert not list((tmp_path / "workers").iterdir())


def test_what_dead_workers_left_goes_and_what_a_new_one_is_making_stays(tmp_path):
    making, old, dead = (tmp_path / "workers" / name for name in ("making", "old", "dead"))
    for folder in (making, old, dead):
        folder.mkdir(parents=True)
    os.utime(old, (0, 0))
    owner = {"host": claims.me().host, "pid": os.getpid(), "born": "before"}
    (dead / "claim-1.json").write_text(json.dumps(owner))
    with join(tmp_path) as claim:
        assert sorted(tmp_path.glob("workers/*")) == sorted([making, claim.path.parent])


def test_a_sweep_that_only_looked_in_refuses_no_worker(tmp_path):
    glance = claims.Claim.take(tmp_path)
    threading.Timer(0.3, glance.release).start()
    leave(join(tmp_path))
    with chaos.held_elsewhere(tmp_path), pytest.raises(claims.Held, match="a sweep; wait for it"):
        join(tmp_path)


def test_of_two_plans_that_were_checked_at_once_the_second_is_refused(tmp_path):
    study = planned(tmp_path / "s")
    one, two = (
        Plan(study, [target_of(f"{chaos.TARGET}:train", 200)], Grid((*SMALL["betas"], beta), (1, 2)), extend=True)
        for beta in (0.6, 0.7)
    )
    one.check()
    two.check()
    one.write()
    with pytest.raises(ValueError, match="would leave out beta 0.6"):
        two.write()


def test_a_run_that_another_worker_has_taken_is_not_given_up(tmp_path):
    target = target_of(f"{chaos.TARGET}:train", 200)
    key = base_of(target).at(0.9, 1)
    path = tmp_path / "run"
    job = Job(str(path), target, key, "", "", (), waits=False)
    with chaos.held_elsewhere(path):
        assert give_up(job, "its machine is broken") == Ended(str(path))
    assert give_up(job, "its machine is broken").result.status == "failed"


def test_a_worker_knows_the_runs_of_others_before_it_calls_its_first_one_silent(tmp_path):
    (tmp_path / "mine.py").write_text("def train(beta, seed, run):\n    return None if beta == 0.5 else beta\n")
    study = tmp_path / "s"
    Plan(study, [target_of(f"{tmp_path}/mine.py:train", 10)], Grid((0.5, 0.9), (1,))).write()
    engine = Execution(jobs=1).engine()
    with join(study) as claim:
        plan = shared_plan(study)
        late = Worker(plan, Execution(), claim, engine)
        other = shared_plan(study)
        (target,) = other.targets
        good, silent_key = base_of(target).at(0.9, 1), base_of(target).at(0.5, 1)
        target.execute(other.run_path(good), good)
        silent = target.execute(other.run_path(silent_key), silent_key)
        plan.study.remember(silent_key.folder, silent)
        late.stop_if_hopeless(target, plan.row(silent_key))  # raises `Stopped` for a first run without a curve
        assert plan.row(good).status == "finished"
    engine.close()


def test_runs_are_counted_once_from_wherever_the_study_is_named(tmp_path, monkeypatch, capsys):
    planned(tmp_path / "s")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert work("../s", Execution(jobs=2)) is None
    assert "[6 of 6 runs]" in capsys.readouterr().out


def test_a_run_that_ends_while_a_table_is_made_is_not_called_interrupted(tmp_path):
    identity = RunKey("digits", beta=0.9, seed=1, budget=30)
    run = RunFolder.start(tmp_path / "runs" / identity.folder, identity)
    study = Study(tmp_path)
    assert not study.ended
    run.log(30, val_loss=1.0)
    run.finish("finished", seconds=1.0)
    assert [row.status for row in study.rows()] == ["finished"]


def test_two_workers_share_a_study_and_its_second_stage(tmp_path):
    paper = Paper(betas=(0.5, 0.9, 0.99), seeds=(1, 2))
    study, alone, done = tmp_path / "s", tmp_path / "alone", tmp_path / "completed"
    planned(alone, paper)
    asked = ["--protocol", "paper", "--betas", "0.5,0.9,0.99", "--seeds", "1,2"]
    line = [*chaos.command(study, *asked), "--plan-only"]
    planning = subprocess.run(line, check=True, capture_output=True, text=True).stdout
    assert f"oneclock work {study}" in planning
    assert not (study / "runs").exists()
    marked = chaos.Marked()
    two = [worker(study, marked, PACE="0.05", COMPLETED=str(done)) for _ in range(2)]
    told = [one.communicate(timeout=120) for one in two]
    assert [one.returncode for one in two] == [0, 0], told
    assert all("finished" in out for out, _ in told)
    assert work(alone, quiet=True) is None
    assert chaos.table(study) == chaos.table(alone)
    names = done.read_text().split()
    assert len(names) == len(set(names)) == 6
    assert marked.gone(within=5)
    assert not any((study / "workers").iterdir())


def test_a_worker_that_is_asked_to_end_gives_its_runs_back(tmp_path, calm):
    study, marked = planned(tmp_path / "s"), chaos.Marked()
    for number in (signal.SIGTERM, signal.SIGUSR1):
        before = lines(study)
        one = worker(study, marked, PACE="0.1")
        until(lambda before=before: lines(study) > before + 2)
        one.send_signal(number)
        _, stderr = one.communicate(timeout=60)
        assert one.returncode == 130
        assert stderr == f"oneclock: left {study} ({number.name}); another worker can continue it\n"
        assert marked.gone(within=5)
        assert list(study.glob("runs/*/*/claim-*")) == []
    assert work(study, quiet=True) is None
    assert chaos.table(study) == calm


def test_an_experiment_saves_where_it_is_when_its_worker_is_asked_to_end(tmp_path):
    pytest.importorskip("sklearn")
    settings = ("evaluation.every=5",)
    for name in ("s", "alone"):
        target = experiment_target("resnet-digits", 60, settings)
        Plan(tmp_path / name, [target], Grid(betas=(0.9,), seeds=(1,))).write()
    study, marked = tmp_path / "s", chaos.Marked()
    one = worker(study, marked)
    until(lambda: lines(study) > 1, within=120)
    one.send_signal(signal.SIGTERM)
    one.communicate(timeout=60)
    (saved,) = study.glob("runs/*/*/checkpoint/*.pt")
    assert int(saved.name.split("-")[1]) >= 10
    assert list(study.glob("runs/*/*/claim-*")) == []
    for name in ("s", "alone"):
        assert work(tmp_path / name, Execution(in_process=True), quiet=True) is None
    assert chaos.table(study) == chaos.table(tmp_path / "alone")


def test_a_command_that_ends_well_because_it_was_asked_to_is_not_finished(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "out = pathlib.Path(sys.argv[1]); log = out / 'log.csv'; log.write_text('step,val_loss\\n10,1.5\\n')\n"
        "while not (out / 'go').exists(): time.sleep(0.05)\n"
        "log.write_text('step,val_loss\\n10,1.5\\n20,1.25\\n')\n"
    )
    command = f"{sys.executable} {script} {{folder}} {{beta}} {{seed}}"
    Plan(tmp_path / "s", [Command(command, 20)], Grid(betas=(0.9,), seeds=(1,))).write()
    marked, files = chaos.Marked(), tmp_path / "s/runs/command/beta-0.9-seed-1/files"
    one = worker(tmp_path / "s", marked)
    until((files / "log.csv").exists)
    one.terminate()
    one.communicate(timeout=60)
    assert one.returncode == 130
    assert not (files.parent / "result.json").exists()
    (files / "go").touch()
    assert work(tmp_path / "s", quiet=True) is None
    assert [row.best_loss for row in Study.open(tmp_path / "s").rows()] == [1.25]


def test_a_worker_leaves_in_time_and_starts_no_run_that_could_save_nothing(tmp_path):
    study = planned(tmp_path / "s")
    plan = Plan.read(study)
    (target,) = plan.targets
    first = plan.step(target).runs[0]
    run = RunFolder.start(plan.run_path(first), target.with_spec(first))
    for step in (100, 200):
        run.log(step, val_loss=1.0)
    run.finish("finished", seconds=2000.0)
    marked = chaos.Marked()
    late = worker(study, marked, "--time-left", "900", "--grace", "1")
    _, stderr = late.communicate(timeout=60)
    assert (late.returncode, "its time is too short for another run" in stderr) == (130, True)
    assert len(list(study.glob("runs/*/*"))) == 1
    short = worker(planned(tmp_path / "t"), marked, "--time-left", "4", "--grace", "1", PACE="1")
    _, stderr = short.communicate(timeout=60)
    assert (short.returncode, "its time is up" in stderr) == (130, True)
    assert Study.open(tmp_path / "t").failed() == []


def test_a_sweep_and_workers_keep_apart(tmp_path):
    study, marked = planned(tmp_path / "s"), chaos.Marked()
    one = worker(study, marked, PACE="0.5")
    until(lambda: lines(study))
    again = [sys.executable, "-m", "oneclock", "sweep", "--out", study]
    refused = subprocess.run(again, capture_output=True, text=True)
    assert (refused.returncode, "is being worked on by 1 worker(s)" in refused.stderr) == (2, True)
    told = subprocess.run([*again[:3], "status", study, "--json"], capture_output=True, text=True, check=True)
    assert [str(one.pid) in who for who in json.loads(told.stdout)["workers"]] == [True]
    one.terminate()
    one.communicate(timeout=60)
    with take_alone(study), pytest.raises(claims.Held, match="a sweep"):
        work(study, quiet=True)
    assert workers(study) == []


def test_a_record_that_is_torn_is_set_aside_by_whoever_meets_it(tmp_path, calm):
    study = planned(tmp_path / "s")
    assert work(study, quiet=True) is None
    (study / "runs/sweep_target.train/beta-0.9-seed-1/result.json").write_text("{")
    (study / "runs/sweep_target.train/beta-0.5-seed-1/run.json").unlink()
    assert work(study, quiet=True) is None
    assert chaos.table(study) == calm
    assert len(list((study / "damaged").glob("*/*"))) == 2


def test_a_writer_that_has_lost_its_claim_writes_nothing(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    run = RunFolder.start(folder, RunKey("a", 0.9, 1, 10))
    with claims.Claim.take(folder) as claim, claims.under(claim):
        run.log(1, val_loss=1.0)
        checkpoint.save(folder, 1, {})
        others = {"host": "elsewhere", "pid": 1, "born": "0"}
        claim.path.write_text(json.dumps(others))  # its number was given anew: by its name alone it would seem held
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for write in (
            lambda: run.log(2, val_loss=1.0),
            lambda: run.rewind(0),
            lambda: run.finish("finished", 1.0),
            lambda: checkpoint.save(folder, 2, {}),
        ):
            for folders in ({folder: claim}, {}):  # this process's own claim, and that of who started it
                monkeypatch.setattr(claims.Claim, "held", folders)
                with pytest.raises(claims.Held, match="taken over"):
                    write()
        assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    run.log(2, val_loss=1.0)  # nobody's claim: a run that is trained by hand


LOSES_ITS_CLAIM = """
from pathlib import Path
def train(beta, seed, run):
    first = not (run.folder / "begun").exists()
    (run.folder / "begun").touch()
    if first:
        for claim in run.folder.parent.glob("claim-*.json"):
            claim.unlink()
    run.log(run.budget, val_loss=1.0)
"""


def test_a_run_that_was_taken_over_and_given_back_is_not_recorded_as_failed(tmp_path):
    (tmp_path / "loses.py").write_text(LOSES_ITS_CLAIM)
    study = planned(tmp_path / "s", Grid(betas=(0.9,), seeds=(1,)), target=f"{tmp_path / 'loses.py'}:train")
    assert work(study, quiet=True) is None
    assert [run.status for run in Study(study).rows()] == ["finished"]


def test_a_process_that_has_lost_its_run_does_not_start_to_train(tmp_path):
    (tmp_path / "trains.py").write_text("def train(beta, seed, run):\n    (run.folder / 'trained').touch()\n")
    target = target_of(f"{tmp_path / 'trains.py'}:train", 10)
    folder, key = tmp_path / "run", RunKey("a", 0.9, 1, 10)
    RunFolder.start(folder, target.with_spec(key))
    (folder / "curve.jsonl").write_text('{"step": 1, "val_l')  # the line that the other process is writing
    with claims.Claim.take(folder) as claim:
        claim.path.unlink()
        with pytest.raises(claims.Held, match="taken over"):
            target.execute(folder, key)
        assert (folder / "curve.jsonl").read_text() == '{"step": 1, "val_l'
        assert not (folder / "files" / "trained").exists()


APART = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc")
"""A machine of its own, as far as claims can tell: no process outside is seen."""

alone = pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run([*APART, "true"], capture_output=True).returncode != 0,
    reason="this system makes no process namespaces for its users",
)


def tree(pid):
    """A process and all that descends from it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            found += map(int, task.read_text().split())
    return found


@alone
def test_a_frozen_worker_that_wakes_has_lost_its_run_and_writes_nothing(tmp_path, calm):
    study, marked, done = planned(tmp_path / "s"), chaos.Marked(), tmp_path / "completed"
    settings = {"ONECLOCK_STALE": "3", "PACE": "0.3", "COMPLETED": str(done)}
    frozen = worker(study, marked, within=APART, **settings)
    until(lambda: lines(study) > 1)
    (taken,) = {path.parent for path in study.glob("runs/*/*/curve.jsonl")}
    asleep = tree(frozen.pid)
    for pid in asleep:
        os.kill(pid, signal.SIGSTOP)
    other = worker(study, marked, within=APART, **settings)
    until((taken / "result.json").exists, within=120)
    ended = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in taken.glob("*.json*")}
    for pid in asleep:
        os.kill(pid, signal.SIGCONT)
    for one in (frozen, other):
        one.communicate(timeout=120)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in taken.glob("*.json*")} == ended
    assert chaos.table(study) == calm
    names = done.read_text().split()
    assert len(names) == len(set(names)) == 6


@pytest.mark.slow
@alone
def test_workers_killed_ended_and_frozen_at_random_leave_the_table_of_one_that_was_left_alone(tmp_path):
    calm, study, done = planned(tmp_path / "calm", Paper()), planned(tmp_path / "s", Paper()), tmp_path / "completed"
    assert work(calm, quiet=True) is None
    dice, marked, known = random.Random(7), chaos.Marked(), {}
    settings = {"ONECLOCK_STALE": "3", "PACE": "0.3", "COMPLETED": str(done)}

    def begun():
        return worker(study, marked, "--retries", "20", within=APART, **settings)

    team, frozen = [begun() for _ in range(3)], []
    for strike in ["freeze", "kill", "end", "freeze", *dice.choices(["freeze", "kill", "end"], k=16)]:
        time.sleep(dice.uniform(1, 5))
        known = results_kept(study, known)
        one = team.pop(dice.randrange(len(team)))
        for pid in reversed(tree(one.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, {"freeze": signal.SIGSTOP, "kill": signal.SIGKILL, "end": signal.SIGTERM}[strike])
        if strike == "freeze":
            frozen.append((time.monotonic(), tree(one.pid), one))
        else:
            one.communicate(timeout=60)
        team.append(begun())
        for since, pids, sleeper in [sleeper for sleeper in frozen if time.monotonic() - sleeper[0] > 8]:
            frozen.remove((since, pids, sleeper))
            wake(pids)
            team.append(sleeper)
    for _, pids, sleeper in frozen:
        wake(pids)
        team.append(sleeper)
    for one in team:
        one.communicate(timeout=300)
    assert results_kept(study, known) == {path: path.read_bytes() for path in study.glob("runs/*/*/result.json")}
    assert chaos.table(study) == chaos.table(calm)
    names = done.read_text().split()
    assert len(names) == len(set(names)) == 23


def results_kept(study, known):
    """The results by now, those that were known as they were then."""
    return {path: path.read_bytes() for path in study.glob("runs/*/*/result.json")} | known


def wake(pids):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
