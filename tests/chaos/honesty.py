"""Faults that leave every file whole and would still give a wrong number: other code, mixed attempts, short runs.

Also lost files, and metrics whose name says that higher is better. After each fault the study must hold what was really
measured, or say in one line that it does not.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

from oneclock.runs.store import Study
from oneclock.runs.table import read_source
from oneclock.sweep import Command, Execution
from oneclock.sweep.api import run_sweep

from .records import go_on

HERE = Execution(in_process=True)


class _Kind:
    def __init__(self, folder: Path) -> None:
        self.folder, self.number = folder, 0
        folder.mkdir(parents=True, exist_ok=True)

    def new(self) -> Path:
        """A folder of its own for one fault."""
        self.number += 1
        path = self.folder / str(self.number)
        path.mkdir()
        return path

    def close(self) -> list[str]:
        return []


class EditedCode(_Kind):
    """A file of a project of packages is edited, or a value that a function holds; then the same folder is swept."""

    checked = "an edit that can change a loss is refused and the file is named; a comment or a file not imported is not"

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        root = self.new()
        package = f"package{dice.randrange(10**9)}"
        inside = dice.sample(["utils", "model", "data", "layers"], dice.randint(1, 3))
        files = {
            "train.py": f"import {package}\ndef train(beta, seed, run):\n    return 1 + beta\n",
            "unused.py": "x = 1\n",
            f"{package}/__init__.py": "".join(
                dice.choice([f"from . import {m}\n", f"import {package}.{m}\n"]) for m in inside
            ),
        }
        for module in inside:
            deep = dice.random() < 0.5
            path = f"{package}/{module}/__init__.py" if deep else f"{package}/{module}.py"
            files[path] = f"def value_{module}():\n    return 1\n" + ("from .utils import *\n" if deep else "")
            if deep:
                files[f"{package}/{module}/utils.py"] = "y = 2\n"
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        self.sweep(root)
        name = dice.choice(sorted(files))
        comment = dice.random() < 0.3
        (root / name).write_text(files[name] + ("# a comment\n" if comment else "added = 3\n"))
        what = "a comment" if comment else "a file not imported" if name == "unused.py" else "code"
        said = self.said(root)
        if what == "code":
            wrong = [] if said is not None and name in said else [f"{name} was edited, and it says {said!r}"]
        else:
            wrong = [] if said is None else [f"{what} of {name}: {said}"]
        return what, wrong

    def sweep(self, root: Path) -> None:
        more = {"betas": [0.5], "seeds": [1], "where": HERE, "quiet": True}
        run_sweep(f"{root}/train.py:train", 10, root / "study", **more)

    def said(self, root: Path) -> str | None:
        try:
            self.sweep(root)
        except ValueError as error:
            return str(error)
        return None


class LostFiles(_Kind):
    """A file of a run, or its whole folder, is gone, as after an interrupted copy."""

    checked = "the same numbers, or one line, or the missing run is named; the next sweep makes the run anew"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.whole = folder / "whole"
        go_on(self.whole)
        self.expected = read_source(self.whole)

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        path = self.new() / "study"
        shutil.copytree(self.whole, path)
        run = dice.choice(sorted((path / "runs" / "x").iterdir()))
        what = dice.choice(["run.json", "result.json", "curve.jsonl", "the folder"])
        if what == "the folder":
            shutil.rmtree(run)
        else:
            (run / what).unlink()
        wrong = []
        try:
            found = read_source(path)
            wrong += ["other numbers in silence"] * (found != self.expected and not found.missing)
        except ValueError as error:
            wrong += [f"it says {error}"] * ("\n" in str(error))
        go_on(path)
        wrong += ["other numbers after the next sweep"] * (read_source(path) != self.expected)
        return what, [f"{what}: {one}" for one in wrong]


class MixedAttempts(_Kind):
    """Better losses than a run has: an attempt that died printed them, or an earlier sweep left them in its log."""

    checked = "the losses of the attempt that ended, and of no other; none where it wrote no log of its own"

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        return self.old_log(dice) if dice.random() < 0.3 else self.attempts(dice)

    def old_log(self, dice: random.Random) -> tuple[str, list[str]]:
        root, writes = self.new(), dice.random() < 0.5
        log, age = root / "log.csv", dice.choice([10, 1000, 10**6])
        log.write_text("step,val_loss\n" + "".join(f"{step},0.01\n" for step in range(10, 101, 10)))
        os.utime(log, (time.time() - age,) * 2)
        new = "".join(f"{step},1.5\\n" for step in range(10, 101, dice.choice([10, 45])))
        line = f"printf 'step,val_loss\\n{new}' {dice.choice(['>', '>>'])} {log}" if writes else "true"
        command = Command(f"{line}; : {{beta}} {{seed}}", 100, log=str(log))
        with suppress(ValueError):  # the first run without a curve stops the sweep
            run_sweep(command, out=root / "s", betas=[0.5], seeds=[1], where=HERE, quiet=True)
        (row,) = Study.open(root / "s").rows()
        expected = ("finished", 1.5) if writes else ("failed", None)
        what = "a log that another sweep wrote" + (", and this one too" if writes else "")
        return what, [] if (row.status, row.best_loss) == expected else [f"{what}: {row.status} {row.best_loss}"]

    def attempts(self, dice: random.Random) -> tuple[str, list[str]]:
        root, every = self.new(), dice.choice([5, 10, 20])
        real = {step: round(dice.uniform(1, 2), 6) for step in range(every, 101, every)}
        lost = {step: round(dice.uniform(0.01, 0.1), 6) for step in list(real)[: dice.randint(1, len(real))]}
        resumed = dice.random() < 0.4
        if resumed:  # it goes on from a checkpoint: what came before that was measured too
            last = max(lost)
            real = {step: loss for step, loss in real.items() if step > last} or {100: 1.5}
        (root / "script.py").write_text(
            "import json, os, pathlib, signal, sys\nfolder = pathlib.Path(sys.argv[1])\n"
            f"first, lost, real = not (folder / 'tried').exists(), {json.dumps(lost)!r}, {json.dumps(real)!r}\n"
            "(folder / 'tried').touch()\n"
            "for step, loss in json.loads(lost if first else real).items():\n"
            "    print(f'step {step}: val_loss {loss}', flush=True)\n"
            "if first:\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        line = f"{shlex.quote(sys.executable)} {root}/script.py {{folder}} {{beta}} {{seed}}"
        study = run_sweep(
            Command(line, 100), out=root / "s", betas=[0.5], seeds=[1], where=Execution(jobs=1), quiet=True
        )
        (row,) = study.rows()
        kept = {step: loss for step, loss in lost.items() if step < min(real)}
        expected = min({**kept, **real}.values())
        what = "an attempt that goes on" if resumed else "an attempt from the start"
        good = row.status == "finished" and row.best_loss == expected
        return what, [] if good else [f"{what}: {row.status} {row.best_loss}, not {expected} ({row.reason})"]


class ShortRuns(_Kind):
    """A function ends before its budget, or after it, and says nothing of it."""

    checked = "failed where an evaluation is missing or it trained far beyond its budget, finished otherwise"

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        budget, every = dice.randint(50, 2000), dice.randint(1, 40)
        share = dice.choice([dice.uniform(0.01, 0.9), 1.0, dice.uniform(1.2, 5)])
        steps = [*range(every, max(int(budget * share), every) + 1, every)]
        early = dice.random() < 0.3

        def train(beta: float, seed: int, run: object) -> None:
            for step in steps:
                run.log(step, val_loss=1.0)  # type: ignore[attr-defined]
            if early:
                run.stop_early()  # type: ignore[attr-defined]

        more = {"betas": [0.5], "seeds": [1], "where": HERE, "quiet": True, "name": "x"}
        (row,) = run_sweep(train, budget, self.new() / "s", **more).rows()
        short, long = steps[-1] + every < budget, steps[-1] > 1.1 * budget
        what = "too short" if short else "too long" if long else "complete"
        expected = "failed" if (short or long) and not early else "finished"
        wrong = f"{budget} steps, evaluated to {steps[-1]} every {every}, early {early}: {row.status}"
        return what + (" and said so" if early else ""), [] if row.status == expected else [wrong]


LOSSES = ("val_loss", "valid_loss", "eval_loss", "validation_loss", "val/loss", "test_loss")
REWARDS = ("reward", "accuracy", "val_accuracy", "bleu", "miou", "psnr", "exact_match", "map50", "win_rate", "f1")


class RenamedMetrics(_Kind):
    """A command logs its validation loss by one of many names, or only a metric that is better when higher."""

    checked = "a loss is read by whatever name; a metric that is better when higher is never taken as one"

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        loss = dice.random() < 0.5
        name, root = dice.choice(LOSSES if loss else REWARDS), self.new()
        rows = "".join(f"{step},{round(dice.uniform(0.1, 0.9), 4)}\\n" for step in range(10, 101, 10))
        line = f"printf 'step,{name}\\n{rows}' > {{folder}}/log.csv; : {{beta}} {{seed}}"
        command = Command(line, 100, log="{folder}/log.csv")
        try:
            run_sweep(command, out=root / "s", betas=[0.5], seeds=[1], where=HERE, quiet=True)
        except ValueError as error:
            said = str(error)
        else:
            said = ""
        (row,) = Study.open(root / "s").rows()
        wrong = row.status != ("finished" if loss else "failed")
        return name, [f"{name}: {row.status} with {row.best_loss} ({row.reason}; {said})"] if wrong else []
