"""`oneclock analyse`: the full analysis of a sweep, yours or someone else's."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Annotated

import typer

from oneclock.plain_text import printable
from oneclock.rule import resolve_rule

Rules = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="RULE",
        help="One more rule beside the others: recommended, paper, refresh:R0, power:C,ALPHA[,T0] (T0: 10000), "
        "sqrt:DIVISOR, or fixed:BETA, a swept one. May be repeated.",
    ),
]


def command(
    source: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE_OR_STUDY]", help="A long table (CSV, TSV, Parquet) or a study's folder."),
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Analyse the paper's published data instead.")] = False,
    rules: Rules = None,
    full: Annotated[bool, typer.Option("--full", help="Every experiment in words, and every table.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which beta was best, how sure that is, and what the rules would have cost.

    oneclock analyse study/

    oneclock analyse sweep.csv --json

    oneclock analyse --paper --rule power:0.05,0.6
    """
    from oneclock.lab.paper.published import losses_study
    from oneclock.stats import analyse, read
    from oneclock.stats import as_json as plain

    if paper == (source is not None):
        raise ValueError("give a table or a study, or --paper, and not both")
    analysis = analyse(losses_study() if source is None else read(source), [resolve_rule(text) for text in rules or ()])
    if as_json:
        import json

        print(json.dumps(plain(analysis), indent=1, allow_nan=False))
        return
    from oneclock.report.brief import details, in_words, wrapped
    from oneclock.stats.verdict import comparison_words

    width = shutil.get_terminal_size().columns  # of the terminal, or what COLUMNS says, or 80
    print(in_words(analysis, width))
    if full:
        print(details(analysis, width))
        return
    if rules and len(analysis.experiments) > 1:
        print("\n".join(["", *map(printable, wrapped(comparison_words(analysis.comparisons), width))]))
    print("\nEvery experiment in words, every table: --full. As a page:")
    print(f"oneclock report {'--paper' if source is None else printable(shlex.quote(str(source)))} --out report")
