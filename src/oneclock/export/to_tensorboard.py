"""TensorBoard: a folder of events for each run, losses in full precision, beta and seed as its hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oneclock.export.runs import Exported
from oneclock.runs.key import safe_name


def write(runs: Sequence[Exported], out: Path) -> str:
    """One folder EXPERIMENT/RUN below `out` for each run."""
    from tensorboard.plugins.hparams import summary_v2 as hyperparameters
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    for run in runs:
        writer = EventFileWriter(str(out / safe_name(run.experiment) / run.name))
        writer.add_event(event(hyperparameters.hparams_pb(run.given, start_time_secs=run.time_of(0)), run.time_of(0)))
        for point in run.points:
            for name, loss in run.losses(point).items():
                writer.add_event(event(scalar_summary(name, loss), run.time_of(point.step), point.step))
        writer.close()
    return f"tensorboard --logdir {out}"


def event(summary: Any, when: float, step: int = 0) -> Any:
    """One event of an event file."""
    from tensorboard.compat.proto.event_pb2 import Event

    return Event(wall_time=when, step=step, summary=summary)


def scalar_summary(name: str, loss: float) -> Any:
    """A scalar in full precision."""
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.scalar import metadata
    from tensorboard.util.tensor_util import make_tensor_proto

    about = metadata.create_summary_metadata(display_name=name, description="")
    value = Summary.Value(tag=name, tensor=make_tensor_proto(np.float64(loss)), metadata=about)
    return Summary(value=[value])
