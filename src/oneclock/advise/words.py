"""The text of an advice, shared by the command, the callbacks and notebooks. At most 80 columns.

The answer comes first, in two lines. Then comes what it rests on, with the doubts, and last the line to paste.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from oneclock.logs.read import Log, LoggedRun
from oneclock.plain_text import printable
from oneclock.recommend import format_beta, recommend, short_beta
from oneclock.rule import RECOMMENDED, Refresh, Rule

if TYPE_CHECKING:
    from oneclock.advise.answer import Advice

_WIDTH = 80
_LABEL = 10
_SURE = 0.8  # from this probability on a run counts as useful to its end without an "if"
_FEWEST = 8  # evaluations below which a turn can hardly be confirmed
_TO_STEPS = {
    "epochs": "Say how many optimizer steps one epoch has to get a beta: add --steps-per-epoch N.",
    "tokens": "Say how many tokens one optimizer step has to get a beta: add --tokens-per-step N.",
    "samples": "Say how many samples one optimizer step has to get a beta: add --tokens-per-step N.",
    "evaluations": "Log the step beside each loss, or name its column, to get a beta: add --step NAME.",
}


def in_full(advice: Advice) -> str:
    """As `oneclock advise` prints it: the answer, what it rests on, and the line to paste."""
    first = [line for text in (_useful(advice), _beta(advice)) for line in _wrapped(text, 0)]
    rows = [line for label, text in _rows(advice) for line in _row(label, text)]
    return "\n".join([*first, "", *rows, "", *_wrapped(advice.next, 0)])


def in_brief(advice: Advice) -> str:
    """As a callback prints it when a run ends: the answer, the doubts and the line to paste."""
    doubts = [line for doubt in advice.doubts for line in _row("doubt", doubt)]
    return "\n".join([printable(_useful(advice)), printable(_beta(advice)), *doubts, printable(advice.next)])


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


def doubts(advice: Advice, rule: Rule, runs: Sequence[LoggedRun], kept: Sequence[LoggedRun]) -> list[str]:
    """Reasons to doubt it, the gravest first; `kept` are the runs that count of all `runs`."""
    about_rule: Sequence[str] = ()
    if advice.unit == "steps" and advice.beta is None:
        about_rule = [f"the rule {advice.rule} has no beta for {plain(advice.horizon)} steps; leave --rule out"]
    elif advice.unit == "steps":
        about_rule = recommend(advice.horizon, rule).notes
    about_curve, about_runs = _about_curve(advice), _about_runs(advice, runs, kept)
    return [*about_rule, *(sentence for holds, sentence in [*about_curve, *about_runs] if holds)]


def _about_curve(advice: Advice) -> list[tuple[bool, str]]:
    """Sentences, each with whether it holds."""
    low, plan, longest = plain(advice.low), plain(advice.plan), max(one.useful.seen for one in advice.runs)
    fewest = min(one.useful.evaluations for one in advice.runs)
    few = not advice.turned and fewest < _FEWEST
    flat = not advice.turned and not few and advice.finished and advice.low < advice.plan / 2
    beyond = not advice.turned and advice.horizon > max(advice.plan, longest)
    unnamed = advice.plan_from == "the last evaluation"
    ask = f"its last evaluation, {plan}, stands for it; if it was longer, give the budget (--budget)"
    return [
        (few, f"only {_evaluations(fewest)}, which can hardly confirm a turn; evaluate more often next time"),
        (flat, f"whether the loss turned is not clear: from {low} on it changes less than its noise"),
        (beyond, f"whether the next run stays useful for all of {plain(advice.horizon)} is not in this log"),
        (unnamed, f"the log does not name its plan: {ask}"),
        (longest > advice.plan, f"the log goes on to {plain(longest)}, beyond its plan of {plan}"),
    ]


def _about_runs(advice: Advice, runs: Sequence[LoggedRun], kept: Sequence[LoggedRun]) -> list[tuple[bool, str]]:
    turned = [one.useful.steps for one in advice.runs if one.useful.turned]
    places = f", at {' to '.join(dict.fromkeys(map(plain, (min(turned), max(turned)))))}" if turned else ""
    count = f"{len(turned)} of {len(kept)} turned{places}"
    broken = sum(not math.isfinite(loss) for run in kept for loss in run.curve.losses)
    optimizers = {run.arguments.optimizer for run in kept if run.arguments.optimizer}
    others = sorted(name for name in optimizers if "adam" not in name.lower())
    plans = {run.arguments.max_steps for run in kept}
    return [
        (len(runs) > 1, f"{len(runs)} runs are taken as seeds of one experiment; {count}"),
        (len(kept) < len(runs), f"only the two betas with the lowest loss are used: {len(kept)} runs"),
        (len(plans) > 1, "the runs were planned for different lengths: the longest counts as the plan"),
        (advice.diverged, "a run diverged: nothing after its last finite loss counts"),
        (broken > 0, f"losses that are not finite: {broken}; the run may have diverged"),
        (bool(others), f"the log names the optimizer {next(iter(others), '')!r}, and the rule is about Adam"),
    ]


def plain(value: float) -> str:
    """A number as people read it: 12,000 or 2.5."""
    return f"{value:,.6g}" if not float(value).is_integer() else f"{int(value):,}"


def _useful(advice: Advice) -> str:
    """How long training is useful: the first line of the answer."""
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
    """The beta for the next run: the second line of the answer."""
    if advice.unit != "steps":
        return f"No beta yet: the log counts {advice.unit}, not steps."
    if advice.beta is None:
        return f"No beta: the rule {advice.rule} has none for {plain(advice.horizon)} steps."
    steps = f"{_short(advice.horizon)} steps" if advice.horizon != advice.useful else "the next run"
    around = ""
    if advice.beta_low is not None and advice.beta_high is not None:
        low, high = short_beta(advice.beta_low), short_beta(advice.beta_high)
        around = f"; {low} to {high} across the interval" if low != high else ""
    by = "" if advice.rule == "recommended" else f", by the rule {advice.rule}"
    return f"Beta {short_beta(advice.beta)} for {steps}{by}{around}."


def _rows(advice: Advice) -> list[tuple[str, str]]:
    """Labels with what the answer rests on."""
    rows = []
    for log in advice.logs:
        rows += [("log", _log(log)), *(("note", warning) for warning in log.warnings)]
    rows += [("curve", _curve(advice)), ("horizon", _horizon(advice)), ("paper", _paper(advice))]
    if (used := advice.used) is not None:
        first, second = _short(used.memory1), _short(used.memory2)
        rows.append(("used", f"beta1 {used.beta1:g}, a memory of {first} steps; beta2 {used.beta2:g}, of {second}"))
    return [*rows, *(("doubt", doubt) for doubt in advice.doubts)]


def _log(log: Log) -> str:
    others = [name for name in log.metrics if name != log.metric]
    beside = f" (beside {', '.join(others[:4])}{', ...' if len(others) > 4 else ''})" if others else ""
    return f"{log.path}: {log.format}, {log.metric}{f' over {log.step}' if log.step else ''}{beside}"


def _curve(advice: Advice) -> str:
    run = min(advice.runs, key=lambda run: run.useful.evaluations)
    runs = f"{len(advice.runs)} runs, " if len(advice.runs) > 1 else ""
    count = run.useful.evaluations
    apart = f", {_short(run.spacing)} apart" if count > 1 else ""
    best = f"best {advice.best_loss:.4g} at {plain(advice.best_step)}; noise {run.useful.noise:.2g}"
    return f"{runs}{_evaluations(count)}{apart}; {best}"


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
    stop, best, patience = map(_short, (paper.stop, paper.best, paper.patience))
    text = f"the paper's early stop: {stop} (best {best}, patience {patience})"
    if paper.better_later:
        which = "" if len(advice.runs) == 1 else f" in {paper.better_later} of {len(advice.runs)} runs"
        text += f"; a later evaluation was better{which}, so it stopped too early"
    if advice.unit == "steps" and advice.rule != "paper":
        beta = "none up to 1,000 steps" if advice.paper_beta is None else f"beta {short_beta(advice.paper_beta)}"
        text += f". The paper's rule: {beta} (--rule paper)"
    return text


def _row(label: str, text: str) -> list[str]:
    first, *rest = _wrapped(text, _LABEL)
    return [f"{label:<{_LABEL}}{first}", *(" " * _LABEL + line for line in rest)]


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(printable(text), _WIDTH - indent, break_long_words=False, break_on_hyphens=False) or [""]


def _evaluations(count: int) -> str:
    return "1 evaluation" if count == 1 else f"{count} evaluations"


def _percent(share: float) -> str:
    return f"{round(100 * share)} %"


def _short(value: float) -> str:
    """Three digits of a number."""
    return plain(float(f"{value:.3g}"))
