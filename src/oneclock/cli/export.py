"""`oneclock export`: a study's runs where people look at theirs: TensorBoard, MLflow, Weights & Biases, Optuna."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oneclock.plain_text import printable


def command(
    study: Annotated[Path, typer.Argument(help="The study's folder.")],
    to: Annotated[str, typer.Option(help="tensorboard, mlflow, wandb (offline) or optuna.")],
    out: Annotated[Path | None, typer.Option(help="A new folder; default: STUDY-TO beside the study.")] = None,
) -> None:
    """Write the runs that have ended, with their curves, as another tool's own files. Nothing is sent anywhere."""
    from oneclock.export import export

    folder = out or study.with_name(f"{study.name}-{to}")
    count, look = export(study, to, folder)
    print(printable(f"{count} runs are in {folder}; look: {look}"))
