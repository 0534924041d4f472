"""What the steps of a log count, and how they become optimizer steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oneclock.logs import names
from oneclock.logs.arguments import understood
from oneclock.logs.source import Contents, RawRun, Wanted
from oneclock.rule import int_if_whole


@dataclass(frozen=True)
class StepUnit:
    """Converts logged numbers to optimizer steps, or to another `unit` if these are unknown: (logged + offset) * times
    / per.
    """

    unit: str
    times: float = 1.0
    per: float = 1.0
    offset: float = 0.0
    warnings: tuple[str, ...] = ()

    def steps_of(self, logged: Iterable[float]) -> list[float]:
        """Logged steps in this unit, whole where they are exact."""
        return [int_if_whole((step + self.offset) * self.times / self.per) for step in logged]


def step_unit(source: Contents, runs: list[RawRun], from_zero: bool, wanted: Wanted) -> StepUnit:
    """The unit of a log, with a warning if a conversion was used, is missing or is not needed.

    Steps per epoch may come from the runs' own arguments, if these agree. `from_zero`: the first step is 0.

    >>> step_unit(Contents("CSV", [], step="tokens"), [], True, Wanted(tokens_per_step=1024)).per
    1024
    """
    step, per_step = source.step, wanted.tokens_per_step
    of_runs = {understood(run.arguments, run.logged_arguments).steps_per_epoch for run in runs}
    per_epoch = wanted.steps_per_epoch or (of_runs.pop() if len(of_runs) == 1 else None)
    warnings = _not_needed(step, wanted)
    if step is None:
        instead = "evaluations are counted instead"
        if per_epoch is not None:
            instead = f"each evaluation is taken as one epoch of {per_epoch:g} steps"
        warnings.append(f"it has no step column: {instead}")
        return StepUnit("steps" if per_epoch else "evaluations", per_epoch or 1.0, warnings=tuple(warnings))
    if names.is_epoch(step):
        if from_zero:
            warnings.append("its epochs are counted from 0: epoch 0 is taken as one finished epoch")
        if per_epoch is None:
            warnings.append("it counts epochs, not steps; give the steps per epoch to have it in steps")
        else:
            warnings.append(f"epochs were converted to steps, {per_epoch:g} steps per epoch")
        unit = "steps" if per_epoch else "epochs"
        return StepUnit(unit, per_epoch or 1.0, offset=float(from_zero), warnings=tuple(warnings))
    if (amount := names.amount(step)) is not None:
        if per_step is None:
            warnings.append(
                f"it counts {amount}, not steps; give the {amount} of one optimizer step to have it in steps"
            )
        else:
            warnings.append(f"{amount} were converted to steps, {per_step:,g} per step")
        return StepUnit("steps" if per_step else amount, per=per_step or 1.0, warnings=tuple(warnings))
    return StepUnit("steps", warnings=tuple(warnings))


def _not_needed(step: str | None, wanted: Wanted) -> list[str]:
    """Warnings about conversions that this log does not need.

    >>> _not_needed("step", Wanted(steps_per_epoch=500))
    ['steps per epoch were given and not needed: this log counts steps']
    """
    counts = "evaluations" if step is None else "epochs" if names.is_epoch(step) else names.amount(step) or "steps"
    unused = []
    if wanted.steps_per_epoch and counts not in ("evaluations", "epochs"):
        unused.append("steps per epoch")
    if wanted.tokens_per_step and counts not in ("tokens", "samples"):
        unused.append("tokens per step")
    return [f"{name} were given and not needed: this log counts {counts}" for name in unused]
