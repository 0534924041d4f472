"""Evaluations in TensorBoard or Weights & Biases while a sweep runs: observers of `oneclock.run_sweep`.

A sweep calls its observers at every evaluation and at the end of every run, in the sweep's own process. The runs know
nothing of it, so observers never slow down or endanger a run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oneclock.export.to_tensorboard import event, scalar_summary
from oneclock.runs.key import RunKey
from oneclock.runs.record import RunRecord


class TensorBoard:
    """Writes a folder of events for each run below `folder`: `tensorboard --logdir FOLDER` shows them.

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

    def evaluated(self, key: RunKey, step: int, values: Mapping[str, float]) -> None:
        """One evaluation of a run."""
        if key.folder not in self._writers:
            self._writers[key.folder] = self._make(str(self._folder / key.folder))
        for name, value in values.items():
            self._writers[key.folder].add_event(event(scalar_summary(name, value), time.time(), step))
        self._writers[key.folder].flush()

    def ended(self, record: RunRecord) -> None:
        """The end of a run."""
        if (writer := self._writers.pop(record.key.folder, None)) is not None:
            writer.close()


class WeightsAndBiases:
    """Logs each run to Weights & Biases, grouped by experiment; WANDB_MODE=offline keeps it on the disk.

    Args:
        project: The project's name.
        folder: Where W&B keeps its files.
    """

    def __init__(self, project: str = "oneclock", folder: str | Path = ".") -> None:
        try:
            import wandb
        except ImportError:
            raise ImportError("this needs Weights & Biases: pip install wandb") from None
        self._init, self._project, self._folder = wandb.init, project, Path(folder)
        self._runs: dict[str, Any] = {}

    def evaluated(self, key: RunKey, step: int, values: Mapping[str, float]) -> None:
        """One evaluation of a run."""
        if key.folder not in self._runs:
            self._folder.mkdir(parents=True, exist_ok=True)
            config = {"experiment": key.experiment, "beta": key.beta, "seed": key.seed, "lr": key.lr}
            self._runs[key.folder] = self._init(
                project=self._project,
                group=key.experiment,
                name=key.folder,
                config=config,
                dir=str(self._folder),
                reinit="create_new",
            )
        self._runs[key.folder].log(dict(values), step=step)

    def ended(self, record: RunRecord) -> None:
        """The end of a run."""
        if (run := self._runs.pop(record.key.folder, None)) is not None:
            run.summary["status"] = record.status
            run.finish(exit_code=0 if record.status == "finished" else 1)
