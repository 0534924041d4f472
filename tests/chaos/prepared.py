"""Damage in what training keeps for itself: prepared tokens with their seals, and checkpoints."""

from __future__ import annotations

import io
import random
import shutil
import sys
from contextlib import redirect_stderr
from pathlib import Path

from .damage import damaged

sys.path += [str(Path(__file__).parents[1] / "lab" / "training")]  # tiny_task


class Tokens:
    """A file of prepared tokens or its seal is struck, and the data are loaded again."""

    checked = "the same batches and the same hash of the data; a damaged file is named, set aside and made anew"

    def __init__(self, folder: Path) -> None:
        from small_data import small

        from oneclock.lab.data import load_task

        folder.mkdir()
        self.spec, self.root = small("nanogpt-wikitext103", folder), folder
        self.loaded = lambda: load_task(self.spec, self.root)
        self.batches, self.content = self.seen(self.loaded())
        shutil.copytree(folder / "tokens", folder / "whole")

    @staticmethod
    def seen(task) -> tuple[list[list], object]:
        batches = [*(task.batch(1, step, 0) for step in range(3)), *task.evaluation("validation")]
        return [[batch[name].tolist() for name in sorted(batch)] for batch in batches], task.content

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        tokens = self.root / "tokens"
        shutil.rmtree(tokens)
        shutil.copytree(self.root / "whole", tokens)
        file = dice.choice(sorted(path for path in tokens.iterdir() if path.suffix in (".bin", ".json")))
        kind, data = damaged(file.read_bytes(), dice)
        file.write_bytes(data)
        with redirect_stderr(io.StringIO()) as errors:
            found = self.seen(self.loaded())
        wrong = ["other batches or another hash"] * (found != (self.batches, self.content))
        wrong += [f"it said {errors.getvalue()!r}"] * (errors.getvalue().count("\n") > 1)
        wrong += ["not named"] * (file.suffix == ".bin" and "is damaged" not in errors.getvalue())
        what = "tokens" if file.suffix == ".bin" else "seals of tokens"
        return what, [f"{what} {kind}: {one}" for one in wrong]

    def close(self) -> list[str]:
        return []


class Checkpoints:
    """The checkpoint of a training that was stopped is struck, and the training goes on."""

    checked = "refused in one line; with the checkpoint deleted the run ends with the curve of an undisturbed one"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.train(folder / "undisturbed", checkpoint_every=None)
        self.curve = (folder / "undisturbed" / "curve.jsonl").read_bytes()
        asked: list[int] = []
        try:
            self.train(folder / "stopped", stop=lambda: len(asked) == 12 or asked.append(1) is not None)
        except KeyboardInterrupt:
            return
        raise AssertionError("the training was not stopped")

    @staticmethod
    def train(path: Path, **options: object) -> None:
        from tiny_task import SPEC, Points, network

        from oneclock.lab.training import train

        train(SPEC, 0.95, 1, path, task=Points(), model=network, **options)

    def strike(self, dice: random.Random) -> tuple[str, list[str]]:
        run = self.folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(self.folder / "stopped", run)
        (file,) = (run / "checkpoint").glob("*.pt")
        kind, data = damaged(file.read_bytes(), dice)
        file.write_bytes(data)
        try:
            self.train(run)
            wrong = ["it was taken"]
        except ValueError as error:
            clear = "is damaged" in str(error) and "\n" not in str(error)
            wrong = [] if clear else [f"it says {error}"]
        shutil.rmtree(run / "checkpoint")
        self.train(run)
        wrong += ["another curve"] * ((run / "curve.jsonl").read_bytes() != self.curve)
        return kind, [f"checkpoint {kind}: {one}" for one in wrong]

    def close(self) -> list[str]:
        return []
