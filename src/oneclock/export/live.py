"""Evaluations in TensorBoard or Weights & Biases while a sweep runs: observers of `oneclock.run_sweep`.

A sweep calls its observers in its own process, so they never slow down or endanger a run. An export of ended runs uses
the same observers, with the time of each evaluation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from oneclock.runs.key import RunKey
from oneclock.runs.record import RunRecord


def require(package: str) -> None:
    """ImportError with the way on if the package of another tool is missing."""
    if find_spec(package) is None:
        raise ImportError(f"this needs the package {package}: pip install {package}")


def settings_of(key: RunKey) -> dict[str, float]:
    """The settings of a run by name."""
    betas = {"beta": key.tied_beta} if key.is_tied else dict(zip(("beta1", "beta2"), key.betas, strict=True))
    return {**betas, "seed": key.seed, "budget": key.budget} | ({} if key.lr is None else {"lr": key.lr})


class TensorBoard:
    """Writes a folder of events for each run below `folder`: `tensorboard --logdir FOLDER` shows them.

    Losses are in full precision; beta, seed and learning rate are the hyperparameters.

    Args:
        folder: Where the events go.
    """

    def __init__(self, folder: str | Path) -> None:
        require("tensorboard")
        self._folder, self._writers = Path(folder), dict[str, Any]()

    def evaluated(self, key: RunKey, step: int, values: Mapping[str, float], when: float | None = None) -> None:
        """One evaluation of a run."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.plugins.scalar.summary_v2 import scalar_pb
        from tensorboard.util.tensor_util import make_tensor_proto

        when = time.time() if when is None else when
        writer = self._writer(key, when)
        for name, value in values.items():
            summary = scalar_pb(name, 0.0)  # it would have the value in single precision
            summary.value[0].tensor.CopyFrom(make_tensor_proto(np.float64(value)))
            writer.add_event(Event(wall_time=when, step=step, summary=summary))
        writer.flush()

    def ended(self, record: RunRecord) -> None:
        """The end of a run."""
        self._writer(record.key, time.time()).close()
        del self._writers[record.key.folder]

    def _writer(self, key: RunKey, when: float) -> Any:
        if key.folder not in self._writers:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.plugins.hparams.summary_v2 import hparams_pb
            from tensorboard.summary.writer.event_file_writer import EventFileWriter

            self._writers[key.folder] = EventFileWriter(str(self._folder / key.folder))
            settings = hparams_pb(settings_of(key), start_time_secs=when)
            self._writers[key.folder].add_event(Event(wall_time=when, summary=settings))
        return self._writers[key.folder]


class WeightsAndBiases:
    """Logs each run to Weights & Biases, grouped by experiment; WANDB_MODE=offline keeps it on the disk.

    Args:
        project: The project's name.
        folder: Where W&B keeps its files.
        settings: More arguments of `wandb.init`.
    """

    def __init__(self, project: str = "oneclock", folder: str | Path = ".", **settings: Any) -> None:
        require("wandb")
        self._folder, self._settings = Path(folder), {"project": project} | settings
        self._runs: dict[str, Any] = {}

    def evaluated(self, key: RunKey, step: int, values: Mapping[str, float], when: float | None = None) -> None:
        """One evaluation of a run."""
        self._run(key).log(dict(values), step=step)

    def ended(self, record: RunRecord) -> None:
        """The end of a run."""
        run = self._run(record.key)
        run.summary["status"] = record.status
        run.finish(exit_code=0 if record.status == "finished" else 1)
        del self._runs[record.key.folder]

    def _run(self, key: RunKey) -> Any:
        if key.folder not in self._runs:
            import wandb

            self._folder.mkdir(parents=True, exist_ok=True)
            self._runs[key.folder] = wandb.init(
                group=key.experiment,
                name=f"{key.experiment}/{key.folder.partition('/')[2]}",
                config={**settings_of(key), "experiment": key.experiment},
                dir=str(self._folder),
                reinit="create_new",
                **self._settings,
            )
        return self._runs[key.folder]
