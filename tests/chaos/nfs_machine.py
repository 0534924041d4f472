"""A machine with an NFS server, for a machine whose kernel has none: Debian's User Mode Linux, a kernel that is a
program. `nfs.py` runs in it. Nothing is installed: packages are unpacked
in a folder of the cache.

    cd tests && python -m chaos.nfs_machine --kills 100 --seed 1
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".cache" / "nfs"
HIDDEN = ("/tmp", "/run", "/mnt", "/var/lib")
"""Folders that are empty in the machine."""

WANTED = ("user-mode-linux", "nfs-kernel-server", "kmod", "iproute2")
DEFAULT = "vers=4.2"


class Unable(Exception):
    """There can be no such machine here."""


def tools() -> Path:
    """The folder with Debian's packages unpacked, made the first time; `Unable` says why it cannot be."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64" or shutil.which("apt-get") is None:
        raise Unable("NFS is left out: it needs Debian or Ubuntu on x86-64, for their package user-mode-linux")
    for path in (ROOT, Path(sys.executable)):
        if any(path.is_relative_to(folder) for folder in HIDDEN):
            raise Unable(f"NFS is left out: {path} is below {' or '.join(HIDDEN)}, which the machine does not see")
    if not (TOOLS / "whole").exists():
        shutil.rmtree(TOOLS, ignore_errors=True)
        TOOLS.mkdir(parents=True)
        plan = _apt("-s", "install", "--no-install-recommends", *WANTED)
        _apt("download", *(line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")))
        for package in TOOLS.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, TOOLS], check=True)
            package.unlink()
        (TOOLS / "lib").mkdir(exist_ok=True)
        (TOOLS / "lib" / "modules").symlink_to("../usr/lib/uml/modules")
        (TOOLS / "whole").touch()
    return TOOLS


def boot(
    kills: int, seed: int = 1, pauses: float = 0.25, options: str = DEFAULT, timeout: float = 7200
) -> Iterator[str]:
    """Start the machine, have it run `nfs.py`, and yield what that prints, line by line; it is off afterwards."""
    folder = tools()
    line = [str(folder / "usr" / "bin" / "linux.uml"), "rootfstype=hostfs", "rootflags=/", "ro", "mem=2G", "quiet"]
    line += ["con=null", "con0=null,fd:1", f"init={Path(__file__).with_name('nfs_init.sh')}", f"tools={folder}"]
    line += [f"python={sys.executable}", f"kills={kills}", f"seed={seed}", f"pauses={pauses}", f"options={options}"]
    machine = subprocess.Popen(
        line,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    late = threading.Timer(timeout, os.killpg, (machine.pid, signal.SIGKILL))
    late.start()
    try:
        assert machine.stdout is not None
        for text in machine.stdout:
            yield text.rstrip()
    finally:
        late.cancel()
        with suppress(ProcessLookupError):
            os.killpg(machine.pid, signal.SIGKILL)
        machine.wait()


def _apt(*arguments: str) -> str:
    done = subprocess.run(["apt-get", *arguments], cwd=TOOLS, capture_output=True, text=True, check=False)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["apt-get failed"])[-1]
        raise Unable(f"NFS is left out: apt-get has no {', '.join(WANTED)} here ({why}); try `apt-get update` first")
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pauses", type=float, default=0.25, help="the share of faults that are no kills")
    parser.add_argument("--mount", default=DEFAULT, help="mount options")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the machine is put off
    try:
        last = ""
        for line in boot(arguments.kills, arguments.seed, arguments.pauses, arguments.mount):
            print(line, flush=True)
            last = line if line.startswith("exit code") else last
        sys.exit(last != "exit code 0")
    except Unable as why:
        print(why)


if __name__ == "__main__":
    main()
