"""Workers on Kubernetes and SkyPilot: a manifest that starts `oneclock work` on a shared volume.

Workers need only the study's folder. So an engine needs only a manifest: an image with oneclock, a volume with the
folder, and the number of workers. It is written below the study's folder, and handed to `kubectl` or `sky` where that
is installed.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

GRACE = 30
"""Seconds between the request to stop and the kill: runs save what they can in this time."""

RESTARTS = 20
"""How often Kubernetes restarts a worker that died. Evictions do not count."""


@dataclass(frozen=True)
class Workers:
    """The workers that a cluster starts.

    Args:
        engine: `kubernetes` or `skypilot`.
        image: A container image with oneclock and your code in it. SkyPilot needs none.
        volume: `NAME:/path`: the volume (on Kubernetes a claim that several pods may write to) and where it is mounted.
            The study's folder lies below that path, here and there.
        count: How many workers share the runs.
        cpus: Cores of one worker.
        memory: Memory of one worker, as the engine writes it: `16Gi` on Kubernetes, `16` (GB) on SkyPilot.
        gpus: GPUs of one worker: a number on Kubernetes, `H100:1` on SkyPilot.
        namespace: The Kubernetes namespace.
        options: More options of `oneclock work`, such as `("--jobs", "2")`.
    """

    engine: Literal["kubernetes", "skypilot"]
    volume: str
    image: str | None = None
    count: int = 1
    cpus: float = 1
    memory: str | None = None
    gpus: str | None = None
    namespace: str | None = None
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

    @property
    def mount(self) -> tuple[str, PurePosixPath]:
        """The volume's name and the path at which it is mounted."""
        name, _, path = self.volume.partition(":")
        return name, PurePosixPath(path)


def manifest(study: Path, workers: Workers) -> str:
    """The manifest, as JSON, which is YAML too.

    >>> text = manifest(Path("/mnt/shared/s1"), Workers("skypilot", "shared:/mnt/shared", count=4, gpus="H100:1"))
    >>> json.loads(text)["num_nodes"]
    4
    """
    folder = PurePosixPath(study.absolute().as_posix())
    if not folder.is_relative_to(workers.mount[1]):
        raise ValueError(
            f"the study lies at {folder}, outside the volume at {workers.mount[1]}: "
            "mount the volume at the same path here and make the study below it"
        )
    content = _job(folder, workers) if workers.engine == "kubernetes" else _task(folder, workers)
    return json.dumps(content, indent=2) + "\n"


def submit(study: Path, workers: Workers) -> tuple[Path, str | None]:
    """Write the manifest below the study's folder, and hand it to the engine's client where there is one.

    Returns:
        The manifest's path, and what the client printed; None if the client is not installed.
    """
    text = manifest(study, workers)
    path = study / workers.engine / "workers.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    line = apply_line(path, study, workers)
    if shutil.which(line[0]) is None:
        return path, None
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{line[0]} failed: {' '.join(done.stderr.split()) or f'exit code {done.returncode}'}")
    return path, done.stdout.strip()


def apply_line(path: Path, study: Path, workers: Workers) -> list[str]:
    """The command that starts the workers of a manifest."""
    if workers.engine == "kubernetes":
        return ["kubectl", "apply", "-f", str(path)]
    return ["sky", "launch", "--yes", "--detach-run", "--cluster", _name(study.name), str(path)]


def _job(folder: PurePosixPath, workers: Workers) -> dict[str, Any]:
    """A Job with one index per worker. A worker ends with 0 when the study is done; an eviction is no failure."""
    volume, mount = workers.mount
    limits = {"memory": workers.memory, "nvidia.com/gpu": workers.gpus}
    given = {name: value for name, value in limits.items() if value is not None}
    container = {
        "name": "worker",
        "image": workers.image,
        "command": ["oneclock", "work", str(folder), *workers.options],
        "env": [{"name": "PYTHONUNBUFFERED", "value": "1"}],
        "resources": {"requests": {"cpu": f"{workers.cpus:g}", **given}, "limits": given},
        "volumeMounts": [{"name": "study", "mountPath": str(mount)}],
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE,
        "containers": [container],
        "volumes": [{"name": "study", "persistentVolumeClaim": {"claimName": volume}}],
    }
    namespace = {} if workers.namespace is None else {"namespace": workers.namespace}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": _name(folder.name), **namespace, "labels": {"app": "oneclock"}},
        "spec": {
            "completionMode": "Indexed",
            "completions": workers.count,
            "parallelism": workers.count,
            "backoffLimitPerIndex": RESTARTS,
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
            },
            "template": {"metadata": {"labels": {"app": "oneclock"}}, "spec": pod},
        },
    }


def _task(folder: PurePosixPath, workers: Workers) -> dict[str, Any]:
    """A task whose nodes are the workers. SkyPilot copies the current folder, which holds the code, to them."""
    volume, mount = workers.mount
    asked = {"cpus": f"{workers.cpus:g}+", "memory": workers.memory, "accelerators": workers.gpus}
    asked["image_id"] = None if workers.image is None else f"docker:{workers.image}"
    return {
        "name": _name(folder.name),
        "num_nodes": workers.count,
        "resources": {name: value for name, value in asked.items() if value is not None},
        "volumes": {str(mount): volume},
        "workdir": str(Path.cwd()),
        "run": shlex.join(["oneclock", "work", str(folder), *workers.options]),
    }


def _name(study: str) -> str:
    """A name that both engines take: letters, digits and dashes, at most 50 of them.

    >>> _name("My study_1!")
    'oneclock-my-study-1'
    """
    plain = re.sub(r"[^a-z0-9]+", "-", study.lower()).strip("-")
    return f"oneclock-{plain or 'study'}"[:50].rstrip("-")
