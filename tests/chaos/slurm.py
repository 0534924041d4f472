"""A sweep on Slurm, preempted, queued again and drained at random, ends with the very table of an undisturbed one.

    cd tests && python -m chaos.slurm --strikes 20 [--seed 1] [--experiment resnet-digits --budget 400]

Starts a Slurm of its own on this machine, two nodes on 127.0.0.1; a process that ends submits a sweep of 23 runs of a
twin to two workers. Strikes: a job of higher rank takes the node, the job is queued again, the node is drained, or the
job is told that its time is nearly up. Every result, once written, must stay as it is: a finished run is not executed
again. Prints what happened; exits with 1 where any of this does not hold, or where there is no Slurm.
"""

from __future__ import annotations

import argparse
import collections
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from oneclock.runs.store import Study

from .slurm_machine import Slurm, Unable, missing
from .sweeps import results, table


def preempted(machine: Slurm, job: str, node: str) -> None:
    machine.ask("sbatch", "--partition=high", f"--nodelist={node}", "--output=/dev/null", "--wrap=sleep 1")


def queued_again(machine: Slurm, job: str, node: str) -> None:
    machine.ask("scontrol", "requeue", job, check=False)


def drained(machine: Slurm, job: str, node: str) -> None:
    machine.ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=chaos")
    machine.ask("scontrol", "requeue", job, check=False)


def warned(machine: Slurm, job: str, node: str) -> None:
    machine.ask("scancel", "--signal=USR1", "--batch", job, check=False)


STRIKES = (preempted, queued_again, drained, warned)


def disturbed(machine: Slurm, study: Path, strikes: int, dice: random.Random) -> list[str]:
    """Strike until it is enough, then let it come to its end; what went wrong."""
    struck, known, wrong, far = collections.Counter(), {}, [], 0
    deadline = time.monotonic() + 3600
    while machine.queue() and time.monotonic() < deadline:
        time.sleep(dice.uniform(0.5, 6.0))
        for node in machine.nodes:
            machine.ask("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
        machine.release()
        known |= {path: data for path, data in results(study).items() if path not in known}
        running = {job: node for job, node in machine.running().items() if "_" in job}
        evaluations = sum(path.stat().st_size for path in study.glob("runs/*/*/curve.jsonl"))
        if running and struck.total() < strikes and evaluations > far:  # it came on since it was last struck
            strike, job = dice.choice(STRIKES), dice.choice(sorted(running))
            strike(machine, job, running[job])
            struck[strike.__name__] += 1
            far = evaluations
    now = results(study)
    wrong += [f"a finished run was executed again: {path.parent}" for path, data in known.items() if now[path] != data]
    wrong += [] if struck.total() == strikes else [f"it was done after {struck.total()} strikes of {strikes}"]
    print(f"struck {dict(struck)}; {len(now)} runs ended")
    return wrong


def main(strikes: int, seed: int, experiment: str, budget: int) -> list[str]:
    """What went wrong, nothing where all is well."""
    with tempfile.TemporaryDirectory() as folder, Slurm() as machine:
        calm, wild = Path(folder, "calm"), Path(folder, "wild")
        sweep = [sys.executable, "-m", "oneclock", "sweep", experiment, "--budget", str(budget), "--baselines", "none"]
        sweep += ["--set", f"evaluation.every={max(budget // 8, 1)}", "--no-report", "--out"]
        jobs = ["--cluster", "slurm", "--array", "2", "--sbatch", "--partition=low"]
        subprocess.run([*sweep, wild, *jobs], env=machine.environment, check=True)  # and is gone
        wrong = disturbed(machine, wild, strikes, random.Random(seed))
        subprocess.run([*sweep, calm], check=True, stdout=subprocess.DEVNULL)
        wrong += [f"failed: {name}" for name in Study.open(wild).failed()]
        wrong += [] if table(calm) == table(wild) else ["the table differs from the undisturbed one"]
        if wrong:
            print(*(path.read_text() for path in sorted(wild.glob("slurm/*.log"))), sep="\n")
        return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strikes", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--experiment", default="resnet-digits")
    parser.add_argument("--budget", type=int, default=400)
    arguments = parser.parse_args()
    if (why := missing()) is not None:
        sys.exit(f"make slurm cannot be shown here: {why}")
    started = time.monotonic()
    try:
        trouble = main(arguments.strikes, arguments.seed, arguments.experiment, arguments.budget)
    except Unable as error:
        sys.exit(f"make slurm cannot be shown here: {error}")
    for line in trouble:
        print("WRONG:", line)
    print(f"{'failed' if trouble else 'all is well'} after {time.monotonic() - started:.0f} s")
    sys.exit(bool(trouble))
