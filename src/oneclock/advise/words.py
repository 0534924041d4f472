"""The text of an advice, shared by the command, the callbacks and notebooks. At most 80 columns.

The answer comes first, in two lines. Then comes what it rests on, and last the line to paste.
"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from oneclock.plain_text import printable
from oneclock.recommend import format_beta, short_beta
from oneclock.rule import RECOMMENDED, Refresh, Rule

if TYPE_CHECKING:
    from oneclock.advise.answer import Advice
    from oneclock.logs.read import Log

_WIDTH = 80
_LABEL = 10
_SURE = 0.8  # from this probability on a run counts as useful to its end without an "if"
_TO_STEPS = {
    "epochs": "Say how many optimizer steps one epoch has to get a beta: add --steps-per-epoch N.",
    "tokens": "Say how many tokens one optimizer step has to get a beta: add --tokens-per-step N.",
    "samples": "Say how many samples one optimizer step has to get a beta: add --tokens-per-step N.",
    "evaluations": "Log the step beside each loss, or name its column, to get a beta: add --step NAME.",
}


def headline(advice: Advice) -> tuple[str, str]:
    """The answer in two lines: how long training is useful, and the beta for the next run."""
    return _useful(advice), _beta(advice)


def in_full(advice: Advice) -> str:
    """As `oneclock advise` prints it: the answer, what it rests on, and the line to paste."""
    first = [line for text in headline(advice) for line in _wrapped(text, 0)]
    rows = [line for label, text in _rows(advice) for line in _row(label, text)]
    return "\n".join([*first, "", *rows, "", *_wrapped(advice.next, 0)])


def in_brief(advice: Advice) -> str:
    """As a callback prints it when a run ends: the answer, the doubts and the line to paste."""
    doubts = [line for doubt in advice.doubts for line in _row("doubt", doubt)]
    return "\n".join([*map(printable, headline(advice)), *doubts, printable(advice.next)])


def next_line(advice: Advice, rule: Rule) -> str:
    """The line to paste, or what to do first to get one."""
    if advice.unit in _TO_STEPS:
        return _TO_STEPS[advice.unit]
    if advice.beta is None:
        return "Leave --rule out to get the recommended beta."
    lr = "..." if advice.lr is None else f"{advice.lr:g}"
    start = f"BalancedAdamW(model.parameters(), lr={lr}"
    if rule not in (RECOMMENDED, Refresh()):
        return f"{start}, beta={format_beta(advice.beta)})"
    by = "" if rule == RECOMMENDED else ', rule="paper"'
    return f"{start}, horizon={max(round(advice.horizon), 1):_}{by})"


def plain(value: float) -> str:
    """A number as people read it: 12,000 or 2.5."""
    return f"{value:,.6g}" if not float(value).is_integer() else f"{int(value):,}"


def _useful(advice: Advice) -> str:
    unit, plan, useful, turn = advice.unit, plain(advice.plan), _short(advice.useful), _short(advice.turn)
    interval = f" ({inside})" if (inside := _interval(advice)) else ""
    if advice.turned:
        return f"Useful for {useful} of {plan} {unit}{interval}."
    if advice.diverged and not any(one.useful.turned for one in advice.runs):
        return f"Useful for at most {useful} {unit}: then the run diverged{interval}."
    start = f"After {plain(max(one.useful.seen for one in advice.runs))} of {plan} {unit}"
    if any(one.useful.turned for one in advice.runs):
        sentence = f"Useful for {useful} of {plan} {unit} on average; not all runs turned"
    elif not advice.finished and advice.useful < advice.plan:
        sentence = f"{start}: a turn near {useful} is likely, not confirmed"
    elif not advice.finished:
        return f"{start}: {_percent(advice.stays)} likely to stay useful to the end."
    elif advice.stays >= _SURE:
        return f"Useful to the end: {useful} {unit}."
    elif advice.stays < 0.5:
        sentence = f"A turn near {turn} is likely, not confirmed: count on {useful} {unit}"
    else:
        sentence = f"No turn is confirmed: count on all {useful} {unit}"
    return f"{sentence}{interval if len(sentence + interval) < _WIDTH else ''}."  # the row `horizon` has it too


def _interval(advice: Advice) -> str:
    return f"90 % interval {_short(advice.low)} to {_short(advice.high)}" if advice.low < advice.high else ""


def _beta(advice: Advice) -> str:
    if advice.unit != "steps":
        return f"No beta yet: the log counts {advice.unit}, not steps."
    if advice.beta is None:
        return f"No beta: the rule {advice.rule} has none for {plain(advice.horizon)} steps."
    asked = advice.horizon != advice.useful
    steps = f"{_short(advice.horizon)} steps" if asked else "the next run"
    around = ""
    if advice.beta_low is not None and advice.beta_high is not None:
        low, high = short_beta(advice.beta_low), short_beta(advice.beta_high)
        around = f"; {low} to {high} across the interval" if low != high else ""
    by = "" if advice.rule == "recommended" else f", by the rule {advice.rule}"
    return f"Beta {short_beta(advice.beta)} for {steps}{by}{around}."


def _rows(advice: Advice) -> list[tuple[str, str]]:
    rows = [row for log in advice.logs for row in _about_log(log)]
    rows += [("curve", _curve(advice)), ("horizon", _horizon(advice)), ("paper", _paper(advice))]
    if (used := advice.used) is not None:
        memories = (_short(memory) for memory in (used.memory1, used.memory2))
        text = "beta1 {:g}, a memory of {} steps; beta2 {:g}, of {}"
        rows.append(("used", text.format(used.beta1, next(memories), used.beta2, next(memories))))
    return [*rows, *(("doubt", doubt) for doubt in advice.doubts)]


def _about_log(log: Log) -> list[tuple[str, str]]:
    others = [name for name in log.metrics if name != log.metric]
    beside = f" (beside {', '.join(others[:4])}{', ...' if len(others) > 4 else ''})" if others else ""
    over = f" over {log.step}" if log.step else ""
    what = f"{log.path}: {log.format}, {log.metric}{over}{beside}"
    return [("log", what), *(("note", warning) for warning in log.warnings)]


def _curve(advice: Advice) -> str:
    run = min(advice.runs, key=lambda run: run.useful.evaluations)
    runs = f"{len(advice.runs)} runs, " if len(advice.runs) > 1 else ""
    count = run.useful.evaluations
    evaluations = f"{count} evaluations, {_short(run.spacing)} apart" if count > 1 else "1 evaluation"
    return (
        f"{runs}{evaluations}; best {advice.best_loss:.4g} at {plain(advice.best_step)}; noise {run.useful.noise:.2g}"
    )


def _horizon(advice: Advice) -> str:
    plan = f"plan {plain(advice.plan)} ({advice.plan_from})"
    plan += f"; learning rate {advice.schedule}" if advice.schedule else ""
    if advice.turned:
        return f"{plan}; the loss turned, and later evaluations confirm it"
    interval = f"; {inside}" if (inside := _interval(advice)) else ""
    if advice.diverged:
        return f"{plan}; no confirmed turn before the run diverged{interval}"
    likely = f"{_percent(advice.stays)} likely to be useful to the end"
    turn = f"; if not, the turn is most likely near {_short(advice.turn)}" if advice.stays < _SURE else ""
    return f"{plan}; no confirmed turn{interval}; {likely}{turn}"


def _paper(advice: Advice) -> str:
    paper = advice.paper
    text = f"the paper's early stop: {_short(paper.stop)} (best {_short(paper.best)}, "
    text += f"patience {_short(paper.patience)})"
    if paper.better_later:
        which = "" if len(advice.runs) == 1 else f" in {paper.better_later} of {len(advice.runs)} runs"
        text += f"; a later evaluation was better{which}, so it stopped too early"
    if advice.unit == "steps" and advice.rule != "paper":
        beta = "none up to 1,000 steps" if advice.paper_beta is None else f"beta {short_beta(advice.paper_beta)}"
        text += f". The paper's rule: {beta} (--rule paper)"
    return text


def _row(label: str, text: str) -> list[str]:
    lines = _wrapped(text, _LABEL)
    return [f"{label:<{_LABEL}}{lines[0]}", *(" " * _LABEL + line for line in lines[1:])]


def _wrapped(text: str, indent: int) -> list[str]:
    options = {"break_long_words": False, "break_on_hyphens": False}
    return textwrap.wrap(printable(text), _WIDTH - indent, **options) or [""]  # type: ignore[arg-type]


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"


def _short(value: float) -> str:
    """Three digits of a number."""
    return plain(float(f"{value:.3g}"))
