"""`oneclock analyse`: the full analysis of a sweep, one's own or another's."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oneclock.plain_text import printable
from oneclock.rule import REFRESHES, rule_from

if TYPE_CHECKING:
    from oneclock.analysis import Analysis

Rules = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="RULE",
        help="One more rule beside the others: recommended, paper, refresh:R0, power:C,ALPHA[,T0] (T0: 10000), "
        "bent:KNEE,ALPHA, or fixed:BETA, a swept one. May be repeated.",
    ),
]


def command(
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE_OR_STUDY]",
            help="A long table (CSV, TSV, Parquet) or a study's folder.",
            show_default=False,
        ),
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Analyse the paper's published data instead.")] = False,
    refreshes: Annotated[float, typer.Option(help="R0 of the rule that selects beta.")] = REFRESHES,
    rules: Rules = None,
    seed: Annotated[int, typer.Option(help="Of the bootstrap and the noise study.")] = 0,
    full: Annotated[bool, typer.Option("--full", help="Every table: calibration, robustness, rules.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which beta was best, how sure that is, and what the rules would have cost.

    oneclock analyse study/

    oneclock analyse sweep.csv --json

    oneclock analyse --paper --rule power:0.05,0.6
    """
    from oneclock.analysis import analyse, read
    from oneclock.analysis import as_json as plain
    from oneclock.paper.published import losses_study

    if paper == (source is not None):
        raise ValueError("give a table or a study, or --paper, and not both")
    others = [rule_from(text) for text in rules or ()]
    analysis = analyse(losses_study() if source is None else read(source), refreshes=refreshes, rules=others, seed=seed)
    if as_json:
        import json

        print(json.dumps(plain(analysis), indent=1, allow_nan=False))
        return
    from oneclock.report.brief import in_words

    width = shutil.get_terminal_size().columns  # of the terminal, or what COLUMNS says, or 80
    print(in_words(analysis, width))
    if full:
        _show(analysis, width)
    else:
        print(
            "\n"
            + textwrap.fill("Every table, calibration and what is missing: --full. As a page: oneclock report", width)
        )


def _show(analysis: Analysis, width: int) -> None:
    from rich.console import Console

    from oneclock.analysis import tables
    from oneclock.report.terminal import to_rich

    console = Console(highlight=False, width=width)
    for make in tables.EVERY:
        table = make(analysis)
        if table.rows:
            console.print(*to_rich(table, width))
    for title, sentences in (("Calibration", analysis.calibration.verdict), ("Missing", analysis.missing)):
        console.print(f"[bold]{title}[/]")
        for sentence in sentences or ("nothing",):
            console.print(f"- {printable(sentence)}", markup=False)
