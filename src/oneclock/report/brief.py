"""An analysis on a terminal of any width: the answer first, one table, and where to find the rest.

Plain text, wrapped and never cut: a row that does not fit goes on below itself.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from oneclock.analysis.values import Analysis, BetaPoint, ExperimentResult, RuleCost
from oneclock.plain_text import printable
from oneclock.report import words
from oneclock.study.best import Interval


def in_words(analysis: Analysis, width: int = 80) -> str:
    """The first lines of an analysis: of one experiment its answer and its betas, of several a row each.

    Args:
        analysis: What `analyse` found.
        width: Columns to wrap at.

    Returns:
        Plain text, as `oneclock analyse` prints it.

    >>> from oneclock.analysis import analyse
    >>> table = {"experiment": "aaa", "budget": [9_000] * 3, "beta": [0.5, 0.9, 0.99], "min_val_loss": [3, 1, 2]}
    >>> print(in_words(analyse(table, draws=10, repeats=5)).splitlines()[0])
    Best beta measured: 0.9 (one seed: how sure this is cannot be told), loss 1,
    """
    if len(analysis.experiments) == 1:
        (result,) = analysis.experiments
        lines = [*_wrapped(words.answer(result), width), "", *_betas(result, width)]
    else:
        lines = [*_experiments(analysis.experiments, width), "", *_wrapped(_over_all(analysis), width)]
    return "\n".join(map(printable, lines))


def _betas(result: ExperimentResult, width: int) -> Iterator[str]:
    rows = [
        (f"{p.beta:g}", f"{1 / (1 - p.beta):,.4g}", f"{p.loss:.5g}", _percent(p.gap), _between(p), str(p.seeds))
        for p in result.gaps
    ]
    heads = ("beta", "memory", "loss", "gap, %", "95 % interval", "seeds")
    yield from columns(*_with_rates(heads, rows, [p.rate for p in result.gaps], 1), width)


def _with_rates(
    heads: Sequence[str], rows: Sequence[Sequence[str]], rates: Sequence[float | None], at: int
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The same with a column of learning rates at this place; as it was where no rates were swept."""
    if all(rate is None for rate in rates):
        return heads, rows
    shown = ["-" if rate is None else f"{rate:g}" for rate in rates]
    wider = [(*row[:at], rate, *row[at:]) for row, rate in zip(rows, shown, strict=True)]
    return (*heads[:at], "lr", *heads[at:]), wider


def _experiments(results: Sequence[ExperimentResult], width: int) -> Iterator[str]:
    rows = []
    for result in results:
        interval = result.best_interval
        costs = {rule.name: _cost(rule) for rule in result.rules}
        rows.append(
            (
                result.name,
                f"{result.horizons.used:,g}",
                "-" if result.best_beta is None else f"{result.best_beta:g}",
                "-" if interval is None else f"{interval.lower:g} to {interval.upper:g}",
                costs["recommended"],
                costs["paper"],
            )
        )
    heads = ("experiment", "steps", "best", "interval", "recom.", "paper")
    yield from columns(*_with_rates(heads, rows, [result.best_rate for result in results], 3), width)


def _cost(rule: RuleCost) -> str:
    """A rule's gap; `none` where it has no beta, a dash where no beta near its own was swept."""
    if rule.gap is None:
        return "none"
    return _percent(rule.gap) if rule.near else "-"


def _over_all(analysis: Analysis) -> Iterator[str]:
    """What rules cost over all experiments, and how the best beta moves where only the horizon differs."""
    rounded = any(result.horizons.source == "stop" for result in analysis.experiments)
    yield (
        f"steps: how long training stayed useful{', to one digit' if rounded else ''}. recom. and paper: what the "
        "recommended beta and the paper's rule would have cost there, in percent above the best beta that was swept"
        f"{_not_measured(analysis.experiments)}."
    )
    if (risk := analysis.recommended.all) is not None:
        yield (
            f"What is recommended: mean gap {_percent(risk.mean.value)} %, largest {_percent(risk.max.value)} %, over "
            f"{risk.answered} of {risk.experiments} experiments."
        )
    yield from analysis.summary.verdict
    for series in analysis.series:
        rate = ""
        if series.rate_alpha is not None:
            rate = f", the best learning rate as steps ** {_exponent(series.rate_alpha, series.rate_alpha_interval)}"
        beta = _exponent(series.alpha, series.alpha_interval)
        yield f"{series.name}: the best 1 - beta goes as steps ** {beta}{rate}."


def _exponent(alpha: float, interval: Interval | None) -> str:
    """Of what falls as steps ** -alpha: its own sign, so that what rises reads as rising.

    >>> _exponent(0.42, Interval(0.33, 0.5, 0.95)), _exponent(-0.11, None)
    ('-0.42 (-0.50 to -0.33)', '0.11')
    """
    return f"{-alpha:.2f}" + ("" if interval is None else f" ({-interval.upper:.2f} to {-interval.lower:.2f})")


def _not_measured(results: Sequence[ExperimentResult]) -> str:
    """What a dash means, where there is one."""
    far = any(rule.gap is not None and not rule.near for result in results for rule in result.rules[:2])
    return "; -: no beta near theirs was" if far else ""


def columns(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Rows of text under their heads, the first left and the others right; a row too wide goes on below itself.

    >>> list(columns(("a", "b"), [("one", "2")], 20))
    ['a    b', 'one  2']
    """
    table = [heads, *rows]
    wide = [max(len(row[place]) for row in table) for place in range(len(heads))]
    for row in table:
        cells = [row[0].ljust(wide[0]), *(cell.rjust(wide[place]) for place, cell in enumerate(row[1:], start=1))]
        yield from _folded(cells, width)


def _folded(cells: Sequence[str], width: int) -> Iterator[str]:
    line = cells[0]
    for cell in cells[1:]:
        if len(line) + 2 + len(cell) > width:
            yield line.rstrip()
            line = "   "
        line += "  " + cell
    yield line.rstrip()


def _wrapped(sentences: Iterable[str], width: int) -> Iterator[str]:
    for sentence in sentences:
        yield from textwrap.wrap(sentence, max(width, 20), subsequent_indent="  ", break_on_hyphens=False)


def _percent(gap: float) -> str:
    return f"{100 * gap:.2f}"


def _between(point: BetaPoint) -> str:
    interval = point.interval
    return "-" if interval is None else f"{100 * interval.lower:.2f} to {100 * interval.upper:.2f}"
