"""`oneclock beta`: which beta for a training of this length."""

from __future__ import annotations

from typing import Annotated

import typer

from oneclock import rule


def command(
    horizon: Annotated[
        float | None,
        typer.Argument(metavar="[STEPS]", help="Useful training time in optimizer steps: 20000 or 2e4."),
    ] = None,
    tokens: Annotated[float | None, typer.Option(help="Training tokens; goes with --tokens-per-step.")] = None,
    tokens_per_step: Annotated[float | None, typer.Option(help="Tokens in one optimizer step.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Epochs; goes with --samples and --batch-size.")] = None,
    samples: Annotated[int | None, typer.Option(help="Samples in the training set.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples in one forward pass, over all devices.")] = None,
    accumulate: Annotated[int, typer.Option(help="Forward passes that make one optimizer step.")] = 1,
    drop_last: Annotated[bool, typer.Option("--drop-last", help="The last partial batch is dropped.")] = False,
    refreshes: Annotated[float, typer.Option(help="How often the memory is renewed in that time.")] = rule.REFRESHES,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which beta for a training of this length, and how far to trust it.

    oneclock beta 20000

    oneclock beta --tokens 2.6e9 --tokens-per-step 131072

    oneclock beta --epochs 50 --samples 75750 --batch-size 128
    """
    steps = rule.planned_steps(
        horizon,
        tokens=tokens,
        tokens_per_step=tokens_per_step,
        epochs=epochs,
        samples=samples,
        batch_size=batch_size,
        accumulate=accumulate,
        drop_last=drop_last,
    )
    choice = rule.choose(steps, refreshes)
    if as_json:
        import dataclasses
        import json

        print(json.dumps(dataclasses.asdict(choice), indent=2))
    else:
        print(_in_words(choice))


def _in_words(choice: rule.Choice) -> str:
    lower = f"{choice.stable_from:,}" if choice.stable_from else f"{choice.refreshes:,}"
    reach = f"from {lower} steps up" if choice.stable_to is None else f"from {lower} to {choice.stable_to:,} steps"
    low, high = rule.CALIBRATED
    trust = f"yes: {choice.horizon:,} steps lie within {low:,} to {high:,}" if choice.calibrated else "no"
    lines = [
        f"beta         {choice.beta:.6g}",
        f"memory       {choice.memory_horizon:,.6g} steps, refreshed {choice.refreshes:,} times in {choice.horizon:,}",
        f"on the grid  {choice.grid_beta:g}, the same for every horizon {reach}",
        f"calibrated   {trust}",
        *(f"note         {note}" for note in choice.notes),
        "",
        f"BalancedAdamW(model.parameters(), lr=..., horizon={choice.horizon:_})"
        if choice.refreshes == rule.REFRESHES
        else f"BalancedAdamW(model.parameters(), lr=..., beta={choice.beta:.6g})",
    ]
    return "\n".join(lines)
