"""`oneclock lab study`: a whole study of the project from its runs to its report."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from oneclock.sweep import Plan


def command(
    name: Annotated[str, typer.Argument(help="Which study: laptop, series, fashion, joint, short or brief.")],
    out: Annotated[
        Path | None, typer.Option(help="The study's folder; its report goes below it. Default: NAME-study.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A fortieth of every budget, to see it work.")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", help="Runs at a time; default: cores.")] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="The folder of Fashion-MNIST, for fashion; else ONECLOCK_DATA or caches.")
    ] = None,
    extend: Annotated[
        bool, typer.Option("--extend", help="Continue a study of an older version that asked for less.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and its cost, run nothing.")] = False,
) -> None:
    """Run a whole study: sweeps, analysis and report. The same command again continues it.

    laptop: the paper's method over laptop-sized versions of its eleven experiments.

    series: two of these over 250 to 16,000 steps; only the horizon differs.

    fashion: three vision models on Fashion-MNIST, to test the results of the others.

    joint: beta and learning rate tuned together, 250 to 64,000 steps.

    short: all eleven over 300 steps, three betas and torch's default betas, learning rates tuned.

    brief: the same over 150 steps, with the betas of the two candidates that short left.

    oneclock lab study laptop --out laptop-study

    oneclock lab study laptop --quick --out quick-study
    """
    from oneclock.lab.study_plans import STUDIES
    from oneclock.lab.sweep_target import with_data
    from oneclock.report import folder
    from oneclock.sweep import Execution, Plan, sweep

    if name not in STUDIES:
        raise ValueError(f"there is no study {name!r}; there are: {', '.join(STUDIES)}")
    out, where = out or Path(f"{name}-study"), Execution(jobs=jobs)
    asked = STUDIES[name](out, quick)
    study = Plan(out, with_data(asked.targets, data_dir), asked.protocol, extend=extend)
    study.check()
    left = sum(study.step(target).at_most for target in study.targets)
    page = out / "report" / "report.html"
    if left or dry_run:
        print(_estimate(study, jobs), flush=True)
    if dry_run:
        return
    if left:
        try:
            sweep(study, where)
        except KeyboardInterrupt:
            print("oneclock: stopped; the same command continues it", file=sys.stderr)
            raise typer.Exit(130) from None
    elif page.exists():
        print(f"nothing to do: every run of {out} has ended and its report is written")
        print(page)
        return
    typed = f"oneclock lab study {name} --out {out.name}" + (" --quick" if quick else "")
    print(folder.write_subject(folder.subject_of(out), page.parent, typed))


def _estimate(study: Plan, jobs: int | None) -> str:
    from oneclock.lab.study_plans import costs, hours
    from oneclock.sweep.view import span

    ran = {row.experiment for row in study.rows() if row.status == "finished"}
    if any(target.name not in ran for target in study.targets):
        print("timing a few steps of each experiment that has not run yet ..", flush=True)
    expected = costs(study)
    lines = [
        f"{cost.name:<22}{cost.ended:>4} runs have ended,{cost.runs:>4} to go, of about {span(cost.seconds)}"
        for cost in expected
    ]
    total = f"at most {sum(cost.runs for cost in expected)} runs to go, about {span(3600 * hours(expected, jobs))}"
    return "\n".join([*lines, f"{total}; stop it at any time: the same command continues it"])
