"""Workers on Kubernetes and SkyPilot: a manifest that starts `oneclock work` on a shared volume.

Workers need only the study's folder: an image with oneclock, a volume with the folder, and the number of workers.
`kubectl` or `sky` starts them where it is installed.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from oneclock.runs.files import write_aside

GRACE = 30
"""Seconds between the request to stop and the kill: runs save what they can in this time."""

RESTARTS = 20
"""How often Kubernetes restarts a worker that died. Evictions do not count."""


@dataclass(frozen=True)
class Workers:
    """The workers that a cluster starts.

    Args:
        engine: `kubernetes` or `skypilot`.
        volume: `NAME:/path`: the volume (on Kubernetes a claim that several pods may write to) and where it is mounted.
            The study's folder lies below that path, here and there.
        image: A container image with oneclock and your code in it. SkyPilot needs none.
        count: How many workers share the runs.
        cpus: Cores of one worker.
        memory: Memory of one worker, as the engine writes it: `16Gi` on Kubernetes, `16` (GB) on SkyPilot.
        gpus: GPUs of one worker: a number on Kubernetes, `H100:1` on SkyPilot.
        options: More options of `oneclock work`, such as `("--jobs", "2")`.
    """

    engine: Literal["kubernetes", "skypilot"]
    volume: str
    image: str | None = None
    count: int = 1
    cpus: float = 1
    memory: str | None = None
    gpus: str | None = None
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?:/[^\n:]*", self.volume):
            raise ValueError(f"a volume is NAME:/path, for example shared:/mnt/shared; got {self.volume!r}")
        if self.count < 1:
            raise ValueError(f"at least one worker is needed, got {self.count}")
        if self.engine == "kubernetes" and self.image is None:
            raise ValueError("Kubernetes needs a container image with oneclock and your code in it: give --image")
        if self.engine == "kubernetes" and self.gpus is not None and not self.gpus.isdigit():
            raise ValueError(f"on Kubernetes gpus is a number, got {self.gpus!r}")


def manifest(study: Path, workers: Workers) -> str:
    """The manifest, as JSON, which is YAML too; ValueError if the study lies outside the volume.

    >>> text = manifest(Path("/mnt/shared/s1"), Workers("skypilot", "shared:/mnt/shared", count=4, gpus="H100:1"))
    >>> json.loads(text)["num_nodes"]
    4
    """
    folder, mount = PurePosixPath(study.absolute().as_posix()), workers.volume.partition(":")[2]
    if not folder.is_relative_to(mount):
        raise ValueError(
            f"the study lies at {folder}, outside the volume at {mount}: "
            "mount the volume at the same path here and make the study below it"
        )
    content = _job if workers.engine == "kubernetes" else _task
    return json.dumps(content(folder, workers), indent=2) + "\n"


def write(study: Path, workers: Workers) -> list[str]:
    """Write the manifest below the study's folder; returns the command that starts its workers."""
    text, path = manifest(study, workers), study / workers.engine / "workers.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_aside(path, text)
    if workers.engine == "kubernetes":
        return ["kubectl", "apply", "-f", str(path)]
    return ["sky", "launch", "--yes", "--detach-run", "--cluster", _name(study.name), str(path)]


def start(line: Sequence[str]) -> str | None:
    """Start the workers, and return what the engine's client printed; None where the client is not installed."""
    if shutil.which(line[0]) is None:
        return None
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{line[0]} failed: {' '.join(done.stderr.split()) or f'exit code {done.returncode}'}")
    return done.stdout.strip()


def _job(folder: PurePosixPath, workers: Workers) -> dict[str, Any]:
    """A Job with one index per worker. A worker ends with 0 when the study is done; an eviction is no failure."""
    volume, _, mount = workers.volume.partition(":")
    limits = _given({"memory": workers.memory, "nvidia.com/gpu": workers.gpus})
    container = {
        "name": "worker",
        "image": workers.image,
        "command": ["oneclock", "work", str(folder), *workers.options],
        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}],
        "resources": {"requests": {"cpu": f"{workers.cpus:g}", **limits}, "limits": limits},
        "volumeMounts": [{"name": "study", "mountPath": mount}],
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE,
        "containers": [container],
        "volumes": [{"name": "study", "persistentVolumeClaim": {"claimName": volume}}],
    }
    eviction = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": _name(folder.name), "labels": {"app": "oneclock"}},
        "spec": {
            "completionMode": "Indexed",
            "completions": workers.count,
            "parallelism": workers.count,
            "backoffLimitPerIndex": RESTARTS,
            "podFailurePolicy": {"rules": [eviction]},
            "template": {"metadata": {"labels": {"app": "oneclock"}}, "spec": pod},
        },
    }


def _task(folder: PurePosixPath, workers: Workers) -> dict[str, Any]:
    """A task whose nodes are the workers. SkyPilot copies the current folder, which holds the code, to them."""
    volume, _, mount = workers.volume.partition(":")
    image = workers.image and f"docker:{workers.image}"
    asked = {"cpus": f"{workers.cpus:g}+", "memory": workers.memory, "accelerators": workers.gpus, "image_id": image}
    return {
        "name": _name(folder.name),
        "num_nodes": workers.count,
        "resources": _given(asked),
        "volumes": {mount: volume},
        "workdir": str(Path.cwd()),
        "run": shlex.join(["oneclock", "work", str(folder), *workers.options]),
    }


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _name(study: str) -> str:
    """A name that both engines take: letters, digits and dashes, at most 50 of them.

    >>> _name("My study_1!")
    'oneclock-my-study-1'
    """
    plain = re.sub(r"[^a-z0-9]+", "-", study.lower()).strip("-")
    return f"oneclock-{plain or 'study'}"[:50].rstrip("-")
