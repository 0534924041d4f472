"""A study's runs where people look at theirs: one thin file per place, each written by that place's own library.

runs          what is exported of a run
tensorboard   event files
mlflow        a database that `mlflow ui` opens
wandb         offline runs that `wandb sync` sends
optuna        a storage with one study per experiment
"""

from oneclock.export.exporters import FORMATS, export

__all__ = ["FORMATS", "export"]
