"""What the studies measured, wherever it is told: `src/oneclock/gains.csv`, tables of the pages.

python scripts/gains.py
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
from fresh_seeds import BRIEF_STUDY, FLAT_AT, JOINED_AT, SHORT_STUDY, USUAL, difference, in_brief, pooled
from scipy import stats

from oneclock.analysis import analyse
from oneclock.analysis.risk import central
from oneclock.analysis.values import Analysis, ExperimentResult
from oneclock.experiments import find, short
from oneclock.gains import Gain, gains, in_percent
from oneclock.rule import RECOMMENDED, nearest_beta
from oneclock.study.best import LEVEL, Interval, at_best_rates, distance
from oneclock.study.sweeps import Sweep, Sweeps
from oneclock.study.table import read

ROOT = Path(__file__).resolve().parents[1]
JOINT_STUDY = ROOT / "studies" / "joint"
PAGES = (ROOT / "README.md", ROOT / "docs" / "which-beta.md")
TASKS = {"llama": "Llama, text", "gpt2": "GPT-2, code", "vit": "ViT, images"}
JOINT_HEAD = "| task, steps | best beta | fitted | fitted rate | (0.9, 0.999) | (0.9, 0.95) |"
SHORT_HEAD = "| twin | 0.684 against 0.822, % | 0.9 | (0.9, 0.999) |"
BRIEF_HEAD = "| twin | 0.651 against 0.833, % |"
PAIRS_HEAD = "| twin | (0.9, 0.999) | (0.9, 0.95) |"
HEAD = "| steps | task | best tied beta | recommended, measured at | costs | (0.9, 0.999) costs |"
FIELDS = (
    *("task", "steps", "held_out", "best_beta", "beta", "gap", "gap_low", "gap_high"),
    *("usual", "usual_low", "usual_high", "trials", "each", "largest"),
)


def joint_sweeps() -> list[Sweep]:
    """The sweeps of the joint study by length, those of one length in the order of the study."""
    return sorted(read(JOINT_STUDY).sweeps, key=lambda sweep: sweep.budget or 0)


def rows(sweeps: list[Sweep], analysis: Analysis) -> list[dict[str, str]]:
    """One for each task and length, and one for the short study; the series over batches asks another question."""
    found = {one.name: one for one in analysis.experiments if "-b" not in one.name}
    joint = [_row(sweep, found[sweep.name]) for sweep in sweeps if sweep.name in found]
    return sorted([*joint, _short_row()], key=lambda row: int(row["steps"]))


def _short_row() -> dict[str, str]:
    """The eleven as one, by the seeds that chose nothing: what is recommended against the other candidate's beta."""
    sweeps = read(SHORT_STUDY).sweeps
    recommended = nearest_beta(RECOMMENDED(short.BUDGET), short.BETAS)
    ours, other = (JOINED_AT, FLAT_AT) if recommended == JOINED_AT[0] else (FLAT_AT, JOINED_AT)
    costs = [difference(sweep, ours, other) for sweep in sweeps]
    cost = pooled(costs)
    best = ours if cost.mean < 0 else other
    usual = pooled([difference(sweep, USUAL, best) for sweep in sweeps])
    above = [max(figure, 0.0) for figure in (cost.mean, cost.interval.lower, cost.interval.upper)]
    numbers = [*above, usual.mean, usual.interval.lower, usual.interval.upper]
    words = ("eleven small models", str(short.BUDGET), "yes", f"{best[0]:g}", f"{ours[0]:g}")
    shares = [f"{number / 100:.5f}" for number in numbers]
    lost = [max(mean, 0.0) / 100 for mean, _ in costs]
    ends = (str(len(sweeps)), f"{sum(lost) / len(lost):.5f}", f"{max(lost):.5f}")
    return dict(zip(FIELDS, (*words, *shares, *ends), strict=True))


