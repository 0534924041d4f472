"""A study's folder: what was asked for, how far it is, and which beta it says is best. Read from the runs' own records.

STUDY/
  study.json     targets, protocol, and the hash of both
  runs/          one folder per run, see `oneclock.study.records`
  runs.jsonl     in their place all runs in one file, see `oneclock.study.packed`
  claim-1.json   while a sweep works on it
  torn/          run folders whose record could not be relied on, set aside
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from oneclock.study import best as choosing
from oneclock.study import shown
from oneclock.study.claims import holder
from oneclock.study.files import is_whole, read_json, write_json
from oneclock.study.identity import Beta, Identity, hash_of, safe_name, tied_of
from oneclock.study.packed import write_folders
from oneclock.study.places import PACKED, Files, Folder, Line, is_packed, places
from oneclock.study.records import Result, Run, damage, how_ended, named_by

if TYPE_CHECKING:
    import pandas

State = Literal["waiting", "running", "interrupted", "finished", "diverged", "failed", "torn"]


@dataclass(frozen=True)
class Row:
    """One run of the table. `step` is how far it is; a torn record says so in `reason`; `rate` as in `Identity`."""

    experiment: str
    beta: Beta
    seed: int
    state: State
    step: int
    budget: int
    best_loss: float | None = None
    best_step: int | None = None
    seconds: float | None = None
    reason: str | None = None
    rate: float | None = None


class Study:
    """A study on disk: its runs, their table, and the best beta of each experiment.

    What has ended is read once and remembered, for it does not change; `look_again` forgets it.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> for beta, loss in ((0.5, 2.0), (0.9, 1.0), (0.99, 1.5)):
    ...     identity = Identity("digits", beta, seed=1, budget=10)
    ...     run = Run.start(folder / "runs" / identity.folder, identity)
    ...     run.log(10, val_loss=loss)
    ...     _ = run.finish("finished", seconds=1.0)
    >>> Study(folder).best().beta
    0.9
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._runs = self.path / "runs"
        self._ended: dict[str, Result] = {}
        self._by_experiment: dict[str, dict[str, Result]] = {}
        self._identities: dict[str, Identity] = {}
        self._looked = False

    @classmethod
    def open(cls, path: str | Path) -> Study:
        """The study in a folder; ValueError where there is none."""
        study = cls(path)
        if not any((study.path / name).exists() for name in ("study.json", "runs", PACKED)):
            raise ValueError(f"{path} holds no study: it has neither study.json nor runs/")
        return study

    @property
    def header(self) -> Mapping[str, Any] | None:
        """What `study.json` says, or None where it is not there: the runs know what they are without it."""
        return read_json(self.path / "study.json") if (self.path / "study.json").exists() else None

    def write_header(self, described: Mapping[str, Any]) -> None:
        """Write `study.json`."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(self.path / "study.json", {**described, "hash": hash_of(described)})

    @property
    def experiments(self) -> list[str]:
        """The names of its experiments, as asked for, else as found."""
        asked = [str(one.get("experiment") or one.get("name")) for one in (self.header or {}).get("targets") or ()]
        return asked or list(dict.fromkeys(identity.experiment for identity in map(self.identity, self.folders())))

    def folders(self) -> list[str]:
        """The folders of all runs that were started, EXPERIMENT/RUN below `runs`, in a fixed order."""
        return [folder for folder, _ in places(self.path)]

    def identity(self, folder: str) -> Identity:
        """What the run in a folder is."""
        if folder not in self._identities:
            files = dict(places(self.path))[folder] if is_packed(self.path) else None
            self._identities[folder] = Run.read(self._runs / folder, files).identity
        return self._identities[folder]

    @property
    def ended(self) -> Mapping[str, Result]:
        """How the runs ended that have, by folder; looked up once, then kept up to date by `remember`."""
        if not self._looked:
            for folder, files in places(self.path):
                if folder not in self._ended and (result := self._result(folder, files)) is not None:
                    self.remember(folder, result)
            self._looked = True
        return self._ended

    def _result(self, folder: str, files: Files) -> Result | None:
        place = f"{self._runs}/{folder}"
        with suppress(ValueError):  # a damaged one has not ended: `row` and `set_damaged_aside` say so
            data = files.read("run.json") or b""
            if isinstance(files, Line) or not (is_whole(data) and named_by(folder, data)):
                self._identities[folder] = Run.read(place, files).identity
            return how_ended(files, place)[0]
        return None

    def remember(self, folder: str, result: Result) -> None:
        """Count a run as ended, whether or not the disk took its record."""
        self._ended[folder] = self._by_experiment.setdefault(_experiment(folder), {})[folder] = result

    def _forget(self, folder: str) -> None:
        self._ended.pop(folder, None)
        self._by_experiment.get(_experiment(folder), {}).pop(folder, None)

    def look_again(self) -> None:
        """Forget what is known of the runs: others may have ended some."""
        self._ended, self._by_experiment, self._looked = {}, {}, False

    def losses(self, experiment: str) -> list[choosing.Cell]:
        """(beta, seed, loss) of the experiment's tied runs that have ended, each beta at its own best rate."""
        runs = self._rated(experiment)
        rates = choosing.best_rates(runs)
        return [(b, seed, loss) for b, rate, seed, loss in runs if isinstance(b, float) and rate == rates[b]]

    def _rated(self, experiment: str) -> list[choosing.RatedCell]:
        """Every run of the experiment that has ended, with its learning rate where a sweep set one."""
        ended = self._by_experiment.get(safe_name(experiment), {}) if self.ended else {}
        known: dict[float | None, float | None] = {None: None}  # a factor means one learning rate in an experiment
        runs: list[choosing.RatedCell] = []
        for folder, result in ended.items():
            beta, rate, seed = self._cell(folder)
            if rate not in known:
                known[rate] = self.identity(folder).learning_rate
            runs.append((beta, known[rate], seed, result.loss))
        return runs

    def _cell(self, folder: str) -> tuple[Beta, float | None, int]:
        """Beta, rate and seed of a run: from its record where that was read, else from its name, which takes less."""
        if folder not in self._identities and (named := tied_of(folder)) is not None:
            return named
        identity = self.identity(folder)
        return identity.beta, identity.rate, identity.seed

    def best(self, experiment: str | None = None) -> choosing.Best:
        """The best beta so far of an experiment, with how sure that is; of the first where none is named.

        Where several rates were swept, `rate` is the learning rate to use it with.
        """
        name = next(iter(self.experiments), "") if experiment is None else experiment
        runs = self._rated(name)
        if not runs and name not in (names := self.experiments):
            raise ValueError(f"{self.path} has no experiment {name!r}; it has {', '.join(names) or 'none'}")
        return choosing.best_pair(runs)

    def choice(self, experiment: str | None = None) -> float | None:
        """The best beta so far, or None where the runs allow no answer; `best` says why, and how sure it is."""
        return self.best(experiment).beta

    def rows(self) -> list[Row]:
        """Every run that was started, by experiment, beta, rate and seed, baselines last."""
        rows = [self.row(folder) for folder in self.folders()]
        order = {name: place for place, name in enumerate(self.experiments)}
        return sorted(rows, key=lambda row: (order.get(row.experiment, len(order)), *_order(row)))

    def table(self) -> pandas.DataFrame:
        """`rows` as a pandas table."""
        import pandas

        return pandas.DataFrame([asdict(row) for row in self.rows()], columns=list(Row.__dataclass_fields__))

    def row(self, folder: str, identity: Identity | None = None) -> Row:
        """One run as it is now; `identity` says what it is where it may not have started."""
        if (result := self.ended.get(folder)) is not None:
            return _ended(identity or self.identity(folder), result)
        path = self._runs / folder
        torn = damage(path) if path.exists() else None
        if identity is None:
            known = torn is None and (path / "run.json").exists()
            identity = self.identity(folder) if known else _of_folder(folder)
        if torn is not None:
            return Row(**_named(identity), state="torn", step=0, reason=torn)
        row = _under_way(_named(identity), path)
        if row.state == "interrupted" and (result := how_ended(Folder(path), str(path))[0]) is not None:
            return _ended(identity, result)  # it has ended since the others were looked at
        return row

    def _repr_html_(self) -> str:
        return shown.as_html(self)

    def failed(self) -> list[str]:
        """The folders of the runs that failed."""
        return [folder for folder, result in self.ended.items() if result.status == "failed"]

    def forget_failed(self) -> int:
        """Make failed runs unfinished, so that the next sweep goes on with them; tells how many."""
        if failed := self.failed():
            self.unpack()
        for folder in failed:
            (self._runs / folder / "result.json").unlink(missing_ok=True)
            self._forget(folder)
        return len(failed)

    def unpack(self) -> None:
        """Put the runs into folders where they are packed, for whoever has claimed the study and writes to it."""
        if is_packed(self.path):
            write_folders(self.path)

    def set_damaged_aside(self) -> list[tuple[str, str]]:
        """Move run folders whose record cannot be relied on to `torn/`, so that they run anew; tells which and why."""
        moved = []
        for folder in self.folders():
            if (reason := damage(self._runs / folder)) is not None:
                self.set_aside(folder)
                moved.append((folder, reason))
        return moved

    def set_aside(self, folder: str) -> Path:
        """Move a run's folder to `torn/`: it is kept, and runs anew."""
        place = self.path / "torn" / folder
        while place.exists():
            place = place.with_name(place.name + "-again")
        place.parent.mkdir(parents=True, exist_ok=True)
        (self._runs / folder).rename(place)
        self._forget(folder)
        self._identities.pop(folder, None)
        return place


