"""One run from its settings to its result: trained, resumed, or already finished."""

from __future__ import annotations

import errno
import importlib.util
import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from oneclock.lab import data, models
from oneclock.lab.experiments import recorded
from oneclock.lab.experiments.spec import Experiment
from oneclock.lab.training import checkpoint
from oneclock.lab.training.batches import default_workers
from oneclock.lab.training.environment import trained_on
from oneclock.lab.training.fit import Fit, Options, Progress, restore
from oneclock.lab.training.loop import loop
from oneclock.lab.training.optimizer import Beta, checked, optimizer_for
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey
from oneclock.runs.lock import Claim, Held, held_here
from oneclock.runs.record import RunRecord

if TYPE_CHECKING:
    from accelerate import Accelerator

TRACKERS = {"tensorboard": None, "wandb": "name", "mlflow": "run_name", "trackio": "name"}
"""Trackers that can show a run -> the option that names the run there."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def train(
    experiment: Experiment,
    beta: Beta,
    seed: int,
    path: Path,
    *,
    data_dir: Path | None = None,
    task: data.Task | None = None,
    model: Callable[[], nn.Module] | None = None,
    progress: Progress | None = None,
    stop: Callable[[], bool] | None = None,
    checkpoint_every: int | None = None,
    checkpoint_minutes: float = 10.0,
    log_with: str | None = None,
    workers: int | None = None,
    rate: float | None = None,
) -> RunRecord:
    """Train the run in the folder `path`, continue it, or return its result if it is finished.

    `beta` is one number, or a pair (beta1, beta2) for a baseline. `task` and `model` replace those of the experiment:
    your own data, and a function that builds a model, called after the seed is set. `stop` is called between steps; if
    it returns True, the run is saved and KeyboardInterrupt is raised. `rate` is the factor on the learning rate in a
    sweep over learning rates; the experiment has it already applied.
    """
    identity = identify(experiment, beta, seed, rate)
    path = Path(path)
    with _plain_errors(path, every=True):
        new_folders = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        if (path / "run.json").exists() and (result := RunFolder.start(path, identity).result) is not None:
            with suppress(OSError, Held), _alone(path):  # left by a process that was killed at the very end
                checkpoint.remove(path)
            return result
    with _emptied(new_folders), _alone(path):
        accelerator = accelerator_for(path, log_with)
        content = None
        if task is None:
            passes = experiment.accumulate * accelerator.num_processes
            loaded = data.load_task(replace(experiment, accumulate=passes), data_dir)
            task, content = loaded, loaded.content
        set_seed(seed)
        module = accelerator.prepare_model(model() if model is not None else models.build(experiment.model))
        if workers is None:
            workers = default_workers(experiment, accelerator.device, accelerator.num_processes)
        options = Options(checkpoint_every, checkpoint_minutes, workers, progress, stop)
        environment = trained_on(accelerator.device, accelerator.num_processes, accelerator.mixed_precision)
        if content is not None:
            environment["data"] = content
        with _plain_errors(path), accelerator.main_process_first():
            run = RunFolder.start(path, identity, environment)
        if (result := run.result) is not None:  # another process has finished it just now
            return result
        _refuse_other_data(run, content)
        optimizer = optimizer_for(module, experiment.optimizer, identity.beta)
        fit = Fit(experiment, task, module, optimizer, accelerator, run, options)
        with _plain_errors(path), _trackers(accelerator, identity, log_with):
            return _to_the_end(fit)


def identify(experiment: Experiment, beta: Beta, seed: int, rate: float | None = None) -> RunKey:
    """The key of an experiment's run at a beta and a seed; its `folder` is the run's folder in a study."""
    for name, value in [
        ("budget", experiment.budget),
        ("accumulate", experiment.accumulate),
        ("evaluation.every", experiment.evaluation.every),
    ]:
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    if not 0 <= seed < 2**32:  # NumPy's range
        raise ValueError(f"seed must be a whole number from 0 to {2**32 - 1}, got {seed}")
    return RunKey(experiment.name, checked(beta), seed, experiment.budget, rate, experiment.split, recorded(experiment))


def is_main_process() -> bool:
    """Whether this process writes and prints: the first of several processes, or the only one."""
    from accelerate import PartialState

    return PartialState().is_main_process


def set_seed(seed: int) -> None:
    """Seed every global generator."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - a model may draw from the global generator
    torch.manual_seed(seed)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Claim the run's folder, unless the process that started this one holds it; of several processes the first one
    does.
    """
    if held_here(path) is not None or os.environ.get("RANK", "0") != "0":
        yield
        return
    with _plain_errors(path, every=True):
        claim = Claim.take(path).keep_alive()
    with claim:
        yield


@contextmanager
def _emptied(folders: Sequence[Path]) -> Iterator[None]:
    """Remove the new folders, the innermost first, if the run cannot start, for example because its data are
    missing.
    """
    try:
        yield
    except BaseException:
        with suppress(OSError):  # it is not empty any more
            for folder in folders:
                folder.rmdir()
        raise


def _refuse_other_data(run: RunFolder, content: str | None) -> None:
    """ValueError if the run was begun on other data: its curve would mix both.

    The folder of the data does not matter.
    """
    before = run.environment.get("data")
    if content is not None and before is not None and before != content:
        raise ValueError(
            f"{run.path} was begun on other data ({before}, now {content}); use the same data, or another folder"
        )


def _to_the_end(fit: Fit) -> RunRecord:
    restore(fit)
    ending = loop(fit)
    if ending.kind == "stopped":
        raise KeyboardInterrupt(ending.reason)
    if fit.accelerator.is_main_process:
        fit.run.finish(ending.kind, fit.position.seconds, steps=fit.position.step, reason=ending.reason)
        checkpoint.remove(fit.run.path)
    fit.accelerator.wait_for_everyone()
    result = fit.run.result
    assert result is not None  # the main process has just written it
    return result


def accelerator_for(path: Path, log_with: str | None) -> Accelerator:
    """bf16 autocast where CUDA has it, fp32 elsewhere, as in the paper."""
    try:
        from accelerate import Accelerator, DistributedType, PartialState
        from accelerate.utils import ProjectConfiguration
    except ImportError as error:
        raise ImportError("training needs accelerate: pip install 'oneclock[language,vision]'") from error
    if log_with is not None and log_with not in TRACKERS:
        raise ValueError(f"there is no tracker {log_with!r}; choose among {', '.join(TRACKERS)}")
    if log_with is not None and importlib.util.find_spec(log_with) is None:
        raise ImportError(f"pip install {log_with}")
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    cpu = launched > 1 and not torch.cuda.is_available()  # otherwise accelerate treats each process as the only one
    bf16 = PartialState(cpu=cpu).device.type == "cuda" and torch.cuda.is_bf16_supported()
    accelerator = Accelerator(
        cpu=cpu,
        mixed_precision="bf16" if bf16 else "no",
        log_with=log_with,
        project_config=ProjectConfiguration(project_dir=str(path), logging_dir=str(path / "logs")),
    )
    if accelerator.num_processes != launched:
        raise ValueError(f"{launched} processes were launched, and accelerate sees {accelerator.num_processes}")
    if accelerator.distributed_type not in (DistributedType.NO, *_replicas(DistributedType)):
        raise ValueError(
            f"{accelerator.distributed_type.value} splits the model, and these models need one copy per process: "
            "use `accelerate launch --multi_gpu`, or --cpu"
        )
    return accelerator


def _replicas(kinds: Any) -> list[Any]:
    return [kind for kind in kinds if kind.value.startswith("MULTI_")]


@contextmanager
def _trackers(accelerator: Accelerator, identity: RunKey, log_with: str | None) -> Iterator[None]:
    if log_with is None:
        yield
        return
    name = TRACKERS[log_with]
    run_name = identity.folder.rpartition("/")[2]
    config = dict(_flat({"beta": identity.beta, "seed": identity.seed, **identity.spec}))
    accelerator.init_trackers(identity.experiment, config, {log_with: {name: run_name}} if name else None)
    try:
        yield
    finally:
        for tracker in accelerator.trackers:
            tracker.finish()
        accelerator.trackers = []


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and plain values, as trackers need them."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value if isinstance(value, bool | int | float | str) else str(value)


@contextmanager
def _plain_errors(path: Path, every: bool = False) -> Iterator[None]:
    """Turn a full disk (or `every` refusal to write) into one line that says what to do."""
    try:
        yield
    except OSError as error:
        if not every and error.errno not in _NO_ROOM:
            raise
        if error.errno not in _NO_ROOM:
            raise OSError(f"cannot write the run in {path}: {error.strerror}; choose another folder") from error
        raise OSError(
            f"no room to write the run in {path}: {error.strerror}; free some and start it again: "
            "it continues from its last checkpoint, and its record is intact"
        ) from error
