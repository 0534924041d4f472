"""From a study's folder to another tool's files, and how to look at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from oneclock.export.live import TensorBoard, WeightsAndBiases, require, settings_of
from oneclock.runs.folder import RunFolder, runs_of
from oneclock.runs.record import RunRecord
from oneclock.runs.store import Study


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended. `points` are its evaluations: step, losses by name, and the approximate time."""

    result: RunRecord
    began: float  # seconds since 1970
    ended: float
    points: list[tuple[int, dict[str, float], float]]


def export(study: str | Path, to: str, out: str | Path) -> tuple[int, str]:
    """Write the ended runs of a study into the new folder `out`; returns how many, and how to look at them.

    ValueError if no run has ended, or the folder exists already; ImportError if the package `to` is not installed.

    >>> export("study", "paper", "there")
    Traceback (most recent call last):
    ValueError: runs cannot be exported to 'paper'; choose among tensorboard, mlflow, wandb
    """
    if to not in FORMATS:
        raise ValueError(f"runs cannot be exported to {to!r}; choose among {', '.join(FORMATS)}")
    require(to)
    out = Path(out)
    if out.exists():
        raise ValueError(f"{out} exists already; give a new folder")
    path = Study.open(study).path
    runs = [_ended(run, result) for run in runs_of(path) if (result := run.result) is not None]
    if not runs:
        raise ValueError(f"no run of {study} has ended, so there is nothing to export")
    out.mkdir(parents=True)
    return len(runs), FORMATS[to](runs, out)


def _ended(run: RunFolder, result: RunRecord) -> EndedRun:
    ended = next(path for path in (run.path / "result.json", *run.path.parents) if path.exists()).stat().st_mtime
    began, points = ended - (result.seconds or 0.0), []
    for point in run.whole()[1]:
        losses = {"val_loss": point.val_loss, "train_loss": point.train_loss}  # NaN if it was not finite
        share = min(point.step / result.steps, 1.0) if result.steps else 1.0
        named = {name: loss for name, loss in losses.items() if loss is not None}
        points.append((point.step, named, began + share * (ended - began)))
    return EndedRun(result, began, ended, points)


def _replay(runs: Sequence[EndedRun], observer: TensorBoard | WeightsAndBiases) -> None:
    for run in runs:
        for step, losses, when in run.points:
            observer.evaluated(run.result.key, step, losses, when)
        observer.ended(run.result)


def _to_tensorboard(runs: Sequence[EndedRun], out: Path) -> str:
    _replay(runs, TensorBoard(out))
    return f"tensorboard --logdir {out}"


def _to_wandb(runs: Sequence[EndedRun], out: Path) -> str:
    """Offline runs below `out`/wandb. Nothing is sent; `wandb sync` does that."""
    import wandb

    quiet = {"silent": True, "console": "off", "x_disable_stats": True}
    # W&B would record the machine and packages of the export; the runs were made earlier, perhaps elsewhere.
    settings = wandb.Settings(**quiet, x_disable_meta=True, x_save_requirements=False, disable_git=True)
    _replay(runs, WeightsAndBiases(folder=out, mode="offline", settings=settings))
    wandb.teardown()  # waits for W&B's writing process: only then is the run on disk
    return f"wandb sync {out}/wandb/offline-*"


def _to_mlflow(runs: Sequence[EndedRun], out: Path) -> str:
    """The database `mlflow.db` below `out`: an experiment for each of the study's, a run for each run."""
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.tracking import MlflowClient

    address = f"sqlite:///{(out / 'mlflow.db').absolute()}"
    client, experiments = MlflowClient(address), dict[str, str]()
    for run in runs:
        key, status = run.result.key, run.result.status
        if key.experiment not in experiments:
            artifacts = (out / "artifacts").absolute().as_uri()
            experiments[key.experiment] = client.create_experiment(key.experiment, artifacts)
        begun, name = round(1000 * run.began), key.folder.partition("/")[2]
        made = client.create_run(experiments[key.experiment], start_time=begun, run_name=name).info.run_id
        tags = {"status": status} | ({"reason": run.result.reason} if run.result.reason else {})
        metrics = [
            Metric(name, loss, round(1000 * when), step)
            for step, losses, when in run.points
            for name, loss in losses.items()
        ]
        params = [Param(name, repr(value)) for name, value in settings_of(key).items()]
        client.log_batch(made, params=params, tags=[RunTag(name, tag) for name, tag in tags.items()])
        for start in range(0, len(metrics), 1000):  # MLflow takes no more at once
            client.log_batch(made, metrics=metrics[start : start + 1000])
        client.set_terminated(made, "FINISHED" if status == "finished" else "FAILED", round(1000 * run.ended))
    return f"mlflow ui --backend-store-uri {address}"


FORMATS: dict[str, Callable[[Sequence[EndedRun], Path], str]] = {
    "tensorboard": _to_tensorboard,
    "mlflow": _to_mlflow,
    "wandb": _to_wandb,
}
"""The packages that write runs -> the function that does it, and returns how to look at them."""
