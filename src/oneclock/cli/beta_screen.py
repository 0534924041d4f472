"""What `oneclock beta` prints, in 80 columns. It draws values and computes none."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

from oneclock.evidence.excess import Excess
from oneclock.evidence.near import NearRow, RateAdvice
from oneclock.evidence.untied import FEWEST, TwoBetas
from oneclock.recommend import Evidence, Recommendation, format_beta

FEW = 3
"""With fewer sweeps than this, no advice on the learning rate is given."""


def one_beta_screen(answer: Recommendation, behind: Evidence, before: Recommendation | None = None) -> list[str]:
    """The answer with one beta; `before` is the answer without the user's own evidence."""
    lines = [
        f"beta {format_beta(answer.beta, 3)}, a memory of {answer.memory_horizon:,.3g} steps",
        f"{_range(answer)}: expected to lose at most 0.2 % more",
    ]
    if before is not None:
        lines.append(f"without your evidence: {_range(before)}")
    lines += _notes(answer)
    lines += ["", *_near(behind.near, answer), ""]
    for index, text in enumerate(_lr_lines(behind.learning_rate)):
        lines.append(f"{'' if index else 'learning rate':<16}{text}")
    lines.append(f"two betas       {_pair(behind.two_betas)}: {_tying(behind.two_betas)}")
    if answer.rule == "recommended":
        lines.append(f"paper's rule    {_paper(answer)}")
    return [*lines, "", f"BalancedAdamW(model.parameters(), lr=..., {_keywords(answer)})"]


def _notes(answer: Recommendation) -> list[str]:
    return [line for note in answer.notes for line in textwrap.wrap(f"note: {note}", 80, subsequent_indent="  ")]


def _range(answer: Recommendation) -> str:
    return f"betas from {format_beta(answer.beta_low, 2)} to {format_beta(answer.beta_high, 2)}"


def _paper(answer: Recommendation) -> str:
    if answer.paper_beta is None:
        return "none: it needs more than 1,000 steps"
    return f"{format_beta(answer.paper_beta, 3)} (--rule paper)"


def _pair(betas: TwoBetas) -> str:
    return f"({format_beta(betas.beta1, 2)}, {format_beta(betas.beta2, 2)})"


def _tying(betas: TwoBetas) -> str:
    if betas.tying is None:
        return "cost of tying not known here (--untied)"
    cost = betas.tying
    return f"tying costs {_percent(cost.percent)} % ({_percent(cost.low)} to {_percent(cost.high)}; {cost.tasks} tasks)"


def _keywords(answer: Recommendation) -> str:
    if answer.rule not in ("recommended", "paper"):
        return f"beta={format_beta(answer.beta)}"
    return f"horizon={math.ceil(answer.steps):_}" + (', rule="paper"' if answer.rule == "paper" else "")


def _near(rows: Sequence[NearRow], answer: Recommendation) -> list[str]:
    if not rows:
        return ["No known sweep is near this length."]
    name = "recommended" if answer.rule == "recommended" else "this rule"
    head = f"{'source':<11}{'weights':>13}{'steps':>16}{'sweeps':>7}{name:>13}{'.9,.999':>9}{'.9,.95':>8}"
    lines = ["Sweeps near this length; loss above the best beta of the sweep, mean in %:", head]
    for row in rows:
        mark = ("" if row.chose else "*") + ("" if row.lr_tuned else "^")
        ours = _percent(row.loses, bool(row.at_least))
        lines.append(
            f"{row.source + mark:<11}{_span(row.weights_low, row.weights_high):>13}"
            f"{_span(row.steps_low, row.steps_high):>16}{row.sweeps:>7}{ours:>13}"
            f"{_percent(row.default_betas):>9}{_percent(row.language_betas):>8}"
        )
    lines.append("* took no part in choosing the rule. Below 0: better than every tied beta swept.")
    if all(row.lr_tuned for row in rows):
        return [*lines, "Empty: not run."]
    return [*lines, "^ one learning rate for all betas: it may suit some better. Empty: not run."]


