"""A small disk that fills up at random moments while a sweep writes to it, and has room again."""

from __future__ import annotations

import os
import random
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from .sweeps import QUICK, Restarted, command

BLOCK = 4096


def mounted(folder: Path) -> bool:
    """Whether this machine lets us mount a disk of 512 kB there."""
    folder.mkdir(parents=True)
    line = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    with suppress(OSError):
        return subprocess.run(line, capture_output=True, check=False).returncode == 0
    return False


class FullDisks(Restarted):
    """Sweeps on a tmpfs, all of whose room is taken but for a few blocks."""

    checked = (
        "the sweep stops by itself in one line, or was done; no run counts as failed, none is lost; once there is room "
        "it goes on to the table of an undisturbed sweep"
    )

    def __init__(self, folder: Path) -> None:
        self.disk = folder / "disk"
        if not mounted(self.disk):
            raise OSError("this machine does not let us mount a small disk")
        super().__init__(folder, lambda study: command(study, *QUICK), PACE="0.03")

    def renew(self) -> None:
        super().renew()
        self.study = self.disk / f"study-{self.number}"

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        """Fill the disk under the sweep, and free it once the sweep has ended."""
        driver, spare = self.under_way(), dice.choice([0, 0, 1, 3, 8])
        time.sleep(dice.uniform(0.05, 2.0))
        self.fill(spare)
        failed = [] if driver.wait(timeout=300) == 0 else self.failed()
        (self.disk / "fill").unlink()
        return f"{spare} blocks left", failed + self.ended(2)

    def fill(self, spare: int) -> None:
        """Take all the room but some blocks."""
        with suppress(OSError), open(self.disk / "fill", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(BLOCK))
            except OSError:
                os.truncate(file.fileno(), max(file.tell() - spare * BLOCK, 0))

    def failed(self) -> list[str]:
        return [f"counted as failed: {reason}" for reason in self.reasons()] if (self.study / "runs").exists() else []

    def close(self) -> list[str]:
        try:
            return super().close()
        finally:
            subprocess.run(["umount", str(self.disk)], check=True)
