"""What one more run costs its driver: the same however many have ended before it; and how long the rest will take."""

import sys

import pytest

from oneclock.runs.key import RunKey
from oneclock.runs.lock import Claim
from oneclock.runs.record import RunRecord
from oneclock.sweep import Adaptive, Execution, Grid, Plan
from oneclock.sweep.exec.job import Ended
from oneclock.sweep.exec.scheduler import Driver
from oneclock.sweep.targets import Function
from oneclock.sweep.view import Display, Pace, time_left

FILES = {"access", "listdir", "lstat", "mkdir", "open", "scandir", "stat", "utime"}


def ended_in(job, seconds):
    return Ended(job.path, RunRecord(job.key, "finished", 10, 1.0, 10, seconds=seconds))


class Instant:
    """An engine in which every run ends at once, one at a time; it notes what its driver did in between."""

    workers, dashboard = 2, None

    def __init__(self):
        self.jobs, self.looks, self.seen = [], 0, []

    def submit(self, job):
        self.jobs.append(job)

    def ended(self, timeout):
        self.seen.append(self.looks)
        self.looks = 0
        return [ended_in(self.jobs.pop(0), 2.0)]

    def close(self):
        pass

    def count(self, frame, event, function):
        """Called for every call of a C function: was it one that looks at a file?"""
        home = getattr(function, "__module__", None)
        self.looks += event == "c_call" and home in ("posix", "io", "_io") and function.__name__ in FILES


def looks_per_run(folder, runs):
    """How often the driver of a sweep of so many runs looks at files, from one run's end to the next."""
    betas = tuple(1 - 1 / number for number in range(2, runs + 2))
    plan = Plan(folder, [Function("x", 10, "sweep_target.py:train")], Grid(betas=betas, seeds=(1,)))
    plan.write()
    engine = Instant()
    with Claim.take(folder) as claim, Driver(plan, Execution(), claim, engine) as driver:
        sys.setprofile(engine.count)
        try:
            driver.drive()
        finally:
            sys.setprofile(None)
    assert len(engine.seen) == runs
    assert len(plan.study.ended) == runs
    return engine.seen[1:]


def test_one_more_run_costs_as_many_looks_at_files_after_ten_as_after_three_hundred(tmp_path, capsys):
    few, many = looks_per_run(tmp_path / "few", 10), looks_per_run(tmp_path / "many", 300)
    assert few[-1] == many[-1]
    assert max(many) <= 5
    printed = capsys.readouterr().out
    assert "300 of 300 runs" in printed
    assert max(map(len, printed.splitlines())) <= 80


def test_time_left_counts_the_workers_that_really_run():
    done = [RunRecord(RunKey("a", 0.9, seed, 100), "finished", 100, seconds=60.0) for seed in (1, 2)]
    assert Pace({"a": 100}, done).left({"a": 3}, workers=2) == 90
    running = RunRecord(RunKey("a", 0.5, 1, 100), "running", 50)
    assert time_left([*done, running], {"a": 1}, workers=1) == pytest.approx(30)
    assert Pace({"a": 100}).left({"a": 3}, workers=2) is None
    failed = RunRecord(RunKey("a", 0.9, 1, 100), "failed", 5, seconds=9.0)
    assert Pace({"a": 100}, [failed]).left({"a": 1}, workers=1) is None


def test_the_last_run_is_not_shared_by_workers_that_have_nothing_to_do(tmp_path):
    plan = Plan(tmp_path, [Function("x", 10, "sweep_target.py:train")], Grid(betas=(0.5, 0.9), seeds=(1,)))
    with Claim.take(tmp_path) as claim:
        engine = Instant()
        driver = Driver(plan, Execution(), claim, engine)
        driver.submit()
        driver.take_note(ended_in(engine.jobs[0], 8.0), Display(driver, engine, quiet=True))
    assert driver.summary(workers=4) == "1 of at most 2 runs, about 8.0 s left"


def test_time_left_is_that_of_all_workers_though_a_run_has_just_ended(tmp_path):
    plan = Plan(tmp_path, [Function("x", 20_000, "sweep_target.py:train")], Adaptive())
    with Claim.take(tmp_path) as claim:
        engine = Instant()
        driver = Driver(plan, Execution(), claim, engine)
        driver.submit()
        driver.take_note(ended_in(engine.jobs[0], 8.0), Display(driver, engine, quiet=True))
    assert driver.summary(workers=4) == "1 of at most 10 runs, about 18.0 s left"
