"""A real sweep in a few minutes: which beta is best for a small ViT on digits, and what would the rule have said?

Run it with `make demo`, or `python examples/demo.py FOLDER`. It trains eleven runs of the twin `vit-digits`, made
smaller still, on two cores; stopped and started again it goes on where it was. The study and its report stay in the
folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from oneclock.analysis import analyse, read
from oneclock.report import folder
from oneclock.report.subject import subject_of
from oneclock.rule import GRID, choose
from oneclock.sweep import Paper, Study, Where, sweep
from oneclock.sweep.targets import Named

STEPS = 6_000
SMALLER = ("model.layers=1", "model.patch=4", "evaluation.every=200")
BETAS = GRID[2:8]


def main(out: Path) -> None:
    study = Study(out, [Named("vit-digits", STEPS, SMALLER)], Paper(betas=BETAS, seeds=(1, 2), second="window"))
    study.check()
    left = sum(study.step(target).at_most for target in study.targets)
    if left:
        print(f"Sweeping beta for a small ViT on scikit-learn's digits: {left} runs of {STEPS:,} steps in {out}/")
        sweep(study, Where())
    else:
        print(f"The sweep in {out}/ is complete; to see it run again, delete that folder.")
    (result,) = analyse(read(out)).experiments
    page = folder.write(subject_of(out), out / "report", "make demo")

    useful = int(result.horizons.used)
    best = next(point for point in result.gaps if point.beta == result.oracle_beta)
    print(f"\nbest beta found   {best.beta:.3g}, validation loss {best.loss:.4f}, mean of {best.seeds} seeds")
    if result.selected_beta is None or result.selected_gap is None:
        print(f"the rule's beta   none: training was useful for {useful:,} steps, and the rule needs more than 1,000")
    else:
        chosen = next(point for point in result.gaps if point.beta == result.selected_beta)
        print(f"the rule's beta   {result.rule_beta:.3g} for the {useful:,} steps that training was useful;", end=" ")
        print(f"nearest in the sweep {chosen.beta:.3g}, loss {chosen.loss:.4f}")
        print(f"gap between them  {100 * result.selected_gap:.1f} %", end="")
        print(
            ""
            if chosen.interval is None
            else f" ({100 * chosen.interval.lower:.1f} to {100 * chosen.interval.upper:.1f} %)"
        )
        for note in choose(useful).notes:
            print(f"note              {note}")
    print(f"report            {page}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-study"))
