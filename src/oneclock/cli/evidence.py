"""`oneclock evidence`: every known sweep over betas, and what candidate rules lose in them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from oneclock.evidence import compare, decision
from oneclock.evidence.compare import Group, Loss
from oneclock.evidence.table import read_sweeps, sources, sweeps


def command(
    add: Annotated[
        list[Path] | None, typer.Option("--evidence", metavar="CSV", help="A sweep of your own to add: a CSV file.")
    ] = None,
    list_sources: Annotated[bool, typer.Option("--sources", help="Only the sources, with their references.")] = False,
    figure: Annotated[
        Path | None, typer.Option(metavar="SVG", help="Draw best memory over steps, with the rules, into a file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What the recommended rule and others lose in every known sweep, by source and by training length.

    oneclock evidence

    oneclock evidence --figure evidence.svg
    """
    own = [sweep for path in add or () for sweep in read_sweeps(path)]
    found = (*sweeps(), *own)
    if figure is not None:
        from oneclock.evidence.figure import drawn

        figure.write_text(drawn(found), encoding="utf-8")
        print(f"drawn: {figure}")
        return
    if list_sources:
        print("\n".join(_sources()))
        return
    groups = {"source": compare.by_source(found), "steps": compare.by_steps(found), "all": compare.in_all(found)}
    families = decision.families(found)
    if as_json:
        plain = {name: [dataclasses.asdict(group) for group in part] for name, part in groups.items()}
        print(json.dumps(plain | {"families": [dataclasses.asdict(one) for one in families]}, indent=2))
    else:
        print("\n".join([*_table(groups["source"] + groups["all"], "source"), "", *_table(groups["steps"], "steps")]))
        print("\n".join(["", *_families(families)]))


def _table(groups: Sequence[Group], what: str) -> list[str]:
    names = list(compare.CANDIDATES)
    head = f"{what:<26}{'sweeps':>6}{names[0]:>12}" + "".join(f"{name:>9}" for name in names[1:])
    return [
        "Loss above the best beta of each sweep, in %: mean / largest",
        head,
        *(_line(group, names) for group in groups),
    ]


def _line(group: Group, names: Sequence[str]) -> str:
    label = group.name if group.chose else f"{group.name} *"
    cells = [_cell(group.losses[name], group.sweeps) for name in names]
    return f"{label:<26}{group.sweeps:>6}{cells[0]:>12}" + "".join(f"{cell:>9}" for cell in cells[1:])


def _cell(loss: Loss, sweeps: int) -> str:
    """Mean and largest; `>` where some sweeps do not reach the beta, `~` where the rule has no beta for some."""
    if loss.mean is None or loss.largest is None:
        return "-"
    marks = ("" if loss.answered == sweeps else "~") + (">" if loss.at_least else "")
    return marks + "/".join(f"{value:.0f}" if value >= 9.95 else f"{value:.1f}" for value in (loss.mean, loss.largest))


def _families(found: Sequence[decision.FamilyResult]) -> list[str]:
    lines = [
        "* took no part in choosing the rule.  > lower bound: not all sweeps reach it.",
        "~ no beta for some of these lengths.  former: recommended before.",
        "",
        "Memories with one constant, fitted with each source left out in turn (T steps):",
        f"{'memory':<18}{'best c':>7}{'others':>14}{'loses, %':>10}{'above recommended (95 % CI)':>29}",
    ]
    for one in found:
        values = list(one.constants_left_out.values())
        span = f"{min(values):.3g} to {max(values):.3g}"
        worse = f"{one.worse + 0.0:.2f} ({one.worse_low + 0.0:.2f} to {one.worse_high + 0.0:.2f})"
        lines.append(f"{one.name:<18}{one.constant:>7.3g}{span:>14}{one.left_out:>10.2f}{worse:>29}")
    return lines


def _sources() -> list[str]:
    lines = []
    for source in sources().values():
        own = [sweep for sweep in sweeps() if sweep.source == source.name]
        steps = sorted(sweep.steps for sweep in own)
        what = "helped to choose the rule" if source.chose else "took no part in choosing the rule"
        lines += [
            f"{source.name}: {source.title}",
            f"  {len(own)} sweeps, {steps[0]:,} to {steps[-1]:,} steps; {what}",
            f"  {source.reference}",
            f"  {source.obtained}",
        ]
    return lines
