"""`oneclock retry`: mark failed runs as unfinished, so that the next sweep tries them again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    study: Annotated[Path, typer.Argument(help="The study's folder.")],
) -> None:
    """Let the next `oneclock sweep` of this study try its failed runs again, each from its checkpoint."""
    from oneclock.runs.lock import take_alone
    from oneclock.runs.store import Study

    opened = Study.open(study)
    with take_alone(opened.path):
        count = opened.forget_failed()
    runs = f"{count} failed run{'' if count == 1 else 's'} will be tried again"
    print(f"{runs}; run the same `oneclock sweep` again, with --keep-runs if your code has changed")
