"""Locks on folders: one live process works on a folder at a time, on one machine or over a network disk.

A claim is a numbered file, `claim-7.json`; the highest number counts. It is written aside and linked to its name, which
is atomic on network disks too. A claim whose process is dead is taken over by making the next number: of two that try,
one fails. On this host a claim is dead when its process is; of another host, when its file has not been touched for
`STALE` seconds, by the clock of the disk. A process that was suspended for that long has lost its claim when it wakes.

A study has one sweep, which claims its folder, or several workers, each with a claim below `workers/`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from oneclock.runs.key import hash_of

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS)
"""Errors of disks without hard links, such as USB sticks and some network disks."""

STALE = float(os.environ.get("ONECLOCK_STALE", "120"))
"""Seconds without a touch after which another host's claim counts as dead; the same on all hosts of a study."""

HEARTBEAT = STALE / 12
"""Seconds between two touches of a claim that is held."""

UNDER = "ONECLOCK_CLAIM"
"""The environment variable that gives a process's claim to the processes that it starts."""


class Held(ValueError):
    """The folder is claimed by a live process."""


@dataclass(frozen=True)
class Owner:
    """A process, unique over all hosts and restarts; `born` is its start time."""

    host: str
    pid: int
    born: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host.split('/')[0]}"


class Claim:
    """A claim that this process, or its `owner`, holds on a folder, from `take` to `release`; a context manager.

    It is `inherited` if the process that held the folder before has died. `held` has those of this process, by folder.
    """

    held: ClassVar[dict[Path, Claim]] = {}

    def __init__(self, path: Path, inherited: bool = False, owner: Owner | None = None) -> None:
        self.path, self.inherited, self.owner = path, inherited, owner or me()
        self._stop = threading.Event()

    @classmethod
    def take(cls, folder: Path) -> Claim:
        """Claim the folder, or raise `Held`. A dead process's claim is taken over."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        claims = _claims(folder)
        if claims and (owner := _alive(claims[-1])):
            raise Held(f"{folder} is being worked on by {owner}; wait for it or stop it")
        number = int(claims[-1].stem[6:]) + 1 if claims else 1
        claim = cls(folder / f"claim-{number}.json", inherited=bool(claims))
        beaten = Held(f"{folder} was claimed by another process just now; wait for it or stop it")
        try:
            _make(claim.path, claim.owner)
        except (FileExistsError, FileNotFoundError):  # the second case: a faster process has removed the dead claim
            raise beaten from None
        others = [path for path in _claims(folder) if path != claim.path]
        if any(_alive(path) for path in others):  # made since this process looked
            claim.release()
            raise beaten
        for path in (*others, *folder.glob(".claim-*")):
            path.unlink(missing_ok=True)
        cls.held[folder] = claim
        return claim

    @property
    def lost(self) -> bool:
        """Whether another process has taken it over because this one seemed dead; a damaged claim is still ours."""
        if (owner := _owner(self.path)) is not None:
            return owner != self.owner
        try:
            self.path.stat()
        except OSError as error:  # a disk that does not answer takes nothing away
            return isinstance(error, FileNotFoundError)
        return False

    def touch(self) -> None:
        """Show other hosts that this process is alive."""
        with suppress(OSError):
            os.utime(self.path)

    def keep_alive(self) -> Claim:
        """Touch the claim from a thread until it is released, so that other hosts see it alive."""

        def touch_often() -> None:
            while not self._stop.wait(HEARTBEAT):
                self.touch()

        threading.Thread(target=touch_often, name="claim", daemon=True).start()
        return self

    def release(self) -> None:
        """Release the folder, once: after that the name may belong to another claim."""
        if self._stop.is_set():
            return
        self._stop.set()
        self.held.pop(self.path.parent, None)
        with suppress(OSError):
            if not self.lost:
                self.path.unlink()

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *_: Any) -> None:
        self.release()


def holder(folder: Path) -> Owner | None:
    """The live process that holds the folder, or None."""
    claims = _claims(Path(folder))
    return _alive(claims[-1]) if claims else None


def held_by(folder: Path, pid: int) -> Claim | None:
    """The claim of a process of this host on the folder, or None if it has none yet."""
    claims = _claims(folder)
    owner = _alive(claims[-1]) if claims else None
    mine = owner is not None and (owner.host, owner.pid) == (_host(), pid)
    return Claim(claims[-1], owner=owner) if mine else None


@contextmanager
def under(claim: Claim) -> Iterator[None]:
    """Processes started within this context write in the claim's folder only while the claim is held."""
    os.environ[UNDER] = json.dumps([str(claim.path), asdict(claim.owner)])
    try:
        yield
    finally:
        del os.environ[UNDER]


def check_held(folder: Path) -> None:
    """Call this before a write: `Held` if this process or its parent held the folder and another has taken it over."""
    if (claim := held_here(folder)) is not None and claim.lost:
        raise Held(f"{folder} was taken over by another process, because this one seemed dead for too long")


