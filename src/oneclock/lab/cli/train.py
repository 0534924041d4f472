"""`oneclock lab train`: one experiment at one beta and seed, from start or checkpoint to its record."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oneclock.steps import count

if TYPE_CHECKING:
    from oneclock.lab.experiments import Experiment
    from oneclock.runs.record import RunRecord

Tell = Callable[[int, int, float, "float | None"], None]


def command(
    name: Annotated[str, typer.Argument(help="Which experiment; `oneclock lab experiments` lists them.")],
    out: Annotated[Path, typer.Option(help="The study's folder; the run goes to runs/NAME/beta-B-seed-S below it.")],
    beta: Annotated[
        str | None, typer.Option(metavar="B", help="The one beta; or B1,B2 for Adam with two memories.")
    ] = None,
    horizon: Annotated[
        float | None,
        typer.Option(
            metavar="T", parser=count, help="Or the useful training time in steps, as `oneclock beta` takes it."
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="By which rule beta follows from --horizon: paper, fixed:BETA, .."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the first weights, the order of the data and dropout.")] = 1,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting: optimizer.lr=1e-4.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where the data lies; else ONECLOCK_DATA or caches.")] = None,
    steps: Annotated[int | None, typer.Option(help="Train this many steps in place of the experiment's.")] = None,
    log_with: Annotated[str | None, typer.Option(help="Also log to tensorboard, wandb, mlflow or trackio.")] = None,
    checkpoint_minutes: Annotated[float, typer.Option(help="Minutes between checkpoints.")] = 10.0,
    checkpoint_steps: Annotated[int | None, typer.Option(help="Also a checkpoint after every N steps.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that prepare batches ahead.")] = None,
) -> None:
    """Train one experiment at one beta and seed. Run it again to continue; a finished run is reported, not repeated.

    oneclock lab train nanogpt-wikitext103 --horizon 6000 --out study

    accelerate launch -m oneclock lab train vitb16-cifar100 --beta 0.95 --seed 2 --out study
    """
    from oneclock.lab import experiments
    from oneclock.rule import beta_for

    if (beta is None) == (horizon is None):
        raise ValueError("give exactly one of --beta and --horizon (the useful training time in steps)")
    if horizon is None and rule is not None:
        raise ValueError("--rule computes beta from --horizon; leave it out when you give --beta")
    chosen = beta_for(horizon, rule) if horizon is not None else _beta(str(beta))
    settings = [*(settings or []), *([] if steps is None else [f"budget={steps}"])]
    experiment = experiments.override(experiments.find(name), settings)
    experiments.check_packages(experiment)

    from oneclock.lab import training

    identity = training.identify(experiment, chosen, seed)
    path = out / "runs" / identity.folder
    warmup = training.warmup_steps(experiment.schedule, experiment.budget)
    if warmup > experiment.budget:
        note = (
            f"the warm-up of {warmup:,} steps outlasts the {experiment.budget:,} of this run: it never reaches its rate"
        )
        print(f"note: {note}; --set schedule.warmup_steps=N shortens it", file=sys.stderr)
    had_ended = (path / "result.json").exists()
    try:
        with training.stop_on_signal() as stop, _drawn(f"{name}, beta {_shown(chosen)}, seed {seed}") as progress:
            result = training.train(
                experiment,
                chosen,
                seed,
                path,
                data_dir=data_dir,
                progress=progress,
                stop=stop,
                checkpoint_every=checkpoint_steps,
                checkpoint_minutes=checkpoint_minutes,
                log_with=log_with,
                workers=workers,
            )
    except KeyboardInterrupt as interrupt:
        where = str(interrupt) or "stopped; it can continue from its last checkpoint"
        print(f"oneclock: {where}; the same command continues it", file=sys.stderr)
        raise typer.Exit(130) from None
    if training.is_main_process():
        print(_in_words(result, experiment, had_ended), path, sep="\n")


def _beta(text: str) -> float | tuple[float, float]:
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--beta must be a number, or two with a comma between them, got {text!r}") from None
    if len(values) > 2:
        raise ValueError(f"--beta takes one number or two, got {len(values)}")
    return (values[0], values[1]) if len(values) == 2 else values[0]


def _shown(beta: float | tuple[float, float]) -> str:
    return " and ".join(f"{value:g}" for value in beta) if isinstance(beta, tuple) else f"{beta:g}"


def _in_words(result: RunRecord, experiment: Experiment, had_ended: bool) -> str:
    before = "already " if had_ended else ""
    best = "no finite validation loss"
    if result.best_loss is not None:
        best = f"best validation loss {result.best_loss:.6g} at step {result.best_step:,}"
    reason = f" ({result.reason})" if result.reason else ""
    spent = f"{result.steps:,} of {experiment.budget:,} steps in {result.seconds:,.1f} s"
    return f"{before}{result.status}{reason}: {best}; {spent}"


@contextmanager
def _drawn(title: str) -> Iterator[Tell]:
    """Progress on stderr: a bar on a terminal, otherwise a line at each evaluation and every half minute."""
    if not sys.stderr.isatty():
        yield _lines(title)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(20), MofNCompleteColumn(), TextColumn("{task.fields[note]}")
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task(title, total=None, note="starting")

        def tell(step: int, budget: int, train_loss: float, val_loss: float | None) -> None:
            note = _note(train_loss, val_loss, bar.tasks[0].speed)
            bar.update(task, completed=step, total=budget, note=note)

        yield tell


def _lines(title: str) -> Tell:
    first: tuple[int, float] | None = None
    last: tuple[float | None, float] = (None, 0.0)

    def tell(step: int, budget: int, train_loss: float, val_loss: float | None) -> None:
        nonlocal first, last
        now = time.monotonic()
        first = first or (step, now)
        if val_loss == last[0] and now - last[1] < 30 and step < budget:
            return
        last = (val_loss, now)
        speed = (step - first[0]) / (now - first[1]) if now > first[1] else None
        left = f"  {(budget - step) / speed:,.0f} s left" if speed else ""
        print(f"{title}  {step}/{budget}  {_note(train_loss, val_loss, speed)}{left}", file=sys.stderr, flush=True)

    return tell


def _note(train_loss: float, val_loss: float | None, speed: float | None) -> str:
    measured = {"train": train_loss, "val": val_loss}
    losses = [f"{name} {loss:.4g}" for name, loss in measured.items() if loss is not None]
    return "  ".join([*losses, *([f"{speed:.3g} steps/s"] if speed else [])])
