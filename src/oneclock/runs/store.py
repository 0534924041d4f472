"""A study's folder: its plan, its progress, and its best beta. Read from the runs' own records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneclock.runs import best as choosing
from oneclock.runs.files import PACKED, files_of_runs, read_json, refuse_packed, write_json
from oneclock.runs.folder import RunFolder, damage
from oneclock.runs.key import RunKey, hash_of, key_from_folder, safe_name
from oneclock.runs.lock import holder, workers
from oneclock.runs.planned import missing_runs, waiting_runs
from oneclock.runs.record import ROW, RunRecord, Status, with_learning_rate

if TYPE_CHECKING:
    import pandas


class Study:
    """A study on disk: its runs, their table, and the best beta of each experiment.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for beta, loss in ((0.5, 2.0), (0.9, 1.0), (0.99, 1.5)):
    ...     key = RunKey("digits", beta, seed=1, budget=10)
    ...     run = RunFolder.start(folder / "runs" / key.folder, key)
    ...     run.log(10, val_loss=loss)
    ...     _ = run.finish("finished", seconds=1.0)
    >>> Study(folder).best().beta
    0.9
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._runs = self.path / "runs"
        self._ended: dict[str, RunRecord] = {}
        self._looked = False

    def __repr__(self) -> str:
        return f"<Study {self.path}: {len(self.ended)} runs have ended, {len(self.failed())} of them failed>"

    @classmethod
    def open(cls, path: str | Path) -> Study:
        """The study in a folder, made by a sweep here or elsewhere: `best()`, `table()`, `rows()`, `experiments`.

        >>> open_study("no-such-folder")
        Traceback (most recent call last):
        ValueError: no-such-folder holds no study: it has neither study.json nor runs/
        """
        study = cls(path)
        if not any((study.path / name).exists() for name in ("study.json", "runs", PACKED)):
            raise ValueError(f"{path} holds no study: it has neither study.json nor runs/")
        return study

    @property
    def header(self) -> Mapping[str, Any] | None:
        """The content of `study.json`, or None if it is missing: the runs can be read without it."""
        return read_json(self.path / "study.json") if (self.path / "study.json").exists() else None

    def write_header(self, described: Mapping[str, Any]) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "study.json", {**described, "hash": hash_of(described)})

    @property
    def experiments(self) -> list[str]:
        """The names of its experiments, in planned order, else as the runs have them."""
        asked = [str(one.get("experiment") or one.get("name")) for one in (self.header or {}).get("targets") or ()]
        return asked or list(dict.fromkeys(key.experiment for key in self.started_keys()))

    def folders(self) -> list[str]:
        """The folders of all runs that were started, EXPERIMENT/RUN below `runs`, in a fixed order."""
        return [folder for folder, _ in files_of_runs(self.path)]

    def started_keys(self) -> list[RunKey]:
        """The keys of all runs that were started; ValueError if one cannot be read."""
        return [RunFolder.read(f"{self._runs}/{folder}", files).key for folder, files in files_of_runs(self.path)]

    @property
    def ended(self) -> Mapping[str, RunRecord]:
        """The runs that have ended, by folder; read once, then kept up to date by `remember`."""
        if not self._looked:
            for folder, files in files_of_runs(self.path):
                with suppress(ValueError):  # a damaged run has not ended; `row` and `set_damaged_aside` report it
                    known = folder in self._ended
                    if not known and (record := RunFolder.read(f"{self._runs}/{folder}", files).result) is not None:
                        self.remember(folder, record)
            self._looked = True
        return self._ended

    def remember(self, folder: str, result: RunRecord) -> None:
        """Count a run as ended, even if the disk refused its record."""
        self._ended[folder] = result

    def runs(self, experiment: str) -> list[RunRecord]:
        """The runs of the experiment that have ended, with learning rates instead of factors on one."""
        return [with_learning_rate(run) for run in self.ended.values() if run.experiment == experiment]

    def _without_result(self, experiment: str) -> list[RunRecord]:
        """The planned or started runs of the experiment without a result: their losses are unknown."""
        prefix = f"{safe_name(experiment)}/"
        rows = [self.row(one) for one in self.folders() if one.startswith(prefix) and one not in self.ended]
        begun = [row for row in rows if row.status != "damaged"]
        damaged = [row.key for row in rows if row.status == "damaged" and row.beta == row.beta]
        lost = {key.folder: key for key in (*damaged, *self.missing(experiment).get(experiment, ()))}
        for row in begun:
            lost.pop(row.key.folder, None)
        return [*map(with_learning_rate, begun), *waiting_runs(lost.values(), self.ended.values())]

    def best(self, experiment: str | None = None) -> choosing.Best:
        """The best beta so far of an experiment, by default of the first one, with its confidence."""
        name = next(iter(self.experiments), "") if experiment is None else experiment
        runs = self.runs(name)
        if not runs and name not in (names := self.experiments):
            raise ValueError(f"{self.path} has no experiment {name!r}; it has {', '.join(names) or 'none'}")
        under_way = bool(holder(self.path) or workers(self.path))
        return choosing.best_of([*runs, *self._without_result(name)], under_way)

    def missing(self, experiment: str | None = None) -> dict[str, list[RunKey]]:
        """The planned runs that have not ended, by experiment (or of one): not run yet, or lost."""
        if (header := self.header) is None:
            return {}
        return missing_runs(header, self.ended.values(), experiment)

    def rows(self) -> list[RunRecord]:
        """Every run that was started, by experiment, beta, learning rate and seed, baselines last."""
        rows = [self.row(folder) for folder in self.folders()]
        order = {name: index for index, name in enumerate(self.experiments)}
        return sorted(rows, key=lambda row: (order.get(row.experiment, len(order)), row.key.order))

    def table(self) -> pandas.DataFrame:
        """`rows` as a pandas table."""
        import pandas

        return pandas.DataFrame([row.as_row() for row in self.rows()], columns=list(ROW))

    def row(self, folder: str, key: RunKey | None = None) -> RunRecord:
        """One run in its present state; give its `key` if it may not have started."""
        if (record := self.ended.get(folder)) is not None:
            return record
        path = self._runs / folder
        key = key or key_from_folder(folder) or RunKey(folder, math.nan, 0, 0)
        if (damaged := damage(path)) is not None:
            return RunRecord(key, "damaged", reason=damaged)
        status: Status = "waiting" if not path.exists() else "running" if holder(path) else "interrupted"
        if not (path / "run.json").exists():
            return RunRecord(key, status)
        run = RunFolder.read(path)
        so_far = run.state(status)
        ended = run.result if status == "interrupted" else None  # it may have ended since the others were read
        return ended or so_far

    def failed(self) -> list[str]:
        """The folders of the runs that failed."""
        return [folder for folder, result in self.ended.items() if result.status == "failed"]

    def forget_failed(self) -> int:
        """Mark failed runs as unfinished, so that the next sweep continues them. Returns how many."""
        if failed := self.failed():
            refuse_packed(self.path)
        for folder in failed:
            (self._runs / folder / "result.json").unlink(missing_ok=True)
            del self._ended[folder]
        return len(failed)

    def set_damaged_aside(self) -> list[tuple[str, str]]:
        """Move damaged run folders to `damaged/`, so that these runs start again. Returns which and why."""
        moved = [(folder, reason) for folder in self.folders() if (reason := damage(self._runs / folder)) is not None]
        for folder, _ in moved:
            self.set_aside(folder)
        return moved

    def set_aside(self, folder: str) -> Path:
        """Move a run's folder to `damaged/`: the files are kept, and the run starts again."""
        target = self.path / "damaged" / folder
        while target.exists():
            target = target.with_name(target.name + "-again")
        target.parent.mkdir(parents=True, exist_ok=True)
        (self._runs / folder).rename(target)
        self._ended.pop(folder, None)
        return target


open_study = Study.open