def held_here(folder: Path) -> Claim | None:
    """The claim of this process on the folder, or the claim under which it was started."""
    path, owner = json.loads(os.environ.get(UNDER, '["", {}]'))
    above = path and os.path.dirname(path) == str(folder)
    return Claim.held.get(folder) or (Claim(Path(path), owner=Owner(**owner)) if above else None)


def aside_of(path: Path) -> Path:
    """A new name beside `path` for what is written there first. Process ids repeat from host to host."""
    return path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")


def _make(path: Path, owner: Owner) -> None:
    """Make a claim, complete or not at all; FileExistsError if another process was faster."""
    aside = aside_of(path)
    text = json.dumps(asdict(owner) | {"seal": hash_of(asdict(owner))})
    try:
        aside.write_text(text, encoding="utf-8")
        os.link(aside, path)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    finally:
        aside.unlink(missing_ok=True)


@cache
def _host() -> str:
    """This machine since its last start, and the process namespace (a container's pids are its own)."""
    name = socket.gethostname()
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{name}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    return name


def me() -> Owner:
    """This process."""
    born = _born(os.getpid())
    assert born is not None
    return Owner(_host(), os.getpid(), born)


def _born(pid: int) -> str | None:
    """When a process of this host started, or None if it is dead. A pid alone may belong to a new process."""
    if sys.platform == "linux":
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else fields[19]
    listing = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, born = listing.stdout.strip().partition(" ")
    return None if not born or state.startswith("Z") else born.strip()


def _alive(path: Path) -> Owner | None:
    """The owner of the claim in `path` if it is alive; a claim without a readable owner is judged by its age alone."""
    owner = _owner(path)
    if owner is not None and owner.host == _host():
        return owner if _born(owner.pid) == owner.born else None
    if _age(path) > STALE:
        return None
    return owner or Owner("an unknown host", 0, "")


def _owner(path: Path) -> Owner | None:
    """Who made a claim; None if it is damaged or the disk does not answer. Older claims have no seal."""
    with suppress(OSError, ValueError, TypeError, AttributeError):
        values = json.loads(path.read_text(encoding="utf-8"))
        seal = values.pop("seal", None)
        return Owner(**values) if seal in (None, hash_of(values)) else None
    return None


def _age(path: Path) -> float:
    """Seconds since the file was touched, by the clock of the disk it is on; inf if it is gone."""
    now = time.time()  # by our clock, if the disk is read-only
    with suppress(OSError), tempfile.TemporaryFile(dir=path.parent) as probe:
        now = os.fstat(probe.fileno()).st_mtime
    try:
        return now - path.stat().st_mtime
    except FileNotFoundError:
        return float("inf")


def _claims(folder: Path) -> list[Path]:
    """The claims on a folder by their numbers, the one that counts last; none if the folder does not exist."""
    with suppress(FileNotFoundError, NotADirectoryError):
        names = [name for name in os.listdir(folder) if re.fullmatch(r"claim-\d+\.json", name)]
        return [folder / name for name in sorted(names, key=lambda name: int(name[6:-5]))]
    return []


_GLANCE = 2.0
"""Seconds within which a sweep releases a study on which workers are active."""


def workers(study: Path) -> list[Owner]:
    """The live workers of a study."""
    return [owner for folder in sorted((Path(study) / "workers").glob("*")) if (owner := holder(folder)) is not None]


def take_alone(study: Path) -> Claim:
    """Claim a study's folder, or raise `Held` if a sweep or workers are active on it."""
    claim = Claim.take(study).keep_alive()
    if at_work := workers(study):
        claim.release()
        raise Held(f"{study} is being worked on by {len(at_work)} worker(s), one of them {at_work[0]}; wait for them")
    return claim


def join(study: Path) -> Claim:
    """A worker's claim, beside those of other workers, or `Held` if a sweep is active; it removes dead claims.

    A sweep that finds workers releases the study at once. A young folder without a claim may get its claim soon.
    """
    folder = Path(study) / "workers"
    for other in folder.glob("*"):
        claims = _claims(other)
        if _alive(claims[-1]) is None if claims else _age(other) > STALE:
            shutil.rmtree(other, ignore_errors=True)
    claim = Claim.take(folder / f"{socket.gethostname()}-{os.getpid()}-{os.urandom(4).hex()}")
    until = time.monotonic() + _GLANCE
    while (owner := holder(study)) is not None and time.monotonic() < until:
        time.sleep(0.05)
    if owner is not None:
        leave(claim)
        raise Held(f"{study} is being worked on by {owner}, a sweep; wait for it or stop it, then start workers")
    return claim


def leave(claim: Claim) -> None:
    """Release a worker's claim and its folder."""
    claim.release()
    with suppress(OSError):
        claim.path.parent.rmdir()
