"""What a person sees of a sweep: a live table in a terminal or notebook, plain lines anywhere else."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from oneclock.plain_text import printable
from oneclock.study.folder import Row
from oneclock.sweep.engine import Engine
from oneclock.sweep.progress import Progress, beta_of, run_in_words, span

COLOURS = {"running": "cyan", "finished": "green", "diverged": "yellow", "failed": "red", "torn": "red"}


class Display:
    """Shows a sweep as it goes; `quiet` shows nothing."""

    def __init__(self, progress: Progress, engine: Engine, quiet: bool = False) -> None:
        self._progress, self._engine = progress, engine
        self._console = Console(quiet=quiet)
        self._live: Live | _InNotebook | None = None
        if not quiet and self._console.is_jupyter:
            self._live = _InNotebook()
        elif not quiet and self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=False)

    def __enter__(self) -> Display:
        if self._live:
            self._live.start()
            self.update()
        elif self._engine.dashboard:
            self.say(f"dashboard {self._engine.dashboard}")
        return self

    def __exit__(self, *_: Any) -> None:
        if self._live:
            self.update()
            self._live.stop()

    def say(self, line: str) -> None:
        """One line, above the live table where there is one."""
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def update(self) -> None:
        """Draw the table anew."""
        if self._live:
            foot = [f"dashboard {self._engine.dashboard}"] if self._engine.dashboard else []
            most = max(self._console.height - 4, 8)
            words = [self._progress.summary(self._engine.workers), *foot]
            self._live.update(Group(table(self._progress.rows(), most), *map(Text, words)))

    def ended(self, row: Row) -> None:
        """Tell that a run has ended."""
        if self._live is None:
            self.say(f"{run_in_words(row)}  [{self._progress.summary(self._engine.workers)}]")


class _InNotebook:
    """The live table below a notebook's cell, drawn anew in its place; rich's own needs ipywidgets to do that."""

    def start(self) -> None:
        from IPython.display import display

        self._shown = display({"text/plain": ""}, raw=True, display_id=True)

    def update(self, drawn: Group) -> None:
        console = Console(file=io.StringIO(), record=True, width=100, force_jupyter=False)
        console.print(drawn)
        text = console.export_text(clear=False)
        pre = "<pre style='white-space:pre;overflow-x:auto;line-height:normal'>{code}</pre>"
        page = console.export_html(inline_styles=True, code_format=pre)
        self._shown.update({"text/plain": text, "text/html": page}, raw=True)

    def stop(self) -> None:
        """The last table stays."""


def table(rows: Sequence[Row], most: int = 40) -> Table:
    """Rows as a table; of a long list, those that wait or are well finished are left out."""
    drawn = Table(box=None, pad_edge=False, header_style="bold")
    drawn.add_column("run", overflow="ellipsis")  # the one that gives way in a narrow terminal
    rated = any(row.rate is not None for row in rows)
    axes = (("beta", 7), ("rate", 7), ("seed", 4)) if rated else (("beta", 7), ("seed", 4))
    for name, width in (*axes, ("state", 11), ("progress", 10), ("best loss", 9), ("at step", 7)):
        left = name in ("state", "progress")
        drawn.add_column(name, justify="left" if left else "right", no_wrap=True, min_width=width)
    drawn.add_column("time", justify="right", no_wrap=True, min_width=8)
    busy = [row for row in rows if row.state not in ("waiting", "finished")]
    for row in rows if len(rows) <= most else busy[:most]:
        state = Text(row.state, COLOURS.get(row.state, ""))
        time = "" if row.seconds is None else span(row.seconds)
        best = "" if row.best_loss is None else f"{row.best_loss:.5g}"
        step = "" if row.best_step is None else f"{row.best_step:,}"
        rate = [""] if row.rate is None else [f"{row.rate:g}"]
        run = (Text(printable(row.experiment)), beta_of(row), *(rate if rated else ()), str(row.seed))
        drawn.add_row(*run, state, _bar(row), best, step, time)
    return drawn


def _bar(row: Row, width: int = 10) -> str:
    share = 1.0 if row.state == "finished" else min(row.step / row.budget, 1.0)
    return f"{'█' * round(share * width):·<{width}}" if share else ""
