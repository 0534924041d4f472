"""An advice in words, once for all who say it: the command, the callbacks, a notebook."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from oneclock.answers import digits
from oneclock.plain_text import printable
from oneclock.rule import RECOMMENDED, Refresh, Rule

if TYPE_CHECKING:
    from oneclock.advice.answer import Advice
    from oneclock.logs.read import Log

_TO_STEPS = {
    "epochs": "Say how many optimizer steps one epoch has, and a beta follows: add --steps-per-epoch N.",
    "tokens": "Say how many tokens one optimizer step has, and a beta follows: add --tokens-per-step N.",
    "samples": "Say how many samples one optimizer step has, and a beta follows: add --tokens-per-step N.",
    "evaluations": "Log the step beside each loss, or name its column, and a beta follows: add --step NAME.",
}


def in_full(advice: Advice) -> str:
    """As `oneclock advise` prints it: what was read, what follows, the doubts, and what to do next."""
    rows = [f"{label:<10}{text}" for label, text in _rows(advice)]
    return "\n".join([*map(printable, rows), "", printable(advice.next)])


def in_brief(advice: Advice) -> str:
    """As a callback prints it when a run ends, which knows what was read."""
    least = "" if advice.ran_out else "at least "
    lines = [
        f"useful for {least}{plain(advice.stop)} of {plain(advice.budget)} {advice.unit} "
        f"(patience {plain(advice.patience)}), best at {plain(advice.best)}"
    ]
    if (used := advice.used) is not None:
        lines.append(f"used beta {used.beta1:g}, {used.refreshes1:,.0f} refreshes in that time")
    return "\n".join(map(printable, [*lines, *(f"doubt: {doubt}" for doubt in advice.doubts), advice.next]))


def as_html(advice: Advice) -> str:
    """As a notebook shows it: the same rows as a table, and below them what to do next."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{html.escape(label)}</th>"
        f"<td style='text-align:left'>{html.escape(printable(text))}</td></tr>"
        for label, text in _rows(advice)
    )
    return f"<table>{rows}</table><p>{html.escape(printable(advice.next))}</p>"


def next_sentence(advice: Advice, rule: Rule, next_steps: float | None) -> str:
    """What to do, in one sentence, with the line to paste."""
    if advice.unit in _TO_STEPS:
        return _TO_STEPS[advice.unit]
    if advice.beta is None:
        return "Leave --rule and --refreshes out, and the recommendation gives a beta."
    use = _to_paste(advice, rule)
    if next_steps is not None and advice.ran_out and next_steps > advice.stop:
        gained = f"beyond {plain(advice.stop)} this run gained nothing, so the other planned steps do not count"
        return f"Use {use}: {gained}."
    if next_steps is not None:
        return f"Use {use}."
    if not advice.ran_out:
        return f"Train longer if you can, with that length as the horizon; for another run of this length use {use}."
    if advice.low is None:
        return f"Evaluate more often, at least every {plain(advice.patience / 2)} steps; until then use {use}."
    if advice.high is None:
        return f"Evaluate on more data or add seeds before you rely on it; until then use {use}."
    return f"Use {use}."


def plain(value: float) -> str:
    """A number as people read it.

    >>> plain(12_000.0), plain(2.5)
    ('12,000', '2.5')
    """
    return f"{value:,.6g}" if not float(value).is_integer() else f"{int(value):,}"


def _to_paste(advice: Advice, rule: Rule) -> str:
    rate = "lr" if advice.lr is None else f"{advice.lr:g}"
    start = f"BalancedAdamW(model.parameters(), lr={rate}"
    if rule not in (RECOMMENDED, Refresh()):
        assert advice.beta is not None  # who has no beta has nothing to paste
        return f"{start}, beta={digits(advice.beta)})"
    steps, by = max(round(advice.horizon), 1), "" if rule == RECOMMENDED else ', rule="paper"'
    return f"{start}, horizon={steps:_}{by}), which is beta {digits(rule(steps))}"


def _rows(advice: Advice) -> list[tuple[str, str]]:
    rows = [row for log in advice.logs for row in _about(log)]
    run = min(advice.runs, key=lambda run: run.evaluations)
    seeds = f"{len(advice.runs)} runs, " if len(advice.runs) > 1 else ""
    noise = f", noise {run.noise:.2g}" if run.noise is not None else ""
    stop = f"{'' if advice.ran_out else 'at least '}{plain(advice.stop)} {advice.unit} (stop)"
    length = f"{plain(advice.budget)} {advice.unit} ({advice.budget_from})"
    rows += [
        ("horizon", f"{stop}, best at {plain(advice.best)}; T_ES {plain(advice.t_es)}"),
        ("patience", f"{plain(advice.patience)}, a tenth of {length}"),
        ("interval", f"{_interval(advice)}: {seeds}{run.evaluations} evaluations, {plain(run.spacing)} apart{noise}"),
    ]
    return [*rows, *_betas(advice), *(("doubt", doubt) for doubt in advice.doubts)]


def _about(log: Log) -> list[tuple[str, str]]:
    others = [name for name in log.metrics if name != log.metric]
    beside = f" (beside {', '.join(others[:4])}{', ...' if len(others) > 4 else ''})" if others else ""
    over = f" over {log.step}" if log.step else ""
    what = f"{log.path}: {log.format}, {log.metric}{over}{beside}"
    return [("log", what), *(("note", warning) for warning in log.warnings)]


def _betas(advice: Advice) -> list[tuple[str, str]]:
    rows = []
    if advice.beta is not None:
        low, high = advice.beta_low, advice.beta_high
        around = f"; {digits(low)} to {digits(high)} over the interval" if low is not None and high is not None else ""
        around = around if low != high else ""
        rows.append(("beta", f"{digits(advice.beta)} for {plain(advice.horizon)} steps, by {advice.rule}{around}"))
    if advice.unit == "steps" and advice.paper_beta is None:
        rows.append(("paper", "none: the paper's rule needs more than 1,000 steps"))
    elif advice.paper_beta is not None and advice.paper_beta != advice.beta:
        rows.append(("paper", f"{digits(advice.paper_beta)} by the paper's own rule (--rule paper)"))
    if (used := advice.used) is not None:
        rows.append(
            (
                "used",
                f"beta1 {used.beta1:g}: {used.refreshes1:,.0f} refreshes; beta2 {used.beta2:g}: "
                f"{used.refreshes2:,.0f}; the paper's rule has 1,000 of both",
            )
        )
    return rows


def _interval(advice: Advice) -> str:
    if advice.low is None:
        return "not known"
    if advice.high is None:
        return f"{plain(advice.low)} {advice.unit} or more"
    return f"{plain(advice.low)} to {plain(advice.high)}"
