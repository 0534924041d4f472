"""`oneclock export`: a study's runs in the files of TensorBoard, MLflow or Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from oneclock.plain_text import printable


def command(
    study: Annotated[Path, typer.Argument(help="The study's folder.")],
    to: Annotated[str | None, typer.Option(help="tensorboard, mlflow or wandb (offline).")] = None,
    out: Annotated[Path | None, typer.Option(help="A new folder; default: STUDY-TO beside the study.")] = None,
) -> None:
    """Write the ended runs, with their curves, as the files of another tool. Nothing is sent anywhere."""
    from oneclock.export import export

    if to is None:
        raise ValueError("name the tool: --to tensorboard, mlflow or wandb")
    folder = out or study.with_name(f"{study.name}-{to}")
    count, look = export(study, to, folder)
    print(printable(f"{count} runs are in {folder}; look: {look}"))
