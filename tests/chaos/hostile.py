"""Logs of every known form, damaged or made to ask for much, through `advise` under a limit of memory and disk."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from oneclock.plain_text import printable

from .damage import damaged
from .sweeps import one_line

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1200 * 2**20, 1200 * 2**20))
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
from oneclock.cli import main
main(sys.argv[1:])
"""


def mutated(data: bytes, dice: random.Random) -> bytes:
    """A log with some of its bytes changed, moved, repeated, or made into numbers that are none."""
    for _ in range(dice.randint(1, 6)):
        at, long = dice.randrange(len(data) + 1), dice.randint(1, 64)
        odd = dice.choice([b'"', b"\n", b"1e999", b"NaN", b"-5", b"\x1b[2J", b"\xff\xfe", b"\0" * 9, dice.randbytes(9)])
        changed = [data[:at] + odd + data[at:], data[:at] + data[at + long :], data[: at + long] + data[at:]]
        data = dice.choice(changed)
    return damaged(data, dice)[1] if data and dice.random() < 0.4 else data


class Logs:
    """One log at a time: a mutated sample, or a small file that unpacks to very much."""

    checked = "exit 0 or one line, within 1.2 GB of memory and 1 MB of disk; no traceback, nothing raw to the terminal"

    def __init__(self, folder: Path) -> None:
        sys.path.append(str(Path(__file__).parents[1] / "logs"))
        from logs_corpus import CORPUS
        from test_logs_fuzz import BOMBS, SAMPLES, written

        self.folder = folder
        self.samples = [partial(written, format=name, data=data) for name, data in SAMPLES.items()]
        self.samples += [partial(laid_out, form.content) for form in CORPUS.values()]
        self.bombs = [data for _, data in BOMBS.values()]

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        path, bomb = self.folder / "struck", dice.random() < 0.1
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        if bomb:
            (path / "log").write_bytes(dice.choice(self.bombs))
        else:
            dice.choice(self.samples)(path)
            file = dice.choice(sorted(one for one in path.rglob("*") if one.is_file()))
            file.write_bytes(mutated(file.read_bytes(), dice))
        options = dice.choice([[], ["--json"]])
        done = subprocess.run(
            [sys.executable, "-c", LIMITED, "advise", str(path), *options],
            capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        fine = done.returncode in (0, 2) and one_line(done.returncode, done.stderr)
        wrong = [] if fine else [f"{done.returncode}: {done.stderr[-500:]}"]
        wrong += ["raw"] * any(printable(line) != line for line in (done.stdout + done.stderr).splitlines())
        if wrong:
            kept = tempfile.mkdtemp(prefix="chaos-log-")
            wrong.append(f"kept in {shutil.copytree(path, kept, dirs_exist_ok=True)}")
        return "asks for much" if bomb else "mutated", wrong

    def close(self) -> list[str]:
        return []


def laid_out(content: str | bytes | dict | Path, folder: Path) -> None:
    """Write a log of the corpus below a folder."""
    if isinstance(content, Path):
        (shutil.copytree if content.is_dir() else shutil.copy)(content, folder / content.name)
        return
    for name, data in (content if isinstance(content, dict) else {"log": content}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
