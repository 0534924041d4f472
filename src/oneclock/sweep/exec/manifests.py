"""Workers on Kubernetes and SkyPilot: a manifest that starts `oneclock work` on a shared volume.

Workers need only the study's folder: an image with oneclock, a volume with the folder, and the number of workers.
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


@dataclass(frozen=True)
class Workers:
    """The workers that a cluster starts; sizes are those of one worker, as the engine writes them."""

    engine: Literal["kubernetes", "skypilot"]
    volume: str  # NAME:/path, a volume that several pods may write to; the study lies below the path, here and there
    image: str | None = None  # with oneclock and your code in it; SkyPilot needs none
    count: int = 1
    cpus: float = 1
    memory: str | None = None  # 16Gi on Kubernetes, 16 (GB) on SkyPilot
    gpus: str | None = None  # a number on Kubernetes, H100:1 on SkyPilot
    options: tuple[str, ...] = ()  # of `oneclock work`, such as ("--jobs", "2")

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
    folder = PurePosixPath(study.absolute().as_posix())
    volume, _, mount = workers.volume.partition(":")
    if not folder.is_relative_to(mount):
        way = "mount the volume at the same path here and make the study below it"
        raise ValueError(f"the study lies at {folder}, outside the volume at {mount}: {way}")
    name, line = _name(folder.name), ["oneclock", "work", str(folder), *workers.options]
    content = (_job if workers.engine == "kubernetes" else _task)(name, line, volume, mount, workers)
    return json.dumps(content, indent=2) + "\n"


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


def _job(name: str, line: Sequence[str], volume: str, mount: str, workers: Workers) -> dict[str, Any]:
    """A Job with one index per worker. A worker ends with 0 when the study is done; an eviction is no failure."""
    limits = _given({"memory": workers.memory, "nvidia.com/gpu": workers.gpus})
    container = {
        "name": "worker",
        "image": workers.image,
        "command": line,
        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}],
        "resources": {"requests": {"cpu": f"{workers.cpus:g}", **limits}, "limits": limits},
        "volumeMounts": [{"name": "study", "mountPath": mount}],
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 30,  # for runs to save what they can
        "containers": [container],
        "volumes": [{"name": "study", "persistentVolumeClaim": {"claimName": volume}}],
    }
    eviction = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    labels = {"labels": {"app": "oneclock"}}
    spec = {
        "completionMode": "Indexed",
        "completions": workers.count,
        "parallelism": workers.count,
        "backoffLimitPerIndex": 20,  # restarts of a worker that died, without evictions
        "podFailurePolicy": {"rules": [eviction]},
        "template": {"metadata": labels, "spec": pod},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, **labels}, "spec": spec}


def _task(name: str, line: Sequence[str], volume: str, mount: str, workers: Workers) -> dict[str, Any]:
    """A task whose nodes are the workers. SkyPilot copies the current folder, which holds the code, to them."""
    image = workers.image and f"docker:{workers.image}"
    asked = {"cpus": f"{workers.cpus:g}+", "memory": workers.memory, "accelerators": workers.gpus, "image_id": image}
    return {
        "name": name,
        "num_nodes": workers.count,
        "resources": _given(asked),
        "volumes": {mount: volume},
        "workdir": str(Path.cwd()),
        "run": shlex.join(line),
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
