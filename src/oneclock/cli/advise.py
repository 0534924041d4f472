"""`oneclock advise`: what horizon a logged run really had, and which beta next time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from oneclock.advise.advice import Advice
    from oneclock.logs import Log


def command(
    logs: Annotated[
        list[Path], typer.Argument(metavar="LOG...", help="Log files or folders; several are seeds of one experiment.")
    ],
    budget: Annotated[
        float | None, typer.Option(help="Steps the run was planned for; the patience is a tenth.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="The validation loss, if the guess is wrong.")] = None,
    step: Annotated[str | None, typer.Option(help="The step column, if the guess is wrong.")] = None,
    next_steps: Annotated[float | None, typer.Option(help="Steps planned for the next run.")] = None,
    steps_per_epoch: Annotated[float | None, typer.Option(help="Turns a log of epochs into steps.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What horizon a logged run really had, how sure that is, and which beta next time.

    oneclock advise out/checkpoint-5000/trainer_state.json

    oneclock advise runs/seed1 runs/seed2 --budget 20000 --metric val/loss
    """
    from oneclock.advise.advice import advise
    from oneclock.logs import read

    found = [read(path, metric, step, steps_per_epoch) for path in logs]
    units = sorted({log.unit for log in found})
    if len(units) > 1:
        raise ValueError(f"the logs count different things, {' and '.join(units)}; give --steps-per-epoch or --step")
    advice = advise([run for log in found for run in log.runs], units[0], budget, next_steps)
    if as_json:
        import dataclasses
        import json

        read_as = [{name: value for name, value in vars(log).items() if name != "runs"} for log in found]
        print(json.dumps({"logs": read_as, **dataclasses.asdict(advice)}, indent=2, allow_nan=False))
    else:
        print("\n".join([*(line for log in found for line in _about(log)), *_in_words(advice)]))


def _about(log: Log) -> list[str]:
    others = [name for name in log.metrics if name != log.metric]
    beside = f" (beside {', '.join(others[:4])}{', ...' if len(others) > 4 else ''})" if others else ""
    over = f" over {log.step}" if log.step else ""
    return [
        f"log       {log.path}: {log.format}, {log.metric}{over}{beside}",
        *(f"note      {warning}" for warning in log.warnings),
    ]


def _in_words(advice: Advice) -> list[str]:
    unit, least = advice.unit, "" if advice.ran_out else "at least "
    run = min(advice.runs, key=lambda run: run.evaluations)
    seeds = f"{len(advice.runs)} runs, " if len(advice.runs) > 1 else ""
    lines = [
        f"horizon   {least}{advice.stop:,} {unit} (stop), best at {advice.best:,}; T_ES {advice.t_es:,}",
        f"patience  {advice.patience:,g}, a tenth of {advice.budget:,} {unit} ({advice.budget_from})",
        f"interval  {_interval(advice)}: {seeds}{run.evaluations} evaluations, {run.spacing:,} apart"
        + (f", noise {run.noise:.2g}" if run.noise is not None else ""),
    ]
    if (choice := advice.choice) is not None:
        upper = "up" if choice.stable_to is None else f"to {choice.stable_to:,}"
        lines.append(
            f"beta      {choice.beta:.5g} for {choice.horizon:,} steps; on the grid {choice.grid_beta:g}, "
            f"the same from {choice.stable_from or choice.refreshes:,} {upper}"
        )
        if advice.beta_low is not None and advice.beta_high is not None and advice.beta_low < advice.beta_high:
            lines.append(f"          {advice.beta_low:.5g} to {advice.beta_high:.5g} over the interval above")
    if (used := advice.used) is not None:
        lines.append(
            f"used      beta1 {used.beta1:g}: {used.refreshes1:,.0f} refreshes; beta2 {used.beta2:g}: "
            f"{used.refreshes2:,.0f}; the rule has 1,000 of both"
        )
    return [*lines, *(f"doubt     {doubt}" for doubt in advice.doubts), "", advice.next]


def _interval(advice: Advice) -> str:
    if advice.low is None:
        return "not known"
    return f"{advice.low:,} {advice.unit} or more" if advice.high is None else f"{advice.low:,} to {advice.high:,}"
