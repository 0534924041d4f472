"""What `oneclock beta` prints, in 80 columns. It draws values and computes none."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence

from oneclock.evidence.near import NearRow, RateAdvice
from oneclock.evidence.untied import FEWEST, TwoBetas
from oneclock.recommend import Evidence, Recommendation, format_beta
from oneclock.rule import NAMED

FEW = 3
"""With fewer sweeps than this, no advice on the learning rate is given."""

_ONE_RATE = "^ one learning rate for all betas: it may suit some better."


def one_beta_screen(answer: Recommendation, behind: Evidence, before: Recommendation | None = None) -> list[str]:
    """The answer with one beta; `before` is the answer without the user's own evidence."""
    betas = behind.two_betas
    tying = _tying(betas) or "cost of tying not known here (--untied)"
    keywords = f"beta={format_beta(answer.beta)}"
    recommended = answer.rule == "recommended"
    if answer.rule in NAMED:
        keywords = f"horizon={math.ceil(answer.steps):_}" + ("" if recommended else f', rule="{answer.rule}"')
    lines = [
        f"beta {format_beta(answer.beta, 3)}, a memory of {answer.memory_horizon:,.3g} steps",
        f"{_range(answer)}: expected to lose at most 0.2 % more",
        *([] if before is None else [f"without your evidence: {_range(before)}"]),
        *_notes(answer),
        "",
        *_near(behind.near, "recommended" if recommended else "this rule"),
        "",
    ]
    advice = iter(_lr_lines(behind.learning_rate))
    lines += [f"learning rate   {next(advice)}", *(f"{'':<16}{text}" for text in advice)]
    lines.append(f"two betas       ({format_beta(betas.beta1, 2)}, {format_beta(betas.beta2, 2)}): {tying}")
    if recommended:
        beta = None if answer.paper_beta is None else f"{format_beta(answer.paper_beta, 3)} (--rule paper)"
        lines.append(f"paper's rule    {beta or 'none: it needs more than 1,000 steps'}")
    return [*lines, "", f"BalancedAdamW(model.parameters(), lr=..., {keywords})"]


def two_betas_screen(answer: Recommendation, behind: Evidence) -> list[str]:
    """The answer with two betas."""
    betas = behind.two_betas
    memories = [f"a memory of {1 / (1 - beta):,.3g} steps" for beta in (betas.beta1, betas.beta2)]
    lines = [
        f"beta1 {format_beta(betas.beta1, 3)}, {memories[0]}; {_range(answer)} do as well",
        f"beta2 {format_beta(betas.beta2, 3)}, {memories[1]}: a 32nd of the training",
    ]
    if betas.half_life_beta2 is not None:
        lines.append(f"beta2 {format_beta(betas.half_life_beta2, 3)} has a half-life of 10 M tokens (arXiv 2507.07101)")
    lines += [*_notes(answer), ""]
    lines += _beta2_rows(betas)
    if tying := _tying(betas):
        lines.append(f"In all, {tying}.")
    pair = f"betas=({format_beta(betas.beta1)}, {format_beta(betas.beta2)})"
    return [*lines, "", f"torch.optim.AdamW(model.parameters(), lr=..., {pair})"]


def _near(rows: Sequence[NearRow], name: str) -> list[str]:
    if not rows:
        return ["No known sweep is near this length."]
    table = aligned(
        ("source", "weights", "steps", "sweeps", name, ".9,.999", ".9,.95"),
        (
            (
                row.source + ("" if row.chose else "*") + ("" if row.lr_tuned else "^"),
                _span(row.weights_low, row.weights_high),
                _span(row.steps_low, row.steps_high),
                str(row.sweeps),
                ("over " if row.at_least else "") + _percent(row.loses),
                _percent(row.default_betas),
                _percent(row.language_betas),
            )
            for row in rows
        ),
    )
    return [
        "Sweeps near this length; loss above the best beta of the sweep, mean in %:",
        *table,
        "* took no part in choosing the rule. Below 0: better than every tied beta swept.",
        "Empty: not run." if all(row.lr_tuned for row in rows) else f"{_ONE_RATE} Empty: not run.",
    ]


def _lr_lines(advice: Sequence[RateAdvice]) -> list[str]:
    lines = []
    for one in advice:
        span = f"{one.low:g}" if one.low == one.high else f"{one.low:g} to {one.high:g}"
        change = "tune it" if one.sweeps < FEW else "keep it" if one.factor == 1 else f"try it x {one.factor:.2g}"
        count = "1 sweep" if one.sweeps == 1 else f"{one.sweeps} sweeps"
        lines.append(f"from ({one.beta1:g}, {one.beta2:g}): {change} (best moved x {span}; {count})")
    return lines or ["not measured near this length: tune it"]


def _beta2_rows(betas: TwoBetas) -> list[str]:
    if betas.extrapolated:
        return ["No known sweep over beta2 is near this length: beta2 is extrapolated."]
    table = aligned(
        ("source", "weights", "steps", "tokens/step", "best", "this beta2", "tied", "0.999"),
        (
            (
                row.source + ("" if row.lr_tuned else "^") + ("+" if row.values < FEWEST else ""),
                _span(row.weights),
                short_number(row.steps),
                _span(row.tokens_per_batch),
                format_beta(row.best_beta2, 2),
                *(_percent(one.percent, one.at_least) for one in (row.loses, row.tied, row.torch_default)),
            )
            for row in betas.rows
        ),
    )
    lines = ["Sweeps over beta2 near this length; loss above the best beta2, in %:", *table]
    lines += ["tied: beta2 at the recommended beta, and beta1 as in the source (mostly 0.9)."]
    if not all(row.lr_tuned for row in betas.rows):
        lines.append(_ONE_RATE)
    if any(row.values < FEWEST for row in betas.rows):
        lines.append("+ two values of beta2 only: between them the figure comes from a straight line.")
    return lines


def _tying(betas: TwoBetas) -> str:
    """What one beta costs against two; empty if it is not known near this length."""
    if (cost := betas.tying) is None:
        return ""
    return f"tying costs {_percent(cost.percent)} % ({_percent(cost.low)} to {_percent(cost.high)}; {cost.tasks} tasks)"


def _notes(answer: Recommendation) -> list[str]:
    return [line for note in answer.notes for line in textwrap.wrap(f"note: {note}", 80, subsequent_indent="  ")]


def _range(answer: Recommendation) -> str:
    return f"betas from {format_beta(answer.beta_low, 2)} to {format_beta(answer.beta_high, 2)}"


def aligned(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Aligned lines: the first column to the left, the others to the right."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    gap = "  " if sum(widths) + 2 * len(widths) <= 82 else " "
    return [gap.join([first.ljust(widths[0]), *map(str.rjust, rest, widths[1:])]).rstrip() for first, *rest in lines]


def _percent(value: float | None, at_least: bool = False) -> str:
    """One decimal; `over` marks a lower bound above 0."""
    return "" if value is None else f"{'over ' if at_least and value > 0.05 else ''}{round(value, 1) + 0.0:.1f}"


def _span(*ends: int | None) -> str:
    return " to ".join(dict.fromkeys(short_number(end) for end in ends if end is not None))


def short_number(value: float) -> str:
    """A count with two digits or three.

    >>> short_number(250), short_number(4_748), short_number(83_280), short_number(1_168_575)
    ('250', '4.7 k', '83 k', '1.2 M')
    """
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= 0.9995 * size:
            return f"{value / size:.3g} {letter}" if value >= 100 * size else f"{value / size:.2g} {letter}"
    return f"{value:g}"
