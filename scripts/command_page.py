"""The reference of the commands as a page, made from what `--help` prints."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer

from oneclock.cli import app


def commands(group: Any = None, name: str = "oneclock") -> Iterator[tuple[str, Any]]:
    """Every command with its full name, those of `oneclock lab` too."""
    group = typer.main.get_command(app) if group is None else group
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def page() -> str:
    """One section for each command: what it does, and a table of its options."""
    head = ["# Commands", "What `oneclock COMMAND --help` prints. [JSON and exit codes](json.md) has the rest.", ""]
    return "\n".join([*head, *(line for name, command in commands() for line in _section(name, command))])


def _section(name: str, command: Any) -> list[str]:
    arguments = " ".join(one.name.upper() for one in command.params if not one.opts[0].startswith("-"))
    lines = [f"## {name}", "", f"`{name} {arguments}`".replace(" `", "`"), "", *_help(command.help or ""), ""]
    rows = [f"| {_names(one)} | {_cell(one)} |" for one in command.params if one.name != "help"]
    return [*lines, "| option | meaning |", "| --- | --- |", *rows, ""] if rows else lines


def _help(text: str) -> Iterator[str]:
    """Paragraphs; examples that follow each other become one block of code."""
    in_code = False
    for paragraph in re.split(r"\n\s*\n", text.replace("\b", "").strip()):
        plain = " ".join(paragraph.split())
        is_code = plain.startswith(("oneclock ", "python ", "accelerate "))
        if not (in_code and is_code):
            yield ""
        yield f"    {plain}" if is_code else plain
        in_code = is_code


def _names(parameter: Any) -> str:
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _cell(parameter: Any) -> str:
    default = parameter.default
    shown = (
        f" Default: `{default}`." if isinstance(default, int | float | str) and not isinstance(default, bool) else ""
    )
    return (
        ((getattr(parameter, "help", None) or "") + shown).replace("|", "\\|").replace("\n", " ").replace("{", "&#123;")
    )