def _percent(value: float | None, at_least: bool = False) -> str:
    return "" if value is None else f"{'over ' if at_least else ''}{round(value, 1) + 0.0:.1f}"


def _span(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return ""
    one, two = short_number(low), short_number(high)
    return one if one == two else f"{one} to {two}"


def short_number(value: float) -> str:
    """A count with two digits or three: 83 k, 124 M, 1.2 B.

    >>> short_number(250), short_number(4_748), short_number(83_280), short_number(1_168_575)
    ('250', '4.7 k', '83 k', '1.2 M')
    """
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * size:
            return f"{value / size:.3g} {letter}" if value >= 100 * size else f"{value / size:.2g} {letter}"
    return f"{value:g}"


def _lr_lines(advice: Sequence[RateAdvice]) -> list[str]:
    if not advice:
        return ["not measured near this length: tune it"]
    lines = []
    for one in advice:
        span = f"{one.low:g}" if one.low == one.high else f"{one.low:g} to {one.high:g}"
        change = "tune it" if one.sweeps < FEW else "keep it" if one.factor == 1 else f"try it x {one.factor:.2g}"
        count = "1 sweep" if one.sweeps == 1 else f"{one.sweeps} sweeps"
        lines.append(f"from ({one.beta1:g}, {one.beta2:g}): {change} (best moved x {span}; {count})")
    return lines


def two_betas_screen(answer: Recommendation, behind: Evidence) -> list[str]:
    """The answer with two betas."""
    betas = behind.two_betas
    lines = [
        f"beta1 {format_beta(betas.beta1, 3)}, a memory of {1 / (1 - betas.beta1):,.3g} steps; "
        f"{_range(answer)} do as well",
        f"beta2 {format_beta(betas.beta2, 3)}, a memory of {1 / (1 - betas.beta2):,.3g} steps: a 32nd of the training",
    ]
    if betas.half_life_beta2 is not None:
        lines.append(f"beta2 {format_beta(betas.half_life_beta2, 3)} has a half-life of 10 M tokens (arXiv 2507.07101)")
    lines += _notes(answer)
    if betas.extrapolated:
        lines += ["", "No known sweep over beta2 is near this length: beta2 is extrapolated."]
    else:
        lines += ["", *_beta2_rows(betas)]
    if betas.tying is not None:
        lines.append(f"In all, {_tying(betas)}.")
    pair = f"betas=({format_beta(betas.beta1)}, {format_beta(betas.beta2)})"
    return [*lines, "", f"torch.optim.AdamW(model.parameters(), lr=..., {pair})"]


def _beta2_rows(betas: TwoBetas) -> list[str]:
    head = f"{'source':<11}{'weights':>8}{'steps':>8}{'tokens/step':>12}{'best':>9}{'this beta2':>11}{'tied':>10}"
    lines = [
        "Sweeps over beta2 near this length; loss above the best beta2, in %:",
        f"{head}{'0.999':>9}",
    ]
    lines += [
        f"{row.source:<11}{_span(row.weights, row.weights):>8}{short_number(row.steps):>8}"
        f"{_span(row.tokens_per_batch, row.tokens_per_batch):>12}{format_beta(row.best_beta2, 2):>9}"
        f"{_bounded(row.loses):>11}{_bounded(row.tied):>10}{_bounded(row.torch_default):>9}"
        for row in betas.rows
    ]
    lines += textwrap.wrap(
        "tied: beta2 at the recommended beta, while beta1 stays at what the source used, mostly near 0.9.", 80
    )
    few = sorted({row.source for row in betas.rows if row.values < FEWEST})
    if few:
        words = f"{', '.join(few)} tried two values of beta2: between them the figure comes from a straight line."
        lines += textwrap.wrap(words, 80)
    tuned = sorted({row.source for row in betas.rows if row.lr_tuned})
    tuning = f"were tuned for every beta2 in {', '.join(tuned)} alone" if tuned else "were not tuned again"
    return [*lines, f"Learning rates {tuning}."]


def _bounded(excess: Excess) -> str:
    return f"{'over ' if excess.at_least and excess.percent > 0.05 else ''}{excess.percent + 0.0:.1f}"
