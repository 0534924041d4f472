"""Evaluations in TensorBoard or Weights & Biases while a sweep runs: observers of `oneclock.run_sweep`.

A sweep calls its observers at every evaluation and at the end of every run, in the sweep's own process. The runs know
nothing of it, so observers never slow down or endanger a run. An export of ended runs uses the same observers, with the
time of each evaluation.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from oneclock.runs.key import RunKey
from oneclock.runs.record import RunRecord


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
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            raise ImportError("this needs TensorBoard: pip install tensorboard") from None
        self._make, self._folder = EventFileWriter, Path(folder)
        self._writers: dict[str, Any] = {}

    def evaluated(self, key: RunKey, step: int, values: Mapping[str, float], when: float | None = None) -> None:
        """One evaluation of a run."""
        when = time.time() if when is None else when
        writer = self._writer(key, when)
        for name, value in values.items():
            writer.add_event(_event(_scalar_summary(name, value), when, step))
        writer.flush()

    def ended(self, record: RunRecord) -> None:
        """The end of a run."""
        self._writer(record.key, time.time()).close()
        del self._writers[record.key.folder]

    def _writer(self, key: RunKey, when: float) -> Any:
        if key.folder not in self._writers:
            from tensorboard.plugins.hparams import summary_v2 as hyperparameters

            self._writers[key.folder] = self._make(str(self._folder / key.folder))
            given = hyperparameters.hparams_pb(settings_of(key), start_time_secs=when)
            self._writers[key.folder].add_event(_event(given, when))
        return self._writers[key.folder]


def _event(summary: Any, when: float, step: int = 0) -> Any:
    from tensorboard.compat.proto.event_pb2 import Event

    return Event(wall_time=when, step=step, summary=summary)


def _scalar_summary(name: str, loss: float) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.scalar import metadata
    from tensorboard.util.tensor_util import make_tensor_proto

    about = metadata.create_summary_metadata(display_name=name, description="")
    value = Summary.Value(tag=name, tensor=make_tensor_proto(np.float64(loss)), metadata=about)
    return Summary(value=[value])


class WeightsAndBiases:
    """Logs each run to Weights & Biases, grouped by experiment; WANDB_MODE=offline keeps it on the disk.

    Args:
        project: The project's name.
        folder: Where W&B keeps its files.
        settings: More arguments of `wandb.init`.
    """

    def __init__(self, project: str = "oneclock", folder: str | Path = ".", **settings: Any) -> None:
        try:
            import wandb
        except ImportError:
            raise ImportError("this needs Weights & Biases: pip install wandb") from None
        self._init, self._folder, self._settings = wandb.init, Path(folder), {"project": project} | settings
        self._runs: dict[str, Any] = {}

    def evaluated(self, key: RunKey, step: int, values: Mapping[str, float], when: float | None = None) -> None:
        """One evaluation of a run."""
        self._run(key).log(dict(values), step=step)

    def ended(self, record: RunRecord) -> None:
        """The end of a run."""
        run = self._run(record.key)
        del self._runs[record.key.folder]
        run.summary["status"] = record.status
        run.finish(exit_code=0 if record.status == "finished" else 1)

    def _run(self, key: RunKey) -> Any:
        if key.folder not in self._runs:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._runs[key.folder] = self._init(
                group=key.experiment,
                name=f"{key.experiment}/{key.folder.partition('/')[2]}",
                config={**settings_of(key), "experiment": key.experiment},
                dir=str(self._folder),
                reinit="create_new",
                **self._settings,
            )
        return self._runs[key.folder]
