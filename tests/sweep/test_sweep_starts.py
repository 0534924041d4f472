"""Who starts runs is killed while it starts, again and again: a clear end, nothing lost, and the next sweep goes on."""

import signal
import subprocess

import chaos
import pytest
from chaos.clusters import cluster
from chaos.processes import send
from chaos.sweeps import one_line

from oneclock.runs.store import Study
from oneclock.sweep import Execution, run_sweep
from oneclock.sweep.exec.supervise import DIED

ASKED = ["--betas", "0.5,0.9", "--seeds", "1", "--protocol", "grid", "--no-report"]
THREE = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "2"}


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """The table of a sweep that nobody disturbed."""
    folder = tmp_path_factory.mktemp("calm") / "s"
    target = f"{chaos.TARGET}:train"
    run_sweep(
        target, 200, folder, protocol="grid", betas=[0.5, 0.9], seeds=[1], where=Execution(in_process=True), quiet=True
    )
    return chaos.table(folder)


@pytest.fixture
def hold(tmp_path):
    """A file without which no run ends: one that was started before the strike came waits for it."""
    file = tmp_path / "hold"
    file.touch()
    return file


def swept(line, marked, strike=lambda: None, **environment):
    """A sweep, and a strike for as long as it lives: its exit code and what it said."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(line, env=marked.environment(**environment), text=True, **pipes)
    while process.poll() is None:
        strike()
    return process.returncode, *process.communicate()


def goes_on(line, study, calm):
    """Whether the same command, once the failed runs may be tried again, ends with the table of an undisturbed one."""
    Study.open(study).forget_failed()
    code, _, _ = swept(line, chaos.Marked())
    return code == 0 and chaos.table(study) == calm


def test_here_it_is_one_line_and_the_runs_are_tried_again(tmp_path, calm, hold):
    study, marked = tmp_path / "s", chaos.Marked()
    line = [*chaos.command(study, *ASKED), "--retries", "2"]
    code, out, err = swept(line, marked, lambda: send(marked.of("server"), signal.SIGKILL), HOLD=str(hold))
    assert (code, one_line(code, err)) == (1, True), err
    assert "2 runs failed" in out
    assert f"oneclock status {study}" in out
    rows = Study.open(study).rows()
    assert [row.status for row in rows] == ["failed", "failed"]
    assert all(DIED in row.reason and row.reason.endswith("(tried 3 times)") for row in rows)
    assert marked.gone()
    hold.unlink()
    assert goes_on(line, study, calm)


@pytest.mark.slow
def test_on_a_cluster_too(tmp_path, calm, hold):
    """Three workers die, each while it starts the first run that it was given."""
    study, ours = tmp_path / "s", chaos.Marked()
    with cluster(tmp_path, HOLD=str(hold), **THREE) as workers:
        line = chaos.command(study, *ASKED, "--cluster", workers.address)

        def strike():
            for number in range(2) if workers.marked.of("server", "run") else ():
                workers.kill_worker(number)

        code, out, err = swept(line, ours, strike)
        assert (code, one_line(code, err)) == (1, True), err
        assert "2 runs failed" in out
        reasons = {row.reason for row in Study.open(study).rows()}
        assert reasons == {"the workers that ran it died again and again"}
        hold.unlink()
        assert goes_on(line, study, calm)
    assert workers.marked.gone()
