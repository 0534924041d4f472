"""`oneclock evidence`: every known sweep over betas, and what candidate rules lose in each of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oneclock.cli.beta_screen import aligned
from oneclock.evidence.excess import curve
from oneclock.evidence.table import EvidenceSweep, read_sweeps, sources, sweeps

if TYPE_CHECKING:
    from oneclock.lab.evidence.compare import Group, Loss

OWN_SWEEPS = "A sweep of your own to add to the evidence: a study folder, or a CSV file (steps, beta1, loss, ..)."


def own_sweeps(paths: Iterable[Path] | None) -> list[EvidenceSweep]:
    """The sweeps of study folders and of tables."""
    own: list[EvidenceSweep] = []
    for path in paths or ():
        found: Sequence[EvidenceSweep] = _of_study(path) if path.is_dir() else read_sweeps(path)
        if not any(map(curve, found)):
            raise ValueError(f"{path} has no sweep: two betas or more at the same length, model and data")
        own += found
    return own


def _of_study(folder: Path) -> list[EvidenceSweep]:
    from oneclock.lab.evidence.records import study_sweeps

    return study_sweeps(folder)


def command(
    add: Annotated[list[Path] | None, typer.Option("--evidence", metavar="PATH", help=OWN_SWEEPS)] = None,
    list_sources: Annotated[bool, typer.Option("--sources", help="Only the sources, with their references.")] = False,
    figure: Annotated[
        Path | None, typer.Option(metavar="SVG", help="Draw best memory over steps, with the rules, into a file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What the recommended rule and others lose in every known sweep, by source and by training length.

    oneclock evidence

    oneclock evidence --evidence my_study

    oneclock evidence --figure evidence.svg
    """
    if as_json and (list_sources or figure is not None):
        raise ValueError("--json prints the losses: leave out --sources and --figure")
    every = (*sweeps(), *own_sweeps(add))
    if figure is not None:
        from oneclock.lab.evidence.figure import draw_svg

        figure.write_text(draw_svg(every), encoding="utf-8")
        print(f"drawn: {figure}")
        return
    if list_sources:
        print("\n".join(_sources(every)))
        return
    from oneclock.lab.evidence import compare, families

    groups = {"source": compare.by_source(every), "steps": compare.by_steps(every), "all": compare.in_all(every)}
    groups["protocol"] = [compare.by_protocol()]
    if as_json:
        parts = groups | {"families": families.families(every)}
        print(json.dumps({name: list(map(dataclasses.asdict, part)) for name, part in parts.items()}, indent=2))
        return
    lines = [*_answer(groups["all"]), "", "Loss above the best beta of each sweep, in %: mean/largest"]
    lines += [*_table("source", groups["source"]), "", *_table("steps", groups["steps"])]
    lines += ["", "All of them, in %: mean/largest/mean of the worst quarter (CVaR 25 %)"]
    lines += [
        *_table("all", [*groups["all"], *groups["protocol"]], worst=True),
        "* took no part in choosing the rule.  > lower bound: not all sweeps reach it.",
        "~ no beta for some of these lengths.  former: recommended before.",
        "paper at T_ES: by the paper's protocol, at its useful horizons, on its grid.",
    ]
    print("\n".join(lines))


def _answer(groups: Sequence[Group]) -> Iterator[str]:
    """What the recommended rule loses, in the sweeps that chose it and in those that did not."""
    for group in groups:
        loss = group.losses["recommended"]
        what = "Recommended rule, sweeps that chose it" if group.chose else "Sweeps that took no part in choosing"
        above = f"{_digits(loss.mean)} % above the best, {_digits(loss.largest)} % at most"
        yield f"{what} ({loss.answered}): {above}"


def _table(what: str, groups: Sequence[Group], worst: bool = False) -> list[str]:
    rows = []
    for group in groups:
        label = group.name if group.chose else f"{group.name} *"
        rows.append((label, str(group.sweeps), *(_cell(one, group.sweeps, worst) for one in group.losses.values())))
    return aligned((what, "n", *groups[0].losses), rows)


def _cell(loss: Loss, sweeps: int, worst: bool) -> str:
    """Mean, largest (and CVaR); `>`: some sweeps do not reach the beta; `~`: no beta for some lengths."""
    if not loss.answered:
        return "-"
    marks = ("" if loss.answered == sweeps else "~") + (">" if loss.at_least else "")
    return marks + "/".join(map(_digits, (loss.mean, loss.largest, loss.cvar)[: 3 if worst else 2]))


def _digits(percent: float | None) -> str:
    percent = percent or 0.0
    return f"{percent:.0f}" if percent >= 9.95 else f"{percent:.1f}"


def _sources(every: Sequence[EvidenceSweep]) -> Iterator[str]:
    for source in sources().values():
        if steps := [sweep.steps for sweep in every if sweep.source == source.name]:
            what = "helped to choose the rule" if source.chose else "took no part in choosing the rule"
            yield f"{source.name}: {source.title}"
            yield f"  {len(steps)} sweeps, {min(steps):,} to {max(steps):,} steps; {what}"
            yield from (f"  {source.reference}", f"  {source.obtained}")
