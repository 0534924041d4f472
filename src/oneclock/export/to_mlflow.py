"""MLflow: one database, an experiment for each of the study's, a run for each run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from oneclock.export.runs import Exported

_MOST = 1000
"""Metrics that MLflow takes at once."""

_ENDS = {"finished": "FINISHED", "diverged": "FAILED", "failed": "FAILED"}


def write(runs: Sequence[Exported], out: Path) -> str:
    """The database `mlflow.db` below `out`."""
    from mlflow.entities import Metric, Param, RunTag
    from mlflow.tracking import MlflowClient

    address = f"sqlite:///{(out / 'mlflow.db').absolute()}"
    client, experiments = MlflowClient(address), dict[str, str]()
    for run in runs:
        if run.experiment not in experiments:
            artifacts = (out / "artifacts").absolute().as_uri()
            experiments[run.experiment] = client.create_experiment(run.experiment, artifacts)
        begun = round(1000 * run.time_of(0))
        made = client.create_run(experiments[run.experiment], start_time=begun, run_name=run.name).info.run_id
        tags = {"status": run.result.status} | ({"reason": run.result.reason} if run.result.reason else {})
        metrics = [
            Metric(name, loss, round(1000 * run.time_of(point.step)), point.step)
            for point in run.points
            for name, loss in run.losses(point).items()
        ]
        params = [Param(name, repr(value)) for name, value in run.given.items()]
        client.log_batch(made, params=params, tags=[RunTag(name, tag) for name, tag in tags.items()])
        for start in range(0, len(metrics), _MOST):
            client.log_batch(made, metrics=metrics[start : start + _MOST])
        client.set_terminated(made, _ENDS[run.result.status], round(1000 * run.ended))
    return f"mlflow ui --backend-store-uri {address}"
