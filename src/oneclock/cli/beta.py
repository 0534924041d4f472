"""`oneclock beta`: which beta for a training of this length."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from oneclock.cli import beta_screen
from oneclock.cli.evidence import OWN_SWEEPS, own_sweeps
from oneclock.recommend import evidence_for, recommend
from oneclock.steps import count, planned_steps


def command(
    steps: Annotated[
        float | None,
        typer.Argument(
            metavar="[STEPS]", parser=count, help="Useful training time in optimizer steps: 20000, 20k or 2e4."
        ),
    ] = None,
    tokens: Annotated[
        float | None, typer.Option(parser=count, help="Training tokens; goes with --tokens-per-step.")
    ] = None,
    tokens_per_step: Annotated[
        float | None, typer.Option(parser=count, help="Tokens in one optimizer step; also for --untied.")
    ] = None,
    epochs: Annotated[float | None, typer.Option(help="Epochs; goes with --samples and --batch-size.")] = None,
    samples: Annotated[float | None, typer.Option(parser=count, help="Samples in the training set.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples in one forward pass, over all devices.")] = None,
    accumulate: Annotated[int, typer.Option(help="Forward passes that make one optimizer step.")] = 1,
    drop_last: Annotated[bool, typer.Option("--drop-last", help="The last partial batch is dropped.")] = False,
    rule: Annotated[
        str | None,
        typer.Option("--rule", metavar="RULE", help="recommended (the default), paper, refresh:R0, fixed:BETA, .."),
    ] = None,
    untied: Annotated[bool, typer.Option("--untied", help="Two betas: beta1 by the rule, beta2 by evidence.")] = False,
    evidence: Annotated[list[Path] | None, typer.Option(metavar="PATH", help=OWN_SWEEPS)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which beta for a training of this length, and the evidence for it.

    oneclock beta 20k

    oneclock beta --tokens 2.6e9 --tokens-per-step 131072

    oneclock beta --epochs 50 --samples 75,750 --batch-size 128

    oneclock beta 2000 --rule paper

    oneclock beta 20k --untied --tokens-per-step 131072

    oneclock beta 20k --evidence my_sweep.csv
    """
    length = planned_steps(
        steps,
        tokens=tokens,
        tokens_per_step=None if tokens is None else tokens_per_step,
        epochs=epochs,
        samples=samples,
        batch_size=batch_size,
        accumulate=accumulate,
        drop_last=drop_last,
    )
    own = own_sweeps(evidence)
    answer = recommend(length, rule, evidence=own)
    behind = evidence_for(length, rule, tokens_per_batch=tokens_per_step, evidence=own)
    if as_json:
        print(json.dumps(dataclasses.asdict(answer) | {"evidence": dataclasses.asdict(behind)}, indent=2))
    elif untied:
        print("\n".join(beta_screen.two_betas_screen(answer, behind)))
    else:
        before = recommend(length, rule) if own else None
        print("\n".join(beta_screen.one_beta_screen(answer, behind, before)))
