"""Real sweeps to strike at: how one is started, what its table is, and what must hold whenever it has ended."""

from __future__ import annotations

import collections
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from oneclock.runs.lock import holder
from oneclock.runs.store import Study
from oneclock.sweep import Plan

from .processes import Marked

TARGET = Path(__file__).parents[1] / "sweep" / "sweep_target.py"
REPOSITORY = "git init -q && touch code.py && git add code.py && git -c user.name=a -c user.email=a@b commit -qm one"
QUICK = ["--betas", "0.5,0.9,0.99", "--seeds", "1", "--protocol", "grid", "--no-report"]


def command(study: Path, *more: str, function: str = "train") -> list[str]:
    line = [sys.executable, "-m", "oneclock", "sweep", f"{TARGET}:{function}", "--budget", "200", "--out", str(study)]
    return [*line, *([] if "--cluster" in more else ["--jobs", "2"]), "--retries", "20", *more]


def table(study: Path) -> list[object]:
    """The final table to the bit, and every curve, without times and without the note that a run went on."""
    rows = Study.open(study).rows()
    curves = [path.read_bytes() for path in sorted(study.glob("runs/*/*/curve.jsonl"))]
    reasons = [None if (row.reason or "").endswith("it went on from there") else row.reason for row in rows]
    shown = [
        (row.experiment, row.beta, row.seed, row.status, row.steps, row.best_loss, row.best_step, reason)
        for row, reason in zip(rows, reasons, strict=True)
    ]
    return [*shown, *curves]


def results(study: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in study.glob("runs/*/*/result.json")}


def one_line(code: int, text: str) -> bool:
    """Whether that is how a command may end: nothing where it went well or was killed, one line where it did not."""
    return "Traceback" not in text and (code < 0 or text.count("\n") == (code > 0))


class Restarted:
    """A study whose sweep is started again after every strike until it is done; then comes the next study."""

    def __init__(self, folder: Path, line: Callable[[Path], list[str]], **environment: str) -> None:
        self.folder, self.line, self.number = folder, line, 0
        folder.mkdir(parents=True, exist_ok=True)
        self.environment = {"COMPLETED": str(folder / "completed"), "TMPDIR": str(folder), **environment}
        subprocess.run(["sh", "-ec", REPOSITORY], check=True, cwd=folder)
        subprocess.run(line(folder / "calm"), check=True, stdout=subprocess.DEVNULL, cwd=folder)
        self.calm = table(folder / "calm")
        self.renew()

    def renew(self) -> None:
        """The next study."""
        self.number += 1
        self.study, self.known = self.folder / f"study-{self.number}", dict[Path, bytes]()
        self.driver: subprocess.Popen[bytes] | None = None
        self.marked, self.orphans = Marked(), set[int]()

    def start(self) -> subprocess.Popen[bytes]:
        """Sweep, or go on with it."""
        (self.folder / "code.py").touch()  # git would now like to write its index
        with open(self.folder / "stderr", "wb") as errors:
            return subprocess.Popen(
                self.line(self.study), cwd=self.folder,
                env=self.marked.environment(**self.environment), stdout=subprocess.DEVNULL, stderr=errors,
            )  # fmt: skip

    def under_way(self) -> subprocess.Popen[bytes]:
        """The sweep, started where none runs."""
        self.driver = self.driver or self.start()
        return self.driver

    def finished(self) -> list[str]:
        """Which runs that were finished are not as they were."""
        now = results(self.study)
        changed = [path.parent.name for path, data in self.known.items() if now.get(path) != data]
        self.known = now | self.known
        return [f"a finished run was lost, changed or executed again: {name}" for name in changed]

    def ended(self, *fine: int) -> list[str]:
        """What does not hold now that the driver ends with 0, or one of `fine`; a study that is done is left behind.

        What is in `orphans` may live until the study is swept again.
        """
        code, wrong, said = self.driver.wait(timeout=300), self.finished(), (self.folder / "stderr").read_text()
        self.driver = None
        if code not in (0, *fine):
            wrong += [f"the sweep ended with {code}: {said[-500:]}", *self.reasons()]
        if not one_line(code, said):
            wrong.append(f"not one line: {said[-500:]!r}")
        if not self.marked.gone(but=set() if code == 0 else self.orphans):
            wrong.append(f"left running: {self.marked.processes()}")
        return wrong + self.done() if code == 0 else wrong

    def reasons(self) -> list[str]:
        return [
            f"{row.beta} {row.seed}: {row.reason}" for row in Plan.read(self.study).rows() if row.status == "failed"
        ]

    def done(self) -> list[str]:
        """What does not hold of a study that was swept to its end; and on to the next."""
        differs = [part for part in table(self.study) if part not in self.calm]
        wrong = [f"the table differs from that of an undisturbed sweep: {differs}"] * (table(self.study) != self.calm)
        wrong += [f"left behind: {path}" for path in self.leftovers()]
        wrong += ["a run was set aside"] * (self.study / "damaged").exists()
        lines = (self.folder / "completed").read_text().split() if (self.folder / "completed").exists() else []
        ends = collections.Counter(line for line in lines if line.startswith(f"{self.study}/"))
        wrong += [f"executed to the end {count} times: {name}" for name, count in ends.items() if count > 1]
        wrong += ["a run was started though it was finished"] * ("finished-before" in lines)
        shutil.rmtree(self.study)
        self.renew()
        return wrong

    def leftovers(self) -> list[Path]:
        """Files half written, locks of the user's repository, and claims, but for a run's own of one killed there."""
        claims = [path for path in self.study.glob("**/claim-*") if path.parent == self.study or holder(path.parent)]
        return [*self.study.glob("**/.*"), *claims, *self.folder.glob(".git/*.lock")]

    def close(self) -> list[str]:
        """Sweep what is under way to its end, undisturbed."""
        self.under_way()
        return self.ended()
