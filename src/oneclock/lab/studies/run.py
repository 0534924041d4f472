"""Run the rest of a study, ensemble by ensemble, and write a record of every run, as a sweep does.

    OUT/runs/EXPERIMENT/RUN/      records of finished runs
    OUT/ensembles/KEY.pt          the checkpoint of an ensemble under way

A run is done when its record is finished. A killed process goes on from the last checkpoint when the same command is
given again; a finished run is never repeated.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

from oneclock.lab.studies.adapters import Weights, kept
from oneclock.lab.studies.designs import Condition
from oneclock.lab.studies.ensemble import FLOOR, WARMUP, Arm, Ensemble, Member, Setting
from oneclock.lab.studies.models import Llama
from oneclock.lab.studies.tasks import TextTask, task_as_data
from oneclock.lab.training.environment import trained_on
from oneclock.runs.folder import Point, RunFolder
from oneclock.runs.key import RunKey, hash_of
from oneclock.runs.record import has_diverged

COMPILE_FROM = 40_000
"""From this many member steps on, Llama is compiled: that takes half a minute per shape and saves a quarter per
step.
"""

MOST = 64
"""Members of one ensemble at most: more are not faster per member."""


@dataclass(frozen=True)
class Planned:
    """One run of a study: its key, and the member that trains it."""

    key: RunKey
    setting: Setting
    member: Member


def planned(conditions: Sequence[Condition]) -> list[Planned]:
    """Every run of a study."""
    return [
        Planned(_key(condition, rate, member), condition.setting, member)
        for condition in conditions
        for rate, member in condition.members()
    ]


def jobs(runs: Sequence[Planned], most: int = MOST) -> list[list[Planned]]:
    """Ensembles: runs that share a setting and a source of data, at most so many at once. Cheap ones first."""
    groups: dict[tuple[Setting, str], list[Planned]] = {}
    for run in runs:
        groups.setdefault((run.setting, run.member.task.source), []).append(run)
    ensembles = []
    for group in groups.values():
        size = math.ceil(len(group) / math.ceil(len(group) / most))
        ensembles += [group[start : start + size] for start in range(0, len(group), size)]
    return sorted(ensembles, key=cost)


def cost(job: Sequence[Planned]) -> float:
    """About how much arithmetic an ensemble takes: steps, members, values per batch and weights, multiplied."""
    setting, task = job[0].setting, job[0].member.task
    weights = sum(value.numel() for value in setting.model.initial(torch.Generator()).values())
    return setting.steps * len(job) * setting.batch * getattr(task, "length", 1) * weights


def run_study(
    conditions: Sequence[Condition],
    out: Path,
    part: int = 0,
    parts: int = 1,
    most: int = MOST,
    dearest: float = math.inf,
) -> None:
    """Do what is left of a study, or of one of `parts` shares of it that run side by side.

    Ensembles that cost more than `dearest` are left for later.
    """
    for number, job in enumerate(jobs(planned(conditions), most)):
        if number % parts == part and cost(job) <= dearest:
            run_job(job, out)


def run_job(job: Sequence[Planned], out: Path) -> None:
    """Train what is left of one ensemble and record it."""
    checkpoint = out / "ensembles" / f"{hash_of([run.key.hash for run in job])}.pt"
    left = [run for run in job if not is_done(out, run)]
    if left and not checkpoint.exists() and len(left) < len(job):
        return run_job(left, out)
    if left:
        setting = job[0].setting
        adapter = None if setting.start is None else setting.start.adapter(setting.model, pretrained(setting, out))
        compiled = isinstance(setting.model, Llama) and setting.steps * len(job) >= COMPILE_FROM
        state = Ensemble(setting, [run.member for run in job], checkpoint, adapter, compiled).run()
        for run, curve in zip(job, state.curves, strict=True):
            if not is_done(out, run):
                record(out, run, curve, state.seconds / len(job))
        print(f"{job[0].key.experiment} and {len(job) - 1} more: {state.seconds:.0f} s", flush=True)
    checkpoint.unlink(missing_ok=True)
    return None


def pretrained(setting: Setting, out: Path) -> Weights:
    """The weights that a setting starts from: trained once per study, with seed 0, and kept in its folder."""
    start = setting.start
    assert start is not None
    kind = f"{type(setting.model).__name__.lower()}-{start.source}-{start.steps}"
    weights = kept(out / "pretrained" / f"{kind}.pt")
    if weights is None:
        member = Member(TextTask(start.source), Arm(0.9, 0.95), start.lr, 0)
        before = Setting(setting.model, start.steps, setting.batch)
        state = Ensemble(before, [member], out / "ensembles" / f"{kind}-{os.getpid()}.pt").run()
        weights = kept(out / "pretrained" / f"{kind}.pt", {name: p.detach()[0] for name, p in state.parameters.items()})
        print(f"pretrained {kind}: {state.curves[0][-1][1]:.4f}", flush=True)
        (out / "ensembles" / f"{kind}-{os.getpid()}.pt").unlink()
    assert weights is not None
    return weights


def is_done(out: Path, run: Planned) -> bool:
    """Whether the record of a run is finished."""
    return (out / "runs" / run.key.folder / "result.json").exists()


def record(out: Path, run: Planned, curve: Sequence[tuple[int, float, float]], seconds: float) -> None:
    """Write the record of a run that has ended; a last loss that is not finite makes it diverged."""
    folder = RunFolder.start(out / "runs" / run.key.folder, run.key, _environment())
    folder.replace([Point(step, _short(loss), _short(train)) for step, loss, train in curve])
    diverged = has_diverged([loss for _, loss, _ in curve])
    folder.finish("diverged" if diverged else "finished", seconds, run.setting.steps)


@cache
def _environment() -> dict[str, Any]:
    """The environment of this process; looked up once, since that starts other programs."""
    return trained_on(torch.device("cpu"))


def _short(loss: float) -> float:
    """Seven digits, the precision of a float32."""
    return float(f"{loss:.7g}")


def _key(condition: Condition, rate: float, member: Member) -> RunKey:
    arm, setting = member.arm, condition.setting
    name = condition.name + ("-growing" if arm.growing else "")
    last = round(arm.at(setting.steps)[0], 5)
    beta = last if arm.growing or arm.beta1 == arm.beta2 else (arm.beta1, arm.beta2)
    return RunKey(name, beta, member.seed, setting.steps, rate, condition.split, _spec(condition, member))


def _spec(condition: Condition, member: Member) -> dict[str, Any]:
    """Every setting as plain data."""
    setting = condition.setting
    spec = {
        "title": condition.title,
        "model": {"kind": type(setting.model).__name__.lower()} | asdict(setting.model),
        "data": task_as_data(member.task),
        "optimizer": {"name": "adamw", "lr": member.lr, "weight_decay": member.weight_decay, "decay": "weights"},
        "schedule": {"kind": setting.schedule, "warmup_share": WARMUP}
        | ({"floor": FLOOR} if setting.schedule == "cosine" else {}),
        "evaluation": {"count": setting.evaluations},
        "batch_size": setting.batch,
    }
    if setting.start is not None:
        spec["start"] = asdict(setting.start)
    return spec | ({"beta_of_step": "sqrt(t) / (sqrt(t) + 4.5)"} if member.arm.growing else {})
