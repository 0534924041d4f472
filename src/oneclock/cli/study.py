"""`oneclock study`: a whole study of the project from its runs to its report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from oneclock.sweep import Study


def command(
    name: Annotated[str, typer.Argument(help="Which study: laptop.")],
    out: Annotated[Path, typer.Option(help="The study's folder; its report goes below it.")] = Path("laptop-study"),
    quick: Annotated[bool, typer.Option("--quick", help="A twentieth of every budget, to see it work.")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Runs at a time; default: cores.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost, run nothing.")] = False,
) -> None:
    """Run the paper's method over the eleven laptop-sized twins: sweeps, analysis and report. Again: it continues.

    oneclock study laptop --out laptop-study

    oneclock study laptop --quick --out quick-study
    """
    if name != "laptop":
        raise ValueError(f"there is no study {name!r}; there is: laptop")
    from oneclock.report import folder, subject
    from oneclock.sweep import Where, sweep
    from oneclock.sweep.laptop import laptop_study

    study = laptop_study(out, quick)
    study.check()
    left = sum(study.step(target).at_most for target in study.targets)
    if left:
        print(_estimate(study, jobs))
    if dry_run:
        return
    if left:
        sweep(study, Where(jobs=jobs))
    else:
        print("every run has ended: nothing is left but to write the report")
    typed = f"oneclock study laptop --out {out.name}" + (" --quick" if quick else "")
    print(folder.write(subject.subject_of(out), out / "report", typed))


def _estimate(study: Study, jobs: int | None) -> str:
    from oneclock.sweep.laptop import costs, hours
    from oneclock.sweep.live import span

    print("timing a few steps of each twin ..", flush=True)
    found = costs(study)
    lines = [f"{cost.name:<22}{cost.runs:>4} runs of about {span(cost.seconds)}" for cost in found]
    total = f"in all at most {sum(cost.runs for cost in found)} runs, about {span(3600 * hours(found, jobs))}"
    return "\n".join([*lines, f"{total}; stop it whenever you like, the same command goes on"])
