"""How a sweep ends: whatever its runs started ends with it, politely first; nothing is left, and nothing listened."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import chaos
import pytest
from chaos import until

from oneclock.runs.lock import holder
from oneclock.runs.store import Study

FAMILIES = f"{Path(__file__).parent}/sweep_families.py"
KINDS = {"child", "session", "daemon"}
GOODBYES = {f"{kind}-goodbye" for kind in KINDS}
linux = pytest.mark.skipif(sys.platform != "linux", reason="families of processes are known on Linux only")


def sweep(folder, function, marked, *more, betas="0.9", **environment):
    """A sweep of one of the families' functions, under way."""
    (folder / "keep").mkdir()
    line = [sys.executable, "-m", "oneclock", "sweep", f"{FAMILIES}:{function}", "--budget", "10", "--seeds", "1"]
    return subprocess.Popen(
        [*line, "--betas", betas, "--jobs", "1", "--out", folder / "s", *more],
        env=marked.environment(KEEP=str(folder / "keep"), **environment), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def kept(folder):
    return {path.name for path in (folder / "keep").iterdir()}


@linux
def test_what_a_finished_run_leaves_running_is_ended(tmp_path):
    marked = chaos.Marked()
    process = sweep(tmp_path, "returns", marked, DEAF="1")
    process.communicate(timeout=120)
    assert process.returncode == 0
    assert marked.gone(within=5)
    assert kept(tmp_path) == KINDS | GOODBYES | {"deaf"}


@linux
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_it_takes_everything_along_politely(tmp_path, number):
    marked = chaos.Marked()
    process = sweep(tmp_path, "waits", marked)
    until(lambda: list(tmp_path.glob("s/runs/*/*/curve.jsonl")))
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr == "oneclock: stopped; the same command continues it\n"
    assert marked.gone(within=5)
    assert kept(tmp_path) == KINDS | GOODBYES


@linux
def test_a_second_signal_waits_for_nobody(tmp_path):
    marked = chaos.Marked()
    process = sweep(tmp_path, "waits", marked, PAUSE="2.5")
    until(lambda: list(tmp_path.glob("s/runs/*/*/curve.jsonl")))
    process.send_signal(signal.SIGTERM)
    until(lambda: holder(tmp_path / "s") is None)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert marked.gone(within=5)
    assert kept(tmp_path) == KINDS


@linux
def test_a_run_that_hangs_is_killed_with_its_family_and_its_seconds_are_told(tmp_path):
    marked = chaos.Marked()
    process = sweep(tmp_path, "waits", marked, "--timeout", "1")
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert marked.gone(within=5)
    (row,) = Study.open(tmp_path / "s").rows()
    assert row.reason == "it ran longer than 1 seconds (--timeout)"
    assert row.seconds >= 1
    assert kept(tmp_path) == KINDS | GOODBYES


@linux
def test_a_server_killed_whenever_it_starts_fails_its_run_in_one_line(tmp_path):
    marked = chaos.Marked()
    process = sweep(tmp_path, "returns", marked, "--retries", "1")
    while process.poll() is None:
        for pid in marked.of("server"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    _, stderr = process.communicate()
    assert process.returncode == 1
    assert stderr.startswith("no answer: the only run failed")
    assert stderr.count("\n") == 1
    (row,) = Study.open(tmp_path / "s").rows()
    assert row.status == "failed"
    assert row.reason.endswith("(tried 2 times)")
    assert marked.gone(within=5)


@linux
def test_when_the_server_is_killed_the_next_attempt_ends_what_the_last_one_left(tmp_path):
    marked = chaos.Marked()
    process = sweep(tmp_path, "waits_once", marked)
    until(lambda: list(tmp_path.glob("s/runs/*/*/curve.jsonl")))
    (server,) = marked.of("server")
    os.kill(server, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert marked.gone(within=5)
    assert [row.status for row in Study.open(tmp_path / "s").rows()] == ["finished"]


def ending(folder, marked):
    """A sweep whose run has ended, and whose server waits for what the run left: one of it hears no polite word."""
    process = sweep(folder, "returns", marked, DEAF="1")
    until(lambda: list(folder.glob("s/runs/*/*/result.json")))
    return process, marked.of("server")


@linux
def test_when_the_server_is_killed_what_a_finished_run_left_is_ended_by_the_driver(tmp_path):
    marked = chaos.Marked()
    process, (server,) = ending(tmp_path, marked)
    os.kill(server, signal.SIGKILL)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr.count("\n")) == (0, 0)
    assert marked.gone(within=5)


@linux
def test_when_all_is_killed_what_a_finished_run_left_is_ended_by_the_next_sweep(tmp_path):
    marked = chaos.Marked()
    process, (server,) = ending(tmp_path, marked)
    (tmp_path / "s" / ".study.json.123").touch()  # as one leaves that is killed while it writes
    for pid in (process.pid, server):
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    assert marked.of("child")
    subprocess.run(process.args, env=marked.environment(), check=True, stdout=subprocess.DEVNULL)
    assert marked.gone(within=5)
    assert not list((tmp_path / "s").rglob(".*"))


def is_alive(pid):
    """A dead process stays listed until the machine's first process has seen it; that takes up to a second."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@linux
def test_when_the_server_is_killed_a_mere_fork_of_a_run_ends_too(tmp_path):
    marked = chaos.Marked()
    process = sweep(tmp_path, "forks", marked)
    until(lambda: kept(tmp_path) and list(tmp_path.glob("s/runs/*/*/curve.jsonl")))
    (fork,) = kept(tmp_path)
    (server,) = marked.of("server")
    os.kill(server, signal.SIGKILL)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert not is_alive(fork)
    assert marked.gone(within=5)


@linux
def test_the_driver_killed_everything_ends_by_itself(tmp_path):
    marked = chaos.Marked()
    process = sweep(tmp_path, "waits", marked)
    until(lambda: list(tmp_path.glob("s/runs/*/*/curve.jsonl")))
    process.kill()
    process.communicate()
    assert marked.gone(within=10)


def test_a_run_in_this_process_cannot_swallow_the_end_of_the_sweep(tmp_path):
    marked = chaos.Marked()
    (tmp_path / "keep").mkdir()
    line = [sys.executable, "-m", "oneclock", "sweep", f"{FAMILIES}:swallows", "--budget", "10", "--seeds", "1"]
    done = subprocess.run(
        [*line, "--betas", "0.5,0.9", "--out", tmp_path / "s", "--in-process"],
        env=marked.environment(KEEP=str(tmp_path / "keep")), capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, kept(tmp_path)) == (130, {"swallowed"})
    assert [row.status for row in Study.open(tmp_path / "s").rows()] == ["finished"]


def sockets_that_listen(pids):
    """Of some processes, the sockets that wait for others to connect, of any family."""
    table = Path("/proc/net")
    inodes = {
        line.split()[9]
        for name in ("tcp", "tcp6")
        for line in (table / name).read_text().splitlines()[1:]
        if line.split()[3] == "0A"
    }
    unix = [line.split() for line in (table / "unix").read_text().splitlines()[1:]]
    inodes |= {fields[6] for fields in unix if int(fields[3], 16) & 0x10000}
    links = [os.readlink(link) for pid in pids for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    return [link for link in links if link.startswith("socket:") and link[8:-1] in inodes]


@linux
def test_a_sweep_listens_nowhere_and_needs_no_short_name_for_temporary_files(tmp_path):
    temporary = tmp_path / ("t" * 120)
    temporary.mkdir()
    marked = chaos.Marked()
    process = sweep(tmp_path, "waits", marked, TMPDIR=str(temporary))
    until(lambda: list(tmp_path.glob("s/runs/*/*/curve.jsonl")))
    assert len(marked.of("driver", "server", "run")) == 3
    assert sockets_that_listen(marked.of("driver", "server", "run")) == []
    assert list(temporary.iterdir()) == []
    opened = [os.readlink(link) for pid in marked.processes() for link in Path(f"/proc/{pid}/fd").iterdir()]
    assert not [path for path in opened if path.startswith("/dev/shm")]
    process.terminate()
    process.communicate(timeout=60)
    assert list(temporary.iterdir()) == []


def test_a_script_needs_no_main_guard(tmp_path):
    (tmp_path / "script.py").write_text(
        "from oneclock import run_sweep\n"
        "print('imported')\n"
        "def train(beta, seed, run):\n    run.log(10, val_loss=2 - beta)\n"
        "study = run_sweep(train, 10, 's', betas=[0.5, 0.9], seeds=[1], quiet=True)\n"
        "print(sorted(row.best_loss for row in study.rows()))\n"
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "imported\n[1.1, 1.5]\n", "")


@pytest.mark.parametrize("place", ['"{folder}"/log.csv', "{folder}/log.csv", '"$(echo "{folder}")/log.csv"'])
def test_a_folders_name_is_never_executed(tmp_path, place):
    study = tmp_path / "a $(touch executed) `touch executed` b" / "s"
    line = [
        sys.executable,
        "-m",
        "oneclock",
        "sweep",
        "--budget",
        "20",
        "--betas",
        "0.9",
        "--seeds",
        "1",
        "--out",
        study,
    ]
    text = f"cd {tmp_path}; printf 'step,val_loss\\n20,%s\\n' {{beta}}{{seed}} > {place}"
    done = subprocess.run([*line, "--in-process", "--command", text], cwd=tmp_path, capture_output=True, text=True)
    assert not (tmp_path / "executed").exists()
    assert done.returncode == 0, done.stderr
    assert [row.best_loss for row in Study.open(study).rows()] == [0.91]


@pytest.mark.slow
@linux
def test_torchrun_ends_with_its_sweep(tmp_path):
    pytest.importorskip("torch")
    script = tmp_path / "train.py"
    script.write_text("import os, pathlib, time\npathlib.Path(os.environ['KEEP'], 'trains').touch()\ntime.sleep(600)\n")
    (tmp_path / "keep").mkdir()
    marked = chaos.Marked()
    torchrun = shutil.which("torchrun", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    command = f"{torchrun} --standalone --nproc-per-node 2 {script} {{beta}} {{seed}}"
    process = subprocess.Popen(
        [sys.executable, "-m", "oneclock", "sweep", "--budget", "10", "--betas", "0.9", "--seeds", "1",
         "--out", tmp_path / "s", "--command", command],
        env=marked.environment(KEEP=str(tmp_path / "keep")), stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    until((tmp_path / "keep" / "trains").exists, within=120)
    process.terminate()
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (130, "oneclock: stopped; the same command continues it\n")
    assert marked.gone(within=10)
