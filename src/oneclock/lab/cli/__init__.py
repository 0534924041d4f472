"""`oneclock lab`: what reproduces the paper and the project's own studies. A user of the tool needs none of it."""

from __future__ import annotations

from typing import Any

import typer

from oneclock.lab.cli import analyse, data, experiments, pack, paper, study, train


def app(settings: dict[str, Any]) -> typer.Typer:
    """The group of commands, with the same settings as the whole command line."""
    group = typer.Typer(
        help="Reproduce the paper: its tables, its eleven experiments, the studies of this project.",
        context_settings=settings,
    )
    group.callback(invoke_without_command=True)(_show_help)
    group.command("paper")(paper.command)
    group.command("analyse")(analyse.command)
    group.command("experiments")(experiments.command)
    group.command("train")(train.command)
    group.command("study")(study.command)
    group.command("pack")(pack.pack)
    group.command("unpack")(pack.unpack)
    group.add_typer(data.app, name="data")
    return group


def _show_help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
