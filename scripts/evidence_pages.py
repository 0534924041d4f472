"""Tables of the evidence base in the documentation.

    python scripts/evidence_pages.py

Each stands between two comments, `<!-- evidence: NAME -->` and `<!-- end -->`; a test compares them with the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from oneclock.evidence.model import expected
from oneclock.evidence.table import sweeps
from oneclock.evidence.untied import two_betas
from oneclock.lab.evidence import compare, families
from oneclock.lab.evidence.compare import Group, Loss
from oneclock.lab.evidence.figure import draw_svg
from oneclock.recommend import format_beta, recommend

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "docs" / "research" / "decision.md",)
PICTURE = ROOT / "docs" / "images" / "evidence.svg"
CHOICES = ((0.5, 0.1), (0.25, 0.1), (1.0, 0.1), (0.5, 0.03), (0.5, 0.3))
"""Other choices that the model could have made: width of the window in decades, standard error where none is stated."""
LENGTHS = (300, 1_000, 4_000, 20_000, 64_000, 300_000, 2_400_000)


def sources_table() -> str:
    """What the candidates lose by source."""
    return _candidates([*compare.by_source(), *compare.in_all(), compare.by_protocol()], "source")


def lengths_table() -> str:
    """What the candidates lose by training length."""
    return _candidates(compare.by_steps(), "steps")


def _candidates(groups: list[Group], what: str) -> str:
    heads = [what, "sweeps", *compare.CANDIDATES]
    rows = [
        [group.name + ("" if group.chose else " *"), str(group.sweeps)]
        + [_cell(group.losses[name], group.sweeps) for name in compare.CANDIDATES]
        for group in groups
    ]
    return _markdown(heads, rows)


def _cell(loss: Loss, count: int) -> str:
    if loss.mean is None or loss.largest is None:
        return "none"
    marks = ("over " if loss.at_least else "") + f"{loss.mean:.2f} / {loss.largest:.1f} / {loss.cvar:.1f}"
    return marks if loss.answered == count else f"{marks} ({loss.answered} of {count})"


def ranges_table() -> str:
    """The answer, its range, and how it stands to the best memory, by length."""
    rows = []
    for steps in LENGTHS:
        one = recommend(steps)
        span = f"{format_beta(one.beta_low, 2)} to {format_beta(one.beta_high, 2)}"
        loses = [_hundredths(one.loses), f"{one.loses_high:.2f}"]
        rows.append([f"{steps:,}", format_beta(one.beta, 2), span, *loses, f"{one.tasks:.0f}"])
    return _markdown(["steps", "recommended", "range", "loses, %", "at most, % (95 % CI)", "tasks"], rows)


def choices_table() -> str:
    """How much more the recommended memory may lose than the best one nearby, under other choices of the model."""
    rows = []
    for width, se in CHOICES:
        found = [expected(steps, width=width, unknown_se=se).against_others() for steps in LENGTHS[:5]]
        rows.append([f"{width:g}", f"{se:g}", *(f"{_hundredths(loses)}, at most {high:.2f}" for loses, high in found)])
    heads = ["window, decades", "error where none is stated, %", *(f"{steps:,} steps" for steps in LENGTHS[:5])]
    return _markdown(heads, rows)


def _hundredths(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"


def families_table() -> str:
    """Rules with one constant against the recommended one."""
    rows = []
    for one in families.families():
        values = list(one.constants_left_out.values())
        worse = f"{_hundredths(one.worse)} ({_hundredths(one.worse_low)} to {_hundredths(one.worse_high)})"
        span = f"{min(values):.3g} to {max(values):.3g}"
        rows.append([f"`{one.name}`", f"{one.constant:.3g}", span, f"{one.left_out:.2f}", worse])
    heads = [
        "memory",
        "best c",
        "with a source left out",
        "loses there, %",
        "more than the recommended rule, % (95 % CI)",
    ]
    return _markdown(heads, rows)


def tying_table() -> str:
    """What tying costs by length."""
    rows = []
    for steps in LENGTHS:
        found = two_betas(steps)
        if found.tying is not None:
            one = found.tying
            pair = f"({format_beta(found.beta1, 2)}, {format_beta(found.beta2, 2)})"
            cost = f"{_hundredths(one.percent)} ({_hundredths(one.low)} to {_hundredths(one.high)})"
            rows.append([f"{steps:,}", pair, cost, f"{one.tasks}"])
    return _markdown(["steps", "two betas", "tying costs, % (95 % CI)", "tasks"], rows)


def _markdown(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TABLES: dict[str, Callable[[], str]] = {
    "sources": sources_table,
    "lengths": lengths_table,
    "ranges": ranges_table,
    "choices": choices_table,
    "families": families_table,
    "tying": tying_table,
}


def filled(text: str) -> str:
    """A page with its tables made anew."""
    for name, made in TABLES.items():
        mark = f"<!-- evidence: {name} -->"
        if mark in text:
            text = re.sub(rf"{mark}\n.*?<!-- end -->", f"{mark}\n{made()}\n<!-- end -->", text, flags=re.DOTALL)
    return text


def write() -> None:
    """Make the tables and the picture anew."""
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")
    PICTURE.write_text(draw_svg(sweeps()), encoding="utf-8")


if __name__ == "__main__":
    write()
