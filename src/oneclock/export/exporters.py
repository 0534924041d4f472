"""From a study's folder to another tool's files: which writer, and how to look at them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from oneclock.export.runs import Exported, ended_runs

FORMATS = ("tensorboard", "mlflow", "wandb", "optuna")
"""The formats of runs, and the packages that write them."""

Writer = Callable[[Sequence[Exported], Path], str]
"""Writes runs into a new folder, and returns how to look at them."""


def export(study: str | Path, to: str, out: str | Path) -> tuple[int, str]:
    """Write the runs of a study that have ended into the new folder `out`.

    Args:
        study: The study's folder.
        to: `tensorboard`, `mlflow`, `wandb` (offline) or `optuna`.
        out: A folder that does not exist yet.

    Returns:
        How many runs were written, and how to look at them.

    Raises:
        ValueError: If the format is unknown, no run has ended, or the folder exists already.
        ImportError: If the format's package is not installed.

    >>> export("study", "paper", "there")
    Traceback (most recent call last):
    ValueError: runs cannot be exported to 'paper'; choose among tensorboard, mlflow, wandb, optuna
    """
    if to not in FORMATS:
        raise ValueError(f"runs cannot be exported to {to!r}; choose among {', '.join(FORMATS)}")
    if find_spec(to) is None:
        raise ImportError(f"an export to {to} needs its package: pip install {to}")
    out = Path(out)
    if out.exists():
        raise ValueError(f"{out} exists already; give a new folder")
    runs = ended_runs(study)
    out.mkdir(parents=True)
    writer: Writer = import_module(f"oneclock.export.to_{to}").write
    return len(runs), writer(runs, out)
