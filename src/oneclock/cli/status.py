"""`oneclock status`: how far a study is, also while it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer


def command(
    study: Annotated[Path, typer.Argument(help="The study's folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """How far a study is: every run with its state, and what is left. Works while a sweep runs."""
    import oneclock.lab.sweep_target  # noqa: F401 (a target of the study may be an experiment)
    from oneclock.sweep import Plan, view

    state = view.status(Plan.read(study))
    if as_json:
        print(json.dumps(state, indent=2))
    else:
        view.show(state)
