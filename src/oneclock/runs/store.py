"""A study's folder: its plan, its progress, and its best beta. Read from the runs' own records.

STUDY/
  study.json     targets, protocol, and the hash of both
  runs/          one folder per run, see `oneclock.runs.record`
  runs.jsonl     instead of runs/: all runs in one file, see `oneclock.runs.files`
  claim-1.json   while a sweep works on it
  damaged/         run folders with damaged records
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneclock.runs import best as choosing
from oneclock.runs.files import PACKED, files_of_runs, is_packed, read_json, refuse_packed, write_json
from oneclock.runs.folder import RunFolder, damage
from oneclock.runs.key import RunKey, hash_of, key_from_folder, safe_name
from oneclock.runs.lock import holder, workers
from oneclock.runs.planned import missing_runs, waiting_runs
from oneclock.runs.record import ROW, RunRecord, Status, with_learning_rate

if TYPE_CHECKING:
    import pandas


class Study:
    """A study on disk: its runs, their table, and the best beta of each experiment.

    Ended runs are read once and remembered, because they do not change.

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
        self._by_experiment: dict[str, dict[str, RunRecord]] = {}
        self._keys: dict[str, RunKey] = {}
        self._looked = False

    def __repr__(self) -> str:
        return f"<Study {self.path}: {len(self.ended)} runs have ended, {len(self.failed())} of them failed>"

    @classmethod
    def open(cls, path: str | Path) -> Study:
        """The study in a folder; ValueError if there is none."""
        study = cls(path)
        if not any((study.path / name).exists() for name in ("study.json", "runs", PACKED)):
            raise ValueError(f"{path} holds no study: it has neither study.json nor runs/")
        return study

    @property
    def header(self) -> Mapping[str, Any] | None:
        """The content of `study.json`, or None if it is missing: the runs can be read without it."""
        return read_json(self.path / "study.json") if (self.path / "study.json").exists() else None

    def write_header(self, described: Mapping[str, Any]) -> None:
        """Write `study.json`."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "study.json", {**described, "hash": hash_of(described)})

    @property
    def experiments(self) -> list[str]:
        """The names of its experiments, in planned order, else as the runs have them."""
        asked = [str(one.get("experiment") or one.get("name")) for one in (self.header or {}).get("targets") or ()]
        return asked or list(dict.fromkeys(key.experiment for key in map(self.key, self.folders())))

    def folders(self) -> list[str]:
        """The folders of all runs that were started, EXPERIMENT/RUN below `runs`, in a fixed order."""
        return [folder for folder, _ in files_of_runs(self.path)]

    def key(self, folder: str) -> RunKey:
        """The key of the run in a folder."""
        if folder in self._ended:
            return self._ended[folder].key
        if folder not in self._keys:
            files = dict(files_of_runs(self.path))[folder] if is_packed(self.path) else None
            self._keys[folder] = RunFolder.read(self._runs / folder, files).key
        return self._keys[folder]

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
        self._ended[folder] = self._by_experiment.setdefault(_experiment(folder), {})[folder] = result

    def _forget(self, folder: str) -> None:
        self._ended.pop(folder, None)
        self._by_experiment.get(_experiment(folder), {}).pop(folder, None)

    def losses(self, experiment: str) -> list[tuple[float, int, float]]:
        """(beta, seed, loss) of the experiment's tied runs that have ended, each beta at its own best learning rate."""
        runs = self.runs(experiment)
        best_lr = choosing.best_lrs(runs)
        return [(run.tied_beta, run.seed, run.loss) for run in runs if run.key.is_tied and run.lr == best_lr[run.beta]]

    def runs(self, experiment: str) -> list[RunRecord]:
        """The runs of the experiment that have ended; their `lr` is the learning rate where a sweep set one."""
        return [with_learning_rate(run) for run in self._ended_of(experiment)]

    def _ended_of(self, experiment: str) -> list[RunRecord]:
        return [*self._by_experiment.get(safe_name(experiment), {}).values()] if self.ended else []

    def _without_result(self, experiment: str) -> list[RunRecord]:
        """The planned or started runs of the experiment without a result: their losses are unknown."""
        prefix = f"{safe_name(experiment)}/"
        rows = {one: self.row(one) for one in self.folders() if one.startswith(prefix) and one not in self.ended}
        begun = {folder: row for folder, row in rows.items() if row.status != "damaged"}
        absent = [key for key in self.missing().get(experiment, ()) if key.folder not in begun]
        listed = {key.folder for key in absent} | begun.keys()
        damaged = [row for folder, row in rows.items() if folder not in listed and row.beta == row.beta]
        waiting = waiting_runs(absent, self._ended_of(experiment))
        return [*map(with_learning_rate, (*begun.values(), *damaged)), *waiting]

    def best(self, experiment: str | None = None) -> choosing.Best:
        """The best beta so far of an experiment, with its confidence; by default of the first experiment.

        If several learning rates were swept, `lr` is the one to use with it.
        """
        name = next(iter(self.experiments), "") if experiment is None else experiment
        runs = self.runs(name)
        if not runs and name not in (names := self.experiments):
            raise ValueError(f"{self.path} has no experiment {name!r}; it has {', '.join(names) or 'none'}")
        under_way = bool(holder(self.path) or workers(self.path))
        return choosing.best_of([*runs, *self._without_result(name)], under_way)

    def missing(self) -> dict[str, list[RunKey]]:
        """The planned runs that have not ended, by experiment: not run yet, or lost."""
        return {} if (header := self.header) is None else missing_runs(header, self.ended.values())

    def choice(self, experiment: str | None = None) -> float | None:
        """The best beta so far, or None if the runs allow no answer; `best` says why, and how sure it is."""
        return self.best(experiment).beta

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
        damaged = damage(path) if path.exists() else None
        if key is None:
            readable = damaged is None and (path / "run.json").exists()
            key = self.key(folder) if readable else _of_folder(folder)
        if damaged is not None:
            return RunRecord(key, "damaged", reason=damaged)
        return _under_way(key, path)

    def failed(self) -> list[str]:
        """The folders of the runs that failed."""
        return [folder for folder, result in self.ended.items() if result.status == "failed"]

    def forget_failed(self) -> int:
        """Mark failed runs as unfinished, so that the next sweep continues them. Returns how many."""
        if failed := self.failed():
            refuse_packed(self.path)
        for folder in failed:
            (self._runs / folder / "result.json").unlink(missing_ok=True)
            self._forget(folder)
        return len(failed)

    def set_damaged_aside(self) -> list[tuple[str, str]]:
        """Move damaged run folders to `damaged/`, so that these runs start again. Returns which and why."""
        moved = []
        for folder in self.folders():
            if (reason := damage(self._runs / folder)) is not None:
                self.set_aside(folder)
                moved.append((folder, reason))
        return moved

    def set_aside(self, folder: str) -> Path:
        """Move a run's folder to `damaged/`: the files are kept, and the run starts again."""
        target = self.path / "damaged" / folder
        while target.exists():
            target = target.with_name(target.name + "-again")
        target.parent.mkdir(parents=True, exist_ok=True)
        (self._runs / folder).rename(target)
        self._forget(folder)
        self._keys.pop(folder, None)
        return target


def _under_way(key: RunKey, path: Path) -> RunRecord:
    """The present state of a run that had not ended when the others were read."""
    status: Status = "waiting" if not path.exists() else "running" if holder(path) else "interrupted"
    if not (path / "run.json").exists():
        return RunRecord(key, status)
    run = RunFolder.read(path)
    begun = run.state(status)
    return (run.result if status == "interrupted" else None) or begun  # it may have ended since the others were read


def open_study(path: str | Path) -> Study:
    """The study in a folder, made by a sweep here or elsewhere.

    Args:
        path: The folder: it holds `study.json`, `runs/`, or both.

    Returns:
        The study: `best()`, `choice()`, `table()`, `rows()`, `experiments`.

    Raises:
        ValueError: If the folder holds no study.

    >>> open_study("no-such-folder")
    Traceback (most recent call last):
    ValueError: no-such-folder holds no study: it has neither study.json nor runs/
    """
    return Study.open(path)


def _experiment(folder: str) -> str:
    """The first part of a run's folder, which all runs of its experiment share."""
    return folder.partition("/")[0]


def _of_folder(folder: str) -> RunKey:
    """The key of a run with an unreadable record, from its folder's name."""
    return key_from_folder(folder) or RunKey(folder, math.nan, 0, 0)
