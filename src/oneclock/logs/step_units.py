"""What the steps of a log count, and how they become optimizer steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from oneclock.logs import names
from oneclock.logs.arguments import understood
from oneclock.logs.source import Contents, RawRun
from oneclock.rule import int_if_whole


@dataclass(frozen=True)
class Conversion:
    """What the user says about an optimizer step: how many make an epoch, how many tokens or samples make one."""

    steps_per_epoch: float | None = None
    tokens_per_step: float | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not 0 < value < 2**53:
                raise ValueError(f"{name.replace('_', ' ')} must be a number above 0, got {value!r}")


@dataclass(frozen=True)
class StepUnit:
    """Optimizer steps, or another `unit` where they are not known, are (logged + offset) * times / per."""

    unit: str
    times: float = 1.0
    per: float = 1.0
    offset: float = 0.0
    warnings: tuple[str, ...] = ()

    def steps_of(self, logged: Iterable[float]) -> list[float]:
        """Logged steps in this unit, whole where they are exact."""
        return [int_if_whole((step + self.offset) * self.times / self.per) for step in logged]


def step_unit(source: Contents, runs: list[RawRun], starts: list[float], conversion: Conversion) -> StepUnit:
    """The unit of a log whose series start at `starts`, with a warning where a conversion has no use.

    >>> step_unit(Contents("CSV", [], step="tokens"), [], [0.0], Conversion(tokens_per_step=1024)).per
    1024.0
    """
    unit = _step_unit(source, runs, starts, conversion)
    return replace(unit, warnings=(*unit.warnings, *_not_needed(source.step, conversion)))


def _step_unit(source: Contents, runs: list[RawRun], starts: list[float], conversion: Conversion) -> StepUnit:
    per_epoch = conversion.steps_per_epoch or _steps_per_epoch(runs)
    if source.step is None and per_epoch is None:
        return StepUnit("evaluations", warnings=("it has no step column: evaluations are counted instead",))
    if source.step is None:
        assert per_epoch is not None
        warning = f"it has no step column: each evaluation is taken as one epoch of {per_epoch:g} steps"
        return StepUnit("steps", per_epoch, warnings=(warning,))
    if names.is_epoch(source.step):
        return _of_epochs(min(starts) == 0, per_epoch)
    if (amount := names.amount(source.step)) is not None:
        return _of_amounts(amount, conversion.tokens_per_step)
    return StepUnit("steps")


def _not_needed(step: str | None, conversion: Conversion) -> list[str]:
    """Warnings about conversions that have no use for this log.

    >>> _not_needed("step", Conversion(steps_per_epoch=500))
    ['steps per epoch were given and not needed: this log counts steps']
    """
    counts = "evaluations" if step is None else "epochs" if names.is_epoch(step) else names.amount(step) or "steps"
    used = {"evaluations": "steps_per_epoch", "epochs": "steps_per_epoch", "steps": None}.get(counts, "tokens_per_step")
    unused = [name.replace("_", " ") for name, value in vars(conversion).items() if value is not None and name != used]
    return [f"{name} were given and not needed: this log counts {counts}" for name in unused]


def _of_epochs(from_zero: bool, per_epoch: float | None) -> StepUnit:
    warnings = ("its epochs are counted from 0: epoch 0 is taken as one finished epoch",) if from_zero else ()
    if per_epoch is None:
        advice = "it counts epochs, not steps; give the steps per epoch to have it in steps"
        return StepUnit("epochs", offset=float(from_zero), warnings=(*warnings, advice))
    converted = f"epochs were converted to steps, {per_epoch:g} steps per epoch"
    return StepUnit("steps", float(per_epoch), offset=float(from_zero), warnings=(*warnings, converted))


def _of_amounts(unit: str, per_step: float | None) -> StepUnit:
    if per_step is None:
        advice = f"it counts {unit}, not steps; give the {unit} of one optimizer step to have it in steps"
        return StepUnit(unit, warnings=(advice,))
    return StepUnit("steps", per=float(per_step), warnings=(f"{unit} were converted to steps, {per_step:,g} per step",))


def _steps_per_epoch(runs: list[RawRun]) -> float | None:
    """Steps per epoch from the runs' own arguments, where they agree."""
    values = {understood(run.arguments, run.logged_arguments).steps_per_epoch for run in runs}
    return values.pop() if len(values) == 1 else None