def _row(sweep: Sweep, result: ExperimentResult) -> dict[str, str]:
    _, family, steps = result.name.split("-")
    ours = next(cost for cost in result.rules if cost.name == "recommended")
    usual = next(arm for arm in result.arms if (arm.beta1, arm.beta2) == (0.9, 0.999))
    assert ours.swept is not None
    gap, interval = in_pairs(sweep, ours.swept)
    best = result.best_beta if result.best_beta is not None else result.oracle_beta
    words = (TASKS[family], steps, "yes" if result.split == "heldout" else "no", f"{best:g}", f"{ours.swept:g}")
    numbers = (*_digits(gap, interval), *_digits(usual.gap, usual.interval), "1", f"{gap:.5f}", f"{gap:.5f}")
    return dict(zip(FIELDS, (*words, *numbers), strict=True))


def in_pairs(sweep: Sweep, beta: float) -> tuple[float, Interval]:
    """A beta's gap to the best tied one, seeds in pairs: 0 for the best, but not for certain."""
    away, drawn = distance(sweep, beta)
    assert drawn is not None
    low, high = central(np.maximum(2 * away - drawn, 0), LEVEL)
    return max(away, 0.0), Interval(float(low), float(high), LEVEL)


def _digits(gap: float, interval: Interval | None) -> tuple[str, str, str]:
    return f"{gap:.5f}", *(("", "") if interval is None else (f"{interval.lower:.5f}", f"{interval.upper:.5f}"))


def text(sweeps: list[Sweep], analysis: Analysis) -> str:
    """The file, as text."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(sweeps, analysis))
    return out.getvalue()


def table() -> str:
    """What the file says, in Markdown."""
    return "\n".join([HEAD, "| --- " * 6 + "|", *map(_line, gains())])


def _line(gain: Gain) -> str:
    task = gain.task + (", test only" if gain.held_out else "")
    ours = _bold(in_percent(gain.gap, gain.gap_interval), gain.gap_interval)
    usual = _bold(in_percent(gain.usual, gain.usual_interval), gain.usual_interval)
    return f"| {gain.steps:,} | {task} | {gain.best_beta:.3g} | {gain.beta:.3g} | {ours} | {usual} |"


def _bold(words: str, interval: tuple[float, float] | None) -> str:
    """Bold where the interval leaves out zero, whichever side it lies on."""
    return f"**{words}**" if interval is not None and (interval[0] > 0 or interval[1] < 0) else words


def joint_table(analysis: Analysis) -> str:
    """All that was measured, in Markdown: the best beta, the bowl's lowest point, and the pairs."""
    return "\n".join([JOINT_HEAD, "| --- " * 6 + "|", *map(_joint_line, analysis.experiments)])


def _joint_line(result: ExperimentResult) -> str:
    title = find(result.name).title.split(" on ")[0] + f", {result.budget:,.0f}"
    batch = find(result.name).batch_size
    title += f", batch {batch}" if "-b" in result.name else ""
    title += " (test only)" if result.split == "heldout" else ""
    surface = result.surface
    assert surface is not None
    fitted = _span(surface.beta, surface.beta_interval, ".3f") if surface.beta_inside else "at an end"
    rate = _span(surface.rate, surface.rate_interval, ".4f") if surface.rate_inside else "at an end"
    best = _span(result.best_beta, result.best_interval, ".3f")
    pairs = [
        _bold(in_percent(arm.gap, span), span)
        for arm in sorted(result.arms, key=lambda arm: -arm.beta2)
        for span in [None if arm.interval is None else (arm.interval.lower, arm.interval.upper)]
    ]
    return f"| {title} | {best} | {fitted} | {rate} | {' | '.join(pairs)} |"


def _span(value: float | None, interval: Interval | None, digits: str) -> str:
    if value is None:
        return "none"
    return f"{value:{digits}}" + (f" ({interval.lower:{digits}} to {interval.upper:{digits}})" if interval else "")


