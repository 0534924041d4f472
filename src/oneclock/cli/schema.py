"""`oneclock schema`: the JSON schema of what a command prints with --json."""

from __future__ import annotations

from importlib import resources
from typing import Annotated

import typer

VERSION = 1
"""Part of every schema's name. A key that is removed or changes its meaning raises it; a new key does not."""

NAMES = ("beta", "advise", "status", "analyse", "evidence")


def text(name: str) -> str:
    """The schema of one command as JSON text."""
    if name not in NAMES:
        raise ValueError(f"there is no schema {name!r}; there are: {', '.join(NAMES)}")
    return resources.files("oneclock").joinpath("schemas", f"{name}-{VERSION}.json").read_text(encoding="utf-8")


def command(name: Annotated[str, typer.Argument(metavar="|".join(NAMES), help="Which command.")]) -> None:
    """Print the JSON schema of what `oneclock NAME --json` prints."""
    print(text(name), end="")
