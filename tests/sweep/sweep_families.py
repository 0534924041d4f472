"""Runs that start others: sessions of their own, daemons, what ignores a polite signal. Not a test itself.

Each process that is started puts a file named after it into KEEP, and one named `-goodbye` when it is asked to end.
With DEAF there is one more, which ignores SIGTERM.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

CHILD = """
import os, pathlib, signal, sys, time
kind, pause = sys.argv[1], float(sys.argv[2])
keep = pathlib.Path(os.environ["KEEP"])
def bye(*_):
    time.sleep(pause)
    (keep / f"{kind}-goodbye").touch()
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN if kind == "deaf" else bye)
(keep / kind).touch()
time.sleep(600)
"""


def start_all(pause="0"):
    """A child, one in a session of its own, and a daemon that forked twice."""
    line, kinds = [sys.executable, "-c", CHILD], ["child", "session", "daemon"]
    subprocess.Popen([*line, "child", pause])
    subprocess.Popen([*line, "session", pause], start_new_session=True)
    if "DEAF" in os.environ:
        kinds.append("deaf")
        subprocess.Popen([*line, "deaf", pause], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(line[0], [*line, "daemon", pause])
        os._exit(0)
    keep = Path(os.environ["KEEP"])
    while not all((keep / kind).exists() for kind in kinds):
        time.sleep(0.02)


def returns(beta, seed, run):
    start_all()
    run.log(run.budget, val_loss=1.0)


def waits(beta, seed, run):
    start_all(os.environ.get("PAUSE", "0"))
    run.log(1, val_loss=1.0)
    time.sleep(600)


def forks(beta, seed, run):
    """Starts one that is but a fork of itself, which nothing in its environment tells apart; waits the first time."""
    if not (run.folder / "started").exists():
        (run.folder / "started").touch()
        if os.fork() == 0:
            Path(os.environ["KEEP"], str(os.getpid())).touch()
            time.sleep(600)
        run.log(1, val_loss=1.0)
        time.sleep(600)
    run.log(run.budget, val_loss=1.0)


def waits_once(beta, seed, run):
    if not (run.folder / "started").exists():
        (run.folder / "started").touch()
        waits(beta, seed, run)
    run.log(run.budget, val_loss=1.0)


def swallows(beta, seed, run):
    """Asks its own process to end, and does not let it."""
    try:
        os.kill(os.getpid(), 15)
        time.sleep(1)
    except BaseException:
        Path(os.environ["KEEP"], "swallowed").touch()
    run.log(run.budget, val_loss=1.0)
