"""Where a run was made, for its record: versions and commit. No paths, no host names: records are for sharing."""

from __future__ import annotations

import platform
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("oneclock", "torch", "accelerate", "numpy", "transformers", "tokenizers", "datasets", "torchvision")


def environment(packages: tuple[str, ...] = PACKAGES, folder: Path | None = None) -> dict[str, Any]:
    """Python, system, versions of the packages that are there, and the commit of `folder` (the working one).

    >>> sorted(environment())
    ['commit', 'python', 'system', 'versions']
    """
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {name: version for name in packages if (version := _version(name)) is not None},
        "commit": commit_of(folder),
    }


def commit_of(folder: Path | None = None) -> str | None:
    """The commit of a folder, with `+` where files differ from it; None outside of git."""
    head = _git(folder, "rev-parse", "HEAD")
    return head and head + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _git(folder: Path | None, *arguments: str) -> str | None:
    """What git says, asked so that it locks nothing: killed on its way, it would leave a lock in the repository."""
    git = shutil.which("git")
    if git is None:
        return None
    try:
        done = subprocess.run(
            [git, "--no-optional-locks", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
