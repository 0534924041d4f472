"""Damage in the files of a finished study: run.json, result.json, curve.jsonl, study.json; and in claims."""

from __future__ import annotations

import io
import os
import random
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from oneclock.cli import main
from oneclock.runs.lock import Claim, Held
from oneclock.runs.protocols import Paper
from oneclock.runs.store import Study
from oneclock.runs.table import read_source
from oneclock.sweep import Execution, Plan, sweep
from oneclock.sweep.api import target_of

from .damage import damaged
from .sweeps import TARGET, one_line

FILES = ("run.json", "result.json", "curve.jsonl")
OLD = 1000.0


def plan_of(path: Path) -> Plan:
    """Three short runs."""
    return Plan(path, [target_of(f"{TARGET}:train", 60, name="x")], Paper(betas=(0.5, 0.8, 0.9), seeds=(1,)))


def go_on(path: Path) -> Study:
    return sweep(plan_of(path), Execution(in_process=True), quiet=True)


def said(*words: object) -> tuple[int, str, str]:
    """A command of ours in this process: exit code, what it printed, its complaint."""
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            main([str(word) for word in words])
        except SystemExit as end:
            return int(end.code or 0), out.getvalue(), errors.getvalue()
    return 0, out.getvalue(), errors.getvalue()


class Records:
    """One file of a finished study is struck; `analyse` reads it, and a sweep goes on with it."""

    checked = (
        "`analyse` prints what it printed or names the run in one line, `status` what was measured or that it is torn; "
        "the next sweep makes a named run anew, to the same numbers, and touches no other"
    )

    def __init__(self, folder: Path) -> None:
        self.whole, self.path = folder / "whole", folder / "study"
        go_on(self.whole)
        self.expected, self.rows = read_source(self.whole), Study.open(self.whole).rows()
        self.renew()
        self.analysis = said("analyse", self.path)

    def renew(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self.whole, self.path)

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        """Damage a file, look, and go on."""
        self.renew()
        name = dice.choice([*FILES, "study.json"])
        run = dice.choice(sorted((self.path / "runs" / "x").iterdir()))
        file = self.path / name if name == "study.json" else run / name
        kind, data = damaged(file.read_bytes(), dice)
        file.write_bytes(data)
        wrong = self.shown() + (self.header() if name == "study.json" else self.mended(run))
        return name, [f"{name} {kind}: {one}" for one in wrong]

    def shown(self) -> list[str]:
        """What a table shows that was not measured."""
        code, _, complaint = said("status", self.path)
        wrong = [] if one_line(code, complaint) else [f"status: {complaint[-500:]}"]
        try:
            rows = [row for row in Study.open(self.path).rows() if row.status != "damaged"]
        except ValueError as error:
            return wrong + ([] if "study.json" in str(error) else [f"no table: {error}"])
        return wrong + ([] if all(row in self.rows for row in rows) else [f"shown: {rows}"])

    def mended(self, run: Path) -> list[str]:
        """What does not hold of a study with one struck run."""
        others = {path: path.stat().st_mtime_ns for path in self.path.glob("runs/*/*/*.json*") if path.parent != run}
        told = said("analyse", self.path)
        code, _, complaint = told
        named = code == 2 and one_line(code, complaint) and run.name in complaint
        wrong = [] if named or told == self.analysis else [f"analyse: {told}"]
        with redirect_stderr(io.StringIO()) as errors:
            go_on(self.path)
        wrong += ["other numbers after the next sweep"] * (read_source(self.path) != self.expected)
        aside = (self.path / "damaged" / "x" / run.name).exists()
        wrong += [f"named {named}, set aside {aside}: {errors.getvalue()}"] * (named != aside)
        return wrong + [f"{path} was touched" for path, when in others.items() if path.stat().st_mtime_ns != when]

    def header(self) -> list[str]:
        """What does not hold of a study whose study.json was struck: named, or read as it was; its runs are kept."""
        before = {path: path.stat().st_mtime_ns for path in self.path.glob("runs/*/*/result.json")}
        wrong = ["other numbers"] * (read_source(self.path).sweeps != self.expected.sweeps)
        try:
            go_on(self.path)
        except ValueError as error:
            wrong += [] if "study.json" in str(error) and "\n" not in str(error) else [f"the sweep says {error}"]
            (self.path / "study.json").unlink()
            go_on(self.path)
        wrong += ["other settings"] * (Plan.read(self.path).described != plan_of(self.whole).described)
        return wrong + [f"{path} was touched" for path, when in before.items() if path.stat().st_mtime_ns != when]

    def close(self) -> list[str]:
        return []


class Claims:
    """The claim of a live or of a dead process is struck, and another wants the folder."""

    checked = (
        "a live sweep's folder is refused in one line as long as it gives signs of life; a dead one's can be had, at "
        "the latest when its claim is old"
    )

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        code = "import sys; from oneclock.runs.lock import *; print(Claim.take(Path(sys.argv[1])).path.read_text())"
        line = [sys.executable, "-c", code, str(folder)]
        self.dead = subprocess.run(line, capture_output=True, text=True, check=True).stdout

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        shutil.rmtree(self.folder, ignore_errors=True)
        live = dice.random() < 0.6
        with Claim.take(self.folder) as claim:
            if not live:
                claim.path.write_text(self.dead)
            kind, data = damaged(claim.path.read_bytes(), dice)
            claim.path.write_bytes(data)
            refused = self.refused()
            wrong = [f"{kind}: a live process's folder was had"] * (live and refused is None)
            if not live and refused is not None:
                os.utime(claim.path, (time.time() - OLD, time.time() - OLD))
                wrong += [f"{kind}: old, it is {words}"] if (words := self.refused()) else []
        wrong += [f"{kind}: it says {refused!r}"] * (refused is not None and "\n" in refused)
        return "of a live process" if live else "of a dead process", wrong

    def refused(self) -> str | None:
        """What one who wants the folder is told, or None where it is had."""
        try:
            with Claim.take(self.folder):
                return None
        except Held as error:
            return str(error)

    def close(self) -> list[str]:
        return []
