"""`oneclock lab pack` and `oneclock lab unpack`: all runs of a finished study in one file, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Packable = Annotated[Path, typer.Argument(help="The study's folder.")]


def pack(study: Packable) -> None:
    """Put the runs of a finished study into one file, STUDY/runs.jsonl, for a repository or an archive.

    status, analyse and report read it as before; a sweep needs the folders again.
    """
    from oneclock.lab.studies import packing

    print(packing.pack(study))


def unpack(study: Packable) -> None:
    """Put the runs of a packed study back into folders, byte for byte as they were."""
    from oneclock.lab.studies import packing

    print(packing.unpack(study))
