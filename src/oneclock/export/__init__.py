"""A study's runs as files of other tools: one thin module per tool, which uses that tool's own library.

runs          what is exported of a run
tensorboard   event files
mlflow        a database that `mlflow ui` opens
wandb         offline runs that `wandb sync` sends
optuna        a storage with one study per experiment
"""

from oneclock.export.exporters import FORMATS, export

__all__ = ["FORMATS", "export"]
