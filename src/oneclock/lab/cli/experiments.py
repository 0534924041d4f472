"""`oneclock lab experiments`: the experiments in a table, or one of them in full."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def command(
    name: Annotated[str | None, typer.Argument(help="Show this experiment in full.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Override a setting: optimizer.lr=1e-4.")
    ] = None,
    laptop: Annotated[bool, typer.Option("--laptop", help="List the laptop-sized versions.")] = False,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="Make two steps at full size, without data: memory and pace.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The experiments of the paper, or their laptop-sized versions, or all settings of one.

    oneclock lab experiments

    oneclock lab experiments vitb16-cifar100 --set optimizer.lr=1e-4

    oneclock lab experiments vitb16-cifar100 --rehearse
    """
    import dataclasses
    import json

    from rich.console import Console

    from oneclock.lab.experiments import EXPERIMENTS, LAPTOP, NOTES, find, override

    if name is None:
        if settings or rehearse:
            raise ValueError("--set or --rehearse needs the name of an experiment before it")
        chosen = list((LAPTOP if laptop else EXPERIMENTS).values())
        if as_json:
            print(json.dumps([dataclasses.asdict(experiment) for experiment in chosen], indent=2))
        else:
            Console().print(_overview(chosen))
        return
    published = find(name)
    experiment = override(published, settings or [])
    if rehearse:
        _rehearse(experiment, as_json)
        return
    if as_json:
        print(json.dumps(dataclasses.asdict(experiment), indent=2))
        return
    Console().print(_in_full(published, experiment))
    if name in NOTES:
        print("settings without a mark are the paper's text, or the named model's own")
    for note in NOTES.get(name, ()):
        Console().print(f"{note.kind}: {note.words}", markup=False, highlight=False)


def _rehearse(experiment: Any, as_json: bool) -> None:
    import dataclasses
    import json

    from oneclock.lab.training.rehearse import STEPS, rehearse

    rehearsal = rehearse(experiment)
    if as_json:
        print(json.dumps(dataclasses.asdict(rehearsal), indent=2))
        return
    losses = " and ".join(f"{loss:.4g}" for loss in rehearsal.losses)
    lines = (
        ("model", f"{rehearsal.parameters / 1e6:.1f} M parameters, {rehearsal.precision} on {rehearsal.device}"),
        ("steps", f"{STEPS}, losses {losses} (the data are random)"),
        ("memory", f"{rehearsal.peak_bytes / 1e9:.1f} GB at most"),
        ("a step", f"{rehearsal.per_step:,} {rehearsal.unit} in {rehearsal.seconds:,.2f} s"),
        ("the budget", f"{rehearsal.budget:,} steps, {rehearsal.per_step * rehearsal.budget:.3g} {rehearsal.unit}"),
        ("at this pace", f"{rehearsal.hours:,.1f} hours for one run's updates, evaluations and data apart"),
    )
    for name, words in lines:
        print(f"{name:14}{words}")


def _overview(experiments: list[Any]) -> Any:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("name", no_wrap=True)
    for column in ("split", "steps", "batch", "optimizer", "lr", "T_ES"):
        table.add_column(column, justify="left" if column == "split" else "right")
    for one in experiments:
        batch = f"{one.batch_size} x {one.accumulate}" if one.accumulate > 1 else f"{one.batch_size}"
        t_es = f"{one.t_es:,}" if one.t_es else ""
        cells = (f"{one.budget:,}", batch, one.optimizer.name, f"{one.optimizer.lr:g}", t_es)
        table.add_row(one.name, one.split, *cells)
    return table


def _in_full(published: Any, experiment: Any) -> Any:
    from rich.markup import escape
    from rich.table import Table

    from oneclock.lab.experiments import origins, settings_of

    before, after, notes = settings_of(published), settings_of(experiment), origins(published.name)
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, value in after.items():
        changed = name not in before or before[name] != value
        note = f"[bold]was {escape(_text(before.get(name)))}[/bold]" if changed else notes.get(name, "")
        table.add_row(name, escape(_text(value)), note)
    return table


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}" if isinstance(value, float) else str(value)