def rates_beside_the_pairs(sweeps: list[Sweep], analysis: Analysis) -> str:
    """How the best rate at the recommended beta lies to that of (0.9, 0.999), in words."""
    swept = {one.name: cost.swept for one in analysis.experiments for cost in one.rules if cost.name == "recommended"}
    factors = []
    for sweep in map(at_best_rates, sweeps):
        ours = {trial.rate for trial in sweep.tied if trial.beta == swept[sweep.name]}
        usual = {trial.rate for trial in sweep.untied if (trial.beta, trial.beta2) == (0.9, 0.999)}
        factors.append((ours.pop() or 1) / (usual.pop() or 1))
    above, below = sum(factor > 1.01 for factor in factors), sum(factor < 0.99 for factor in factors)
    near = sum(0.49 < factor < 2.01 for factor in factors)
    span = f"from {min(factors):.2g} to {max(factors):.2g} times it"
    sides = f"within a factor of two in {near} of {len(factors)} sweeps, above in {above}, below in {below}, {span}"
    return f"the best rate at the recommended beta against that of (0.9, 0.999): {sides}"


def short_table() -> str:
    """What the fresh seeds say of every twin, and pooled, in Markdown."""
    sweeps, rivals = read(SHORT_STUDY).sweeps, (JOINED_AT, (0.9, None), USUAL)
    lines = [[difference(sweep, rival, FLAT_AT) for rival in rivals] for sweep in sweeps]
    half = stats.t.ppf(0.975, len(short.FRESH) - 1)
    body = [
        f"| {find(sweep.name).title.removesuffix(f', {short.BUDGET} steps')} | "
        + " | ".join(_told(mean, mean - half * error, mean + half * error) for mean, error in line)
        + " |"
        for sweep, line in zip(sweeps, lines, strict=True)
    ]
    means = [pooled(column) for column in zip(*lines, strict=True)]
    last = " | ".join(_told(one.mean, one.interval.lower, one.interval.upper) for one in means)
    return "\n".join([SHORT_HEAD, "| --- " * 4 + "|", *body, f"| *all, pooled* | {last} |"])


def brief_table() -> str:
    """What the fresh seeds of the brief study say of every twin, in Markdown."""
    sweeps = read(BRIEF_STUDY).sweeps
    half = stats.t.ppf(0.975, len(short.BRIEF_FRESH) - 1)
    body = [
        f"| {find(sweep.name).title.removesuffix(f', {short.BRIEF_BUDGET} steps')} | "
        f"{_told(mean, mean - half * error, mean + half * error)} |"
        for sweep, (mean, error) in zip(sweeps, in_brief(sweeps), strict=True)
    ]
    return "\n".join([BRIEF_HEAD, "| --- " * 2 + "|", *body])


def _told(mean: float, low: float, high: float) -> str:
    return _bold(f"{mean:+.1f} ({low:.1f} to {high:.1f})", (low, high))


def pairs_table() -> str:
    """How far the usual pairs lie from the best tied beta of each twin of the laptop study, in per cent."""
    rows = []
    laptop = analyse(ROOT / "studies" / "laptop", draws=10, repeats=5)  # pairs have draws of their own
    for result in laptop.experiments:
        cells = []
        for arm in sorted(result.arms, key=lambda arm: -arm.beta2):
            assert arm.interval is not None
            gap, low, high = (
                round(100 * value, 1) + 0.0 for value in (arm.gap, arm.interval.lower, arm.interval.upper)
            )
            cells.append(_bold(f"{gap} ({low} to {high})", (arm.interval.lower, arm.interval.upper)))
        rows.append(f"| {result.name} | {' | '.join(cells)} |")
    return "\n".join([PAIRS_HEAD, "| --- " * 3 + "|", *rows])


def place(page: Path, head: str, made: str) -> None:
    """Put a table where the page has the last one with that head."""
    before, rest = page.read_text().split(head)
    _, blank, after = rest.partition("\n\n")
    page.write_text(before + made + blank + after)


if __name__ == "__main__":
    swept = joint_sweeps()
    found = analyse(Sweeps(tuple(swept)))
    (ROOT / "src" / "oneclock" / "gains.csv").write_text(text(swept, found))
    for page in PAGES:
        place(page, HEAD, table())
    place(ROOT / "docs" / "joint.md", JOINT_HEAD, joint_table(found))
    place(ROOT / "docs" / "short.md", SHORT_HEAD, short_table())
    place(ROOT / "docs" / "short.md", BRIEF_HEAD, brief_table())
    place(ROOT / "docs" / "findings.md", PAIRS_HEAD, pairs_table())
    print(rates_beside_the_pairs(swept, found))
