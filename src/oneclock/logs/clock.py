"""What the steps of a log count, and how they become optimizer steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from oneclock.logs import names
from oneclock.logs.arguments import understood
from oneclock.logs.source import Contents, Found


@dataclass(frozen=True)
class Rates:
    """What a person knows of an optimizer step: how many make an epoch, how many tokens or samples make one."""

    steps_per_epoch: float | None = None
    tokens_per_step: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not 0 < value < 2**53:
                raise ValueError(f"{name.replace('_', ' ')} must be a number above 0, got {value!r}")


@dataclass(frozen=True)
class Clock:
    """Optimizer steps, or `unit`s where they cannot be had, are (step + offset) * times / per."""

    unit: str
    times: float = 1.0
    per: float = 1.0
    offset: float = 0.0
    warnings: tuple[str, ...] = ()


def clock(source: Contents, runs: list[Found], starts: list[float], rates: Rates) -> Clock:
    """The clock of a log whose series start at `starts`; a rate that was given for nothing is told.

    >>> clock(Contents("CSV", [], step="tokens"), [], [0.0], Rates(tokens_per_step=1024)).per
    1024.0
    """
    found = _clock(source, runs, starts, rates)
    return replace(found, warnings=(*found.warnings, *_not_needed(source.step, rates)))


def _clock(source: Contents, runs: list[Found], starts: list[float], rates: Rates) -> Clock:
    per_epoch = rates.steps_per_epoch or _per_epoch(runs)
    if source.step is None and per_epoch is None:
        return Clock("evaluations", warnings=("it has no step column: evaluations are counted instead",))
    if source.step is None:
        assert per_epoch is not None
        told = f"it has no step column: each evaluation is taken for an epoch of {per_epoch:g} steps"
        return Clock("steps", per_epoch, warnings=(told,))
    if names.is_epoch(source.step):
        return _of_epochs(min(starts) == 0, per_epoch)
    if (amount := names.amount(source.step)) is not None:
        return _of_amounts(amount, rates.tokens_per_step)
    return Clock("steps")


def _not_needed(step: str | None, rates: Rates) -> list[str]:
    """What was given and turns nothing of this log into steps.

    >>> _not_needed("step", Rates(steps_per_epoch=500))
    ['steps per epoch were given and not needed: this log counts steps']
    """
    counts = "evaluations" if step is None else "epochs" if names.is_epoch(step) else names.amount(step) or "steps"
    used = {"evaluations": "steps_per_epoch", "epochs": "steps_per_epoch", "steps": None}.get(counts, "tokens_per_step")
    idle = [name.replace("_", " ") for name, value in vars(rates).items() if value is not None and name != used]
    return [f"{name} were given and not needed: this log counts {counts}" for name in idle]


def _of_epochs(from_zero: bool, per_epoch: float | None) -> Clock:
    warnings = ("epochs are counted from 0 there: epoch 0 is taken as one finished epoch",) if from_zero else ()
    if per_epoch is None:
        advice = "it counts epochs, not steps; give the steps per epoch to have it in steps"
        return Clock("epochs", offset=float(from_zero), warnings=(*warnings, advice))
    told = f"epochs were turned into steps at {per_epoch:g} steps per epoch"
    return Clock("steps", float(per_epoch), offset=float(from_zero), warnings=(*warnings, told))


def _of_amounts(unit: str, per_step: float | None) -> Clock:
    if per_step is None:
        advice = f"it counts {unit}, not steps; give the {unit} of one optimizer step to have it in steps"
        return Clock(unit, warnings=(advice,))
    return Clock("steps", per=float(per_step), warnings=(f"{unit} were turned into steps at {per_step:,g} a step",))


def _per_epoch(runs: list[Found]) -> float | None:
    """Steps per epoch as the runs' own arguments have it, where they agree."""
    said = {understood(run.arguments).steps_per_epoch for run in runs}
    return said.pop() if len(said) == 1 else None
