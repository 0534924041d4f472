"""An analysis on a terminal of any width: the answer first, one table, and where to find the rest.

Plain text, wrapped and never cut: a row that does not fit goes on below itself.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from oneclock.analysis.values import Analysis, BetaPoint, ExperimentResult
from oneclock.plain_text import printable
from oneclock.report import words


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
    yield from columns(("beta", "memory", "loss", "gap, %", "95 % interval", "seeds"), rows, width)


def _experiments(results: Sequence[ExperimentResult], width: int) -> Iterator[str]:
    rows = []
    for result in results:
        interval = result.best_interval
        costs = {rule.name: "none" if rule.gap is None else _percent(rule.gap) for rule in result.rules}
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
    yield from columns(("experiment", "steps", "best", "interval", "recom., %", "paper, %"), rows, width)


def _over_all(analysis: Analysis) -> Iterator[str]:
    """What rules cost over all experiments, and how the best beta moves where only the horizon differs."""
    yield (
        "steps: how long training stayed useful. recom. and paper: what the recommended beta and the paper's rule "
        "would have cost there, in percent above the best beta that was swept."
    )
    if (risk := analysis.recommended.all) is not None:
        yield (
            f"What is recommended: mean gap {_percent(risk.mean.value)} %, largest {_percent(risk.max.value)} %, over "
            f"{risk.answered} of {risk.experiments} experiments."
        )
    yield from analysis.summary.verdict
    for series in analysis.series:
        interval = series.alpha_interval
        sure = "" if interval is None else f" ({interval.lower:.2f} to {interval.upper:.2f})"
        yield f"{series.name}: the best 1 - beta falls as steps ** -{series.alpha:.2f}{sure}."


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
