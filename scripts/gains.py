"""What the recommendation is worth, from the joint study: `src/oneclock/gains.csv`, and the table of it in two pages.

    python scripts/gains.py [STUDY]

Only experiments whose sweep is complete are taken: those that have nothing left to run, and their arms.
"""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path

from oneclock.analysis import analyse
from oneclock.analysis.values import ExperimentResult
from oneclock.experiments import JOINT
from oneclock.gains import Gain, gains, in_percent
from oneclock.study.best import Interval
from oneclock.sweep.studies import joint_study

ROOT = Path(__file__).resolve().parents[1]
STUDIES = (ROOT / "studies" / "joint", ROOT / "studies" / "unfinished" / "joint")
PAGES = (ROOT / "README.md", ROOT / "docs" / "which-beta.md")
TASKS = {"llama": "Llama, text", "gpt2": "GPT-2, code", "vit": "ViT, images"}
HEAD = "| steps | task | best tied beta | recommended | costs | (0.9, 0.999) costs |"
FIELDS = (
    *("task", "steps", "held_out", "best_beta", "beta", "gap", "gap_low", "gap_high"),
    *("usual", "usual_low", "usual_high"),
)


def complete(study: Path) -> list[str]:
    """The experiments of the study that have nothing left to run, the series over batches aside."""
    plan = joint_study(study)
    named = {one.name for one in JOINT if "-b" not in one.name}
    return [target.name for target in plan.targets if target.name in named and not plan.step(target).at_most]


def rows(study: Path) -> list[dict[str, str]]:
    done = complete(study)
    found = [one for one in analyse(study).experiments if one.name in done]
    return [_row(one) for one in sorted(found, key=lambda one: (one.budget or 0, done.index(one.name)))]


def _row(result: ExperimentResult) -> dict[str, str]:
    _, family, steps = result.name.split("-")
    ours = next(cost for cost in result.rules if cost.name == "recommended")
    usual = next(arm for arm in result.arms if (arm.beta1, arm.beta2) == (0.9, 0.999))
    assert ours.swept is not None
    assert ours.gap is not None
    best = result.best_beta if result.best_beta is not None else result.oracle_beta
    words = (TASKS[family], steps, "yes" if result.split == "heldout" else "no", f"{best:g}", f"{ours.swept:g}")
    numbers = (*_digits(ours.gap, ours.interval), *_digits(usual.gap, usual.interval))
    return dict(zip(FIELDS, (*words, *numbers), strict=True))


def _digits(gap: float, interval: Interval | None) -> tuple[str, str, str]:
    return f"{gap:.5f}", *(("", "") if interval is None else (f"{interval.lower:.5f}", f"{interval.upper:.5f}"))


def text(study: Path) -> str:
    """The file, as text."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(study))
    return out.getvalue()


def table() -> str:
    """What the file says, in Markdown."""
    return "\n".join([HEAD, "| --- " * 6 + "|", *map(_line, gains())])


def _line(gain: Gain) -> str:
    usual = in_percent(gain.usual, gain.usual_interval)
    if gain.usual_interval is not None and gain.usual_interval[0] > 0:
        usual = f"**{usual}**"
    task = gain.task + (", test only" if gain.held_out else "")
    ours = in_percent(gain.gap, gain.gap_interval)
    return f"| {gain.steps:,} | {task} | {gain.best_beta:.3g} | {gain.beta:.3g} | {ours} | {usual} |"


def place(page: Path) -> None:
    """Put the table where the page has the last one."""
    before, rest = page.read_text().split(HEAD)
    _, blank, after = rest.partition("\n\n")
    page.write_text(before + table() + blank + after)


def default_study() -> Path:
    return next(study for study in STUDIES if study.exists())


if __name__ == "__main__":
    study = Path(sys.argv[1]) if len(sys.argv) > 1 else default_study()
    (ROOT / "src" / "oneclock" / "gains.csv").write_text(text(study))
    for page in PAGES:
        place(page)
