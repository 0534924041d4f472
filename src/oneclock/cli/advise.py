"""`oneclock advise`: how long a logged run was useful, and which beta next time."""

from __future__ import annotations

import contextlib
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer

from oneclock.guards import COPY, copied
from oneclock.steps import count


def command(
    logs: Annotated[
        list[Path],
        typer.Argument(
            metavar="LOG...", help="Log files or folders, or - for standard input; several are seeds of one experiment."
        ),
    ],
    budget: Annotated[float | None, typer.Option(parser=count, help="Steps the run was planned for.")] = None,
    schedule: Annotated[
        str | None, typer.Option(help="The learning rate over the plan: constant, cosine, linear or wsd.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="The validation loss, if the guess is wrong.")] = None,
    step: Annotated[str | None, typer.Option(help="The step column, if the guess is wrong.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns of a CSV without a header: step,val_loss.")] = None,
    next_steps: Annotated[float | None, typer.Option(parser=count, help="Steps planned for the next run.")] = None,
    steps_per_epoch: Annotated[
        float | None, typer.Option(parser=count, help="Turns a log of epochs into steps.")
    ] = None,
    tokens_per_step: Annotated[
        float | None, typer.Option(parser=count, help="Turns a log of tokens, or of samples, into steps.")
    ] = None,
    rule: Annotated[str | None, typer.Option(help="recommended (the default), paper, or another rule.")] = None,
    higher_is_better: Annotated[
        bool | None,
        typer.Option(
            "--higher-is-better/--lower-is-better", help="Which way the metric improves, if its name does not say it."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """How long a logged run was useful, how sure that is, and which beta next time.

    A run under way gets a forecast.

    oneclock advise out/checkpoint-5000/trainer_state.json

    oneclock advise runs/seed1 runs/seed2 --budget 20k --metric val/loss

    python train.py | tee output.log | oneclock advise -
    """
    from oneclock.advise import advise

    with contextlib.ExitStack() as stack:
        advice = advise(
            [stack.enter_context(copied(sys.stdin.buffer.read)) if str(path) == "-" else path for path in logs],
            budget=budget,
            schedule=schedule,
            next_steps=next_steps,
            rule=rule,
            metric=metric,
            step=step,
            steps_per_epoch=steps_per_epoch,
            tokens_per_step=tokens_per_step,
            higher_is_better=higher_is_better,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
        )
    named = [replace(log, path="standard input") if Path(log.path).name == COPY else log for log in advice.logs]
    advice = replace(advice, logs=tuple(named))
    if not as_json:
        print(advice)
        return
    values = asdict(advice)
    for log in values["logs"]:
        del log["runs"]  # the curves
    print(json.dumps(values, indent=2, allow_nan=False))
