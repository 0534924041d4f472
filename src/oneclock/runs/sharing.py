"""Who works on a study: one sweep, which claims its folder, or workers, each with a claim below `workers/`."""

from __future__ import annotations

import os
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path

from oneclock.runs.lock import Claim, Held, Owner, holder, is_left

WORKERS = "workers"

_GLANCE = 2.0
"""Seconds within which whoever may not have a study alone has let go of it."""


def workers(study: Path) -> list[Owner]:
    """The live workers of a study."""
    return [owner for folder in _worker_folders(study) if (owner := holder(folder)) is not None]


def take_alone(study: Path) -> Claim:
    """Claim a study's folder, or raise `Held` where a sweep or workers are at work on it."""
    claim = Claim.take(study).keep_alive()
    if at_work := workers(study):
        claim.release()
        raise Held(f"{study} is being worked on by {len(at_work)} worker(s), one of them {at_work[0]}; wait for them")
    return claim


def join(study: Path) -> Claim:
    """A worker's claim, beside those of the others, or `Held` where a sweep is at work; those of dead workers go."""
    for folder in _worker_folders(study):
        if is_left(folder):
            shutil.rmtree(folder, ignore_errors=True)
    claim = Claim.take(Path(study) / WORKERS / f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}")
    if (owner := _sweep_at_work(study)) is not None:
        leave(claim)
        raise Held(f"{study} is being worked on by {owner}, a sweep; wait for it or stop it, then start workers")
    return claim


def leave(claim: Claim) -> None:
    """Let go of a worker's claim, its folder included."""
    claim.release()
    with suppress(OSError):
        claim.path.parent.rmdir()


def _sweep_at_work(study: Path) -> Owner | None:
    """Who holds the study; not one that lets go of it at once, for it has found workers there."""
    until = time.monotonic() + _GLANCE
    while (owner := holder(study)) is not None and time.monotonic() < until:
        time.sleep(0.05)
    return owner


def _worker_folders(study: Path) -> list[Path]:
    return sorted((Path(study) / WORKERS).glob("*"))