def _named(identity: Identity) -> dict[str, Any]:
    """What a row says of a run before it says how far it is."""
    return {name: getattr(identity, name) for name in ("experiment", "beta", "seed", "budget", "rate")}


def _ended(one: Identity, how: Result) -> Row:
    """A run that has ended; field by field, for there may be very many."""
    return Row(
        one.experiment,
        one.beta,
        one.seed,
        how.status,
        how.steps,
        one.budget,
        how.best_loss,
        how.best_step,
        how.seconds,
        how.reason,
        one.rate,
    )


def _under_way(start: Mapping[str, Any], path: Path) -> Row:
    """A run that has not ended, as far as it is."""
    points = Run.read(path).points() if (path / "run.json").exists() else []
    losses = [(p.val_loss, p.step) for p in points if p.val_loss is not None and math.isfinite(p.val_loss)]
    best_loss, best_step = min(losses) if losses else (None, None)
    state: State = "waiting" if not path.exists() else "running" if holder(path) else "interrupted"
    step = points[-1].step if points else 0
    return Row(**start, state=state, step=step, best_loss=best_loss, best_step=best_step)


def open_study(path: str | Path) -> Study:
    """The study in a folder, made by a sweep here or elsewhere.

    Args:
        path: The folder: it holds `study.json`, `runs/`, or both.

    Returns:
        The study: `best()`, `choice()`, `table()`, `rows()`, `experiments`.

    Raises:
        ValueError: Where the folder holds no study.

    >>> open_study("no-such-folder")
    Traceback (most recent call last):
    ValueError: no-such-folder holds no study: it has neither study.json nor runs/
    """
    return Study.open(path)


def _experiment(folder: str) -> str:
    """The part of a run's folder that all runs of its experiment share."""
    return folder.partition("/")[0]


def _of_folder(folder: str) -> Identity:
    """What a folder's name alone tells of a run whose record cannot be read."""
    experiment, _, name = folder.partition("/")
    return Identity(f"{experiment}/{name}", math.nan, 0, 0)


def _order(row: Row) -> tuple[Any, ...]:
    pair = isinstance(row.beta, tuple)
    return pair, row.beta if pair else (row.beta,), row.rate or 0.0, row.seed
