"""`oneclock beta`: which beta for a training of this length."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from oneclock import answers, rule
from oneclock.cli.numbers import count
from oneclock.gains import Gain, in_percent
from oneclock.steps import planned_steps


def command(
    horizon: Annotated[
        float | None,
        typer.Argument(
            metavar="[STEPS]", parser=count, help="Useful training time in optimizer steps: 20000, 20k or 2e4."
        ),
    ] = None,
    tokens: Annotated[
        float | None, typer.Option(parser=count, help="Training tokens; goes with --tokens-per-step.")
    ] = None,
    tokens_per_step: Annotated[float | None, typer.Option(parser=count, help="Tokens in one optimizer step.")] = None,
    epochs: Annotated[float | None, typer.Option(help="Epochs; goes with --samples and --batch-size.")] = None,
    samples: Annotated[float | None, typer.Option(parser=count, help="Samples in the training set.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Samples in one forward pass, over all devices.")] = None,
    accumulate: Annotated[int, typer.Option(help="Forward passes that make one optimizer step.")] = 1,
    drop_last: Annotated[bool, typer.Option("--drop-last", help="The last partial batch is dropped.")] = False,
    by: Annotated[
        str | None,
        typer.Option("--rule", metavar="RULE", help="recommended (the default), paper, refresh:R0, fixed:BETA, .."),
    ] = None,
    refreshes: Annotated[
        float | None, typer.Option(parser=count, help="The paper's rule with this many refreshes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Which beta for a training of this length, and how far to trust it.

    oneclock beta 20k

    oneclock beta --tokens 2.6e9 --tokens-per-step 131072

    oneclock beta --epochs 50 --samples 75,750 --batch-size 128

    oneclock beta 2000 --rule paper
    """
    steps = planned_steps(
        horizon,
        tokens=tokens,
        tokens_per_step=tokens_per_step,
        epochs=epochs,
        samples=samples,  # type: ignore[arg-type]  # a whole number, or it says so
        batch_size=batch_size,
        accumulate=accumulate,
        drop_last=drop_last,
    )
    chosen = rule.chosen_rule(by, refreshes)
    answer = (
        answers.choose(steps, chosen.refreshes)
        if isinstance(chosen, rule.Refresh)
        else answers.recommend(steps, chosen)
    )
    if as_json:
        import dataclasses
        import json

        print(json.dumps(dataclasses.asdict(answer), indent=2))
    else:
        print(_by_refreshes(answer) if isinstance(answer, answers.Choice) else _in_words(answer))


def _in_words(answer: answers.Recommendation) -> str:
    steps = f"{answer.horizon:,}"
    paper = "none: it needs more than 1,000 steps" if answer.paper_beta is None else answers.digits(answer.paper_beta)
    same = answer.paper_beta is not None and abs(answer.paper_beta - answer.beta) < 1e-12
    own = answer.rule == rule.RECOMMENDED.name
    typed = f"horizon={math.ceil(answer.horizon):_}" if own else f"beta={answers.digits(answer.beta)}"
    return "\n".join(
        [
            f"beta         {answers.digits(answer.beta)}",
            f"memory       {answer.memory_horizon:,.4g} steps, refreshed {answer.refreshes:,.4g} times in {steps}",
            f"how sure     {answer.sure}",
            f"the paper's  {'the same' if same else f'{paper} (--rule paper)'}",
            *_measured(answer.measured),
            "",
            f"BalancedAdamW(model.parameters(), lr=..., {typed})",
        ]
    )


def _measured(gains: tuple[Gain, ...]) -> list[str]:
    """What the answer was worth at about this length, against the best tied beta, and the usual pair beside it."""
    if not gains:
        return []
    lengths = " to ".join(f"{steps:,}" for steps in sorted({gains[0].steps, gains[-1].steps}))
    head = f"measured     at {lengths} steps, all rates tuned: the loss above that of the best tied beta"
    width = max(len(gain.task) for gain in gains)
    return [
        head,
        *(
            f"  {gain.task:<{width}}  recommended {in_percent(gain.gap, gain.gap_interval)}, "
            f"(0.9, 0.999) {in_percent(gain.usual, gain.usual_interval)}"
            for gain in gains
        ),
    ]


def _by_refreshes(choice: answers.Choice) -> str:
    lower = f"{choice.stable_from:,}" if choice.stable_from else f"{choice.refreshes:,}"
    reach = f"from {lower} steps up" if choice.stable_to is None else f"from {lower} to {choice.stable_to:,} steps"
    low, high = rule.CALIBRATED
    trust = f"yes: {choice.horizon:,} steps lie within {low:,} to {high:,}" if choice.calibrated else "no"
    return "\n".join(
        [
            f"beta         {answers.digits(choice.beta)}",
            f"memory       {choice.memory_horizon:,.6g} steps, refreshed {choice.refreshes:,} times "
            f"in {choice.horizon:,}",
            f"on the grid  {choice.grid_beta:g}, the same for every horizon {reach}",
            f"calibrated   {trust}",
            *(f"note         {note}" for note in choice.notes),
            "",
            f'BalancedAdamW(model.parameters(), lr=..., horizon={math.ceil(choice.horizon):_}, rule="paper")'
            if choice.refreshes == rule.REFRESHES
            else f"BalancedAdamW(model.parameters(), lr=..., beta={answers.digits(choice.beta)})",
        ]
    )
