"""Optuna: one storage, a study for each experiment, a trial for each run; its evaluations are intermediate values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from oneclock.export.runs import Exported, is_well


def write(runs: Sequence[Exported], out: Path) -> str:
    """The storage `optuna.db` below `out`; a run that diverged or failed is a trial that failed."""
    import optuna
    from optuna.distributions import FloatDistribution, IntDistribution

    address = f"sqlite:///{out / 'optuna.db'}"
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    lengths = {"beta": 1.0, "beta1": 1.0, "beta2": 1.0, "lr": max(run.given.get("lr", 1.0) for run in runs)}
    most = max(int(run.given["seed"]) for run in runs)
    experiments = list(dict.fromkeys(run.experiment for run in runs))
    for experiment in experiments:
        study = optuna.create_study(storage=address, study_name=experiment, direction="minimize")
        for run in (run for run in runs if run.experiment == experiment):
            params = {name: value for name, value in run.given.items() if name in lengths}
            axes = {name: FloatDistribution(0.0, lengths[name]) for name in params} | {"seed": IntDistribution(0, most)}
            losses = {point.step: loss for point in run.points if (loss := _finite(point.val_loss)) is not None}
            study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState.COMPLETE if is_well(run) else optuna.trial.TrialState.FAIL,
                    value=run.result.best_loss if is_well(run) else None,
                    params=params | {"seed": int(run.given["seed"])},
                    distributions=axes,
                    intermediate_values=losses,
                    user_attrs={"run": run.name, "budget": run.given["budget"], "status": run.result.status},
                )
            )
    name = repr(experiments[0]) if len(experiments) == 1 else ".."
    return f"optuna.load_study(study_name={name}, storage={address!r})"


def _finite(loss: float | None) -> float | None:
    return loss if loss is not None and math.isfinite(loss) else None
