"""The sweep as people run it: killed, interrupted, shared and remote, with real processes."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time

import chaos
import pytest
from chaos import until
from chaos.clusters import cluster
from chaos.kills import ClusterKills, Kills
from chaos.sweeps import QUICK

from oneclock.runs.lock import Claim, Held, holder
from oneclock.runs.store import Study
from oneclock.sweep import Execution, run_sweep


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """The table of an undisturbed sweep of QUICK."""
    study = tmp_path_factory.mktemp("calm") / "study"
    subprocess.run(chaos.command(study, *QUICK, "--in-process"), check=True, stdout=subprocess.DEVNULL)
    return chaos.table(study)


def started(study, marked, *more, pace="0.2", **environment):
    """A sweep under way: some run has logged."""
    process = subprocess.Popen(
        chaos.command(study, *QUICK, *more), env=marked.environment(PACE=pace, **environment), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    until(lambda: list(study.glob("runs/*/*/curve.jsonl")) or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    return process


def struck(kills, times):
    """What did not hold of sweeps that were struck so often, and the number that were struck."""
    dice = random.Random(time.time())
    wrong = [line for _ in range(times) for line in kills.strike(dice)[1]]
    return wrong + kills.close(), kills.number


def test_killed_and_restarted_it_ends_with_the_same_table(tmp_path):
    wrong, sweeps = struck(Kills(tmp_path / "kills"), 3)
    assert wrong == []
    assert sweeps > 1


def test_interrupted_it_stops_cleanly_and_goes_on(tmp_path, calm):
    marked = chaos.Marked()
    process = started(tmp_path / "s", marked)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of its processes
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr == "oneclock: stopped; the same command continues it\n"
    assert marked.gone(within=5)
    assert holder(tmp_path / "s") is None
    assert "interrupted" in [row.status for row in Study.open(tmp_path / "s").rows()]
    subprocess.run(chaos.command(tmp_path / "s", *QUICK), check=True, stdout=subprocess.DEVNULL)
    assert chaos.table(tmp_path / "s") == calm


def test_a_second_sweep_is_refused_and_status_sees_the_first(tmp_path, calm):
    marked = chaos.Marked()
    hold = tmp_path / "hold"
    hold.touch()
    process = started(tmp_path / "s", marked, HOLD=str(hold))
    second = subprocess.run(chaos.command(tmp_path / "s", *QUICK), capture_output=True, text=True, check=False)
    assert second.returncode == 2
    assert f"being worked on by process {process.pid}" in second.stderr
    line = [sys.executable, "-m", "oneclock", "status", tmp_path / "s"]
    told = json.loads(subprocess.run([*line, "--json"], capture_output=True, text=True, check=True).stdout)
    assert f"process {process.pid}" in told["sweep"]
    assert "running" in [row["status"] for row in told["runs"]]
    assert "a sweep is running" in subprocess.run(line, capture_output=True, text=True, check=True).stdout
    retry = [sys.executable, "-m", "oneclock", "retry", tmp_path / "s"]
    refused = subprocess.run(retry, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert f"being worked on by process {process.pid}" in refused.stderr
    hold.unlink()
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0, stderr
    assert chaos.table(tmp_path / "s") == calm
    assert marked.gone(within=5)


def test_a_cluster_of_two_workers_one_killed_in_the_middle(tmp_path, calm):
    ours = chaos.Marked()
    with cluster(tmp_path, PACE="0.2") as workers:
        line = chaos.command(tmp_path / "s", *QUICK, "--cluster", workers.address)
        process = subprocess.Popen(line, env=ours.environment(), stdout=subprocess.DEVNULL)
        until(lambda: len(list(tmp_path.glob("s/runs/*/*/curve.jsonl"))) == 2)
        workers.kill_worker(0)
        assert process.wait(timeout=120) == 0
        assert chaos.table(tmp_path / "s") == calm
        assert workers.marked.gone("run", within=10)
    assert ours.gone()
    assert workers.marked.gone()


def test_a_cluster_that_anyone_reaches_is_refused_and_one_with_tls_is_used(tmp_path):
    with pytest.raises(
        ValueError, match=r"executes code from anyone who can reach it: use Dask's TLS \(tls://..\), or insec"
    ):
        run_sweep(f"{chaos.TARGET}:train", 20, tmp_path / "s", where=Execution(scheduler="tcp://198.51.100.7:8786"))
    assert not (tmp_path / "s").exists()
    from distributed import LocalCluster, Security

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0", host="127.0.0.1",
        protocol="tls://", security=Security.temporary(),
    ) as workers:  # fmt: skip
        assert workers.scheduler_address.startswith("tls://")
        study = run_sweep(
            f"{chaos.TARGET}:train",
            20,
            tmp_path / "s",
            where=Execution(scheduler=workers),
            betas=[0.9],
            seeds=[1],
            quiet=True,
        )
    assert [row.status for row in study.rows()] == ["finished"]


def test_a_claim_is_one_process_and_a_dead_ones_is_taken_over(tmp_path):
    code = "import sys, time; from pathlib import Path; from oneclock.runs.lock import Claim; "
    code += "Claim.take(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    other = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    with pytest.raises(Held, match=f"process {other.pid} "):
        Claim.take(tmp_path)
    other.kill()
    other.communicate()
    with Claim.take(tmp_path) as claim:
        assert claim.path.name == "claim-2.json"
        assert [path.name for path in tmp_path.iterdir()] == ["claim-2.json"]
        with pytest.raises(Held):
            Claim.take(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_claim_of_another_host_counts_until_it_is_old(tmp_path):
    claim = tmp_path / "claim-7.json"
    claim.write_text(json.dumps({"host": "elsewhere", "pid": 1, "born": "0"}))
    with pytest.raises(Held, match="process 1 on elsewhere"):
        Claim.take(tmp_path)
    os.utime(claim, (time.time() - 1000, time.time() - 1000))
    with Claim.take(tmp_path) as taken:
        assert taken.path.name == "claim-8.json"
        assert not claim.exists()
    claim.write_text("")  # on a disk without links: a process that died while it made its claim, or is just making it
    with pytest.raises(Held):
        Claim.take(tmp_path)


def test_a_claim_is_whole_or_not_there_whenever_its_maker_is_killed(tmp_path):
    """Killed at each call on the way: the next one is not kept waiting, and nothing is left behind."""
    code = "import os, sys; from pathlib import Path; import oneclock.runs.lock as claims\n"
    code += "def deadly(*_, **__): os.kill(os.getpid(), 9)\n"
    code += "owner, name = (os, sys.argv[2]) if hasattr(os, sys.argv[2]) else (Path, sys.argv[2])\n"
    code += "setattr(owner, name, deadly); claims.Claim.take(Path(sys.argv[1]))"
    for number, name in enumerate(("write_text", "link", "unlink")):
        folder = tmp_path / str(number)
        died = subprocess.run([sys.executable, "-c", code, folder, name], check=False)
        assert died.returncode == -signal.SIGKILL
        with Claim.take(folder) as claim:
            assert [path.name for path in folder.iterdir()] == [claim.path.name]


def test_a_disk_without_links_can_be_claimed(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(errno.EOPNOTSUPP, "no links here")

    monkeypatch.setattr(os, "link", refused)
    with Claim.take(tmp_path) as claim:
        assert [path.name for path in tmp_path.iterdir()] == [claim.path.name]
        assert holder(tmp_path) is not None
        with pytest.raises(Held):
            Claim.take(tmp_path)


@pytest.mark.parametrize("stale", [True, False])
def test_of_many_that_claim_at_once_one_gets_it(tmp_path, stale):
    if stale:
        (tmp_path / "claim-3.json").write_text(json.dumps({"host": "gone", "pid": 1, "born": "0"}))
        os.utime(tmp_path / "claim-3.json", (0, 0))
    code = "import sys; from pathlib import Path; from oneclock.runs.lock import Claim, Held\n"
    code += "print('ready', flush=True); input()\n"
    code += "try: claim = Claim.take(Path(sys.argv[1])); print('held', flush=True); input()\n"
    code += "except Held: print('refused', flush=True); input()"
    line = [sys.executable, "-c", code, tmp_path]
    many = [subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    assert {one.stdout.readline() for one in many} == {"ready\n"}
    for one in many:
        one.stdin.write("go\n")
        one.stdin.flush()
    told = [one.stdout.readline().strip() for one in many]
    for one in many:
        one.communicate("end\n")
    assert sorted(told) == ["held"] + ["refused"] * 7


def test_a_lambda_and_a_study_of_two_targets(tmp_path):
    shift = 0.1

    def one(beta, seed, run):
        run.log(10, val_loss=5.0 if isinstance(beta, tuple) else 1 + abs(beta - 0.9) + shift)

    def two(beta, seed, run):
        run.log(10, val_loss=5.0 if isinstance(beta, tuple) else 2 - beta)

    study = run_sweep(
        [one, two],
        10,
        tmp_path / "s",
        betas=[0.5, 0.9, 0.99],
        seeds=[1, 2],
        baselines=[(0.9, 0.999)],
        where=Execution(jobs=1),
        quiet=True,
    )
    names = study.experiments
    assert [study.best(name).beta for name in names] == [0.9, 0.99]
    table = study.table()
    assert len(table) == 2 * (3 + 3 + 2)
    assert set(table["status"]) == {"finished"}
    assert (table[table["beta"] == (0.9, 0.999)]["seed"].tolist()) == [1, 2, 1, 2]


def test_a_command_and_its_csv(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nbeta, seed, out = sys.argv[1:]\n"
        "if beta == '0.1': sys.exit('no luck')\n"
        "with open(out + '/log.csv', 'w') as f:\n"
        "    print('step,val_loss,train_loss', file=f)\n"
        "    if beta == '0.3': sys.exit()\n"
        "    for step in (10, 20):\n        print(step, 3 - float(beta) * step / 20, 1.0, sep=',', file=f)\n"
    )
    line = [sys.executable, "-m", "oneclock", "sweep", "--budget", "20", "--out", tmp_path / "s", "--retries", "0"]
    line += ["--command", f"{sys.executable} {script} {{beta}} {{seed}} {{folder}}", "--betas", "0.5,0.1,0.3,0.9"]
    swept = subprocess.run([*line, "--seeds", "1", "--jobs", "1"], capture_output=True, text=True, check=False)
    assert swept.returncode == 1, swept.stderr
    rows = {row.beta: row for row in Study.open(tmp_path / "s").rows()}
    assert [row.status for row in rows.values()] == ["failed", "failed", "finished", "finished"]
    assert "exit code 1" in rows[0.1].reason
    assert "left no curve" in rows[0.3].reason
    assert rows[0.9].best_loss == 3 - 0.9
    assert "no luck" in (tmp_path / "s/runs/command/beta-0.1-seed-1/output.log").read_text()


def test_an_experiment_of_the_project_by_name(tmp_path):
    pytest.importorskip("sklearn")
    settings = ["--budget", "4", "--set", "evaluation.every=2", "--betas", "0.5,0.9", "--baselines", "0.9/0.999"]
    line = [sys.executable, "-m", "oneclock", "sweep", "resnet-digits", *settings, "--seeds", "1", "--in-process"]
    subprocess.run([*line, "--out", tmp_path / "s"], check=True, stdout=subprocess.DEVNULL)
    rows = Study.open(tmp_path / "s").rows()
    assert [(row.beta, row.status, row.steps) for row in rows] == [
        (beta, "finished", 4) for beta in (0.5, 0.9, (0.9, 0.999))
    ]
    assert len({row.best_loss for row in rows}) == 3


def test_a_dry_run_says_the_plan_and_leaves_nothing(tmp_path):
    line = chaos.command(tmp_path / "s", "--dry-run")
    told = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert "at most 23 runs of together 4,600 steps" in told
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere.py:train", "--budget", "5"], "nowhere.py does not exist"),
        ([f"{chaos.TARGET}:nothing", "--budget", "5"], "defines no 'nothing'"),
        ([f"{chaos.TARGET}:train"], "budget"),
        ([], "name what to sweep"),
        ([], "s holds no study"),
        ([f"{chaos.TARGET}:train", "--budget", "5", "--cluster", "slrum"], "or a Dask address such as tls://host:port"),
        ([f"{chaos.TARGET}:train", "--budget", "5", "--try", "--dry-run"], "give one of them"),
        (["--extend"], "holds no study to extend"),
        ([f"{chaos.TARGET}:train", "--budget", "2.5"], "a whole number of steps, such as 20_000, got 2.5"),
        ([f"{chaos.TARGET}:train", "--budget", "5", "--learning-rates", "1"], "the protocol grid or adaptive has"),
        (
            [f"{chaos.TARGET}:train", "--budget", "5", "--learning-rates", "1", "--protocol", "grid", "--dry-run"],
            "argument 'lr'",
        ),
        (["--command", "python x.py", "--budget", "5"], "{beta}"),
        ([f"{chaos.TARGET}:train", "--budget", "5", "--betas", "a,b"], "--betas takes numbers"),
        ([f"{chaos.TARGET}:train", "--budget", "5", "--protocol", "random"], "no protocol"),
    ],
)
def test_bad_input_is_one_line(arguments, complaint, tmp_path, capsys):
    from oneclock.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["sweep", *arguments, "--out", str(tmp_path / "s")])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert complaint in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_killed_twenty_times(tmp_path):
    assert struck(Kills(tmp_path / "kills"), 20)[0] == []


@pytest.mark.slow
def test_a_cluster_killed_ten_times(tmp_path):
    assert struck(ClusterKills(tmp_path / "kills"), 10)[0] == []
