"""What the steps of a log count, and how they become optimizer steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from oneclock.logs import names
from oneclock.logs.arguments import understood
from oneclock.logs.source import Contents, RawRun, Wanted
from oneclock.rule import int_if_whole

_AMOUNT = (
    "it counts {0}, not steps; give the {0} of one optimizer step to have it in steps",
    "{0} were converted to steps, {1:,.10g} per step",
)
_SENTENCES = {  # what a log counts: what is said where that was not converted to steps, and where it was
    "evaluations": (
        "it has no step column: evaluations are counted instead",
        "it has no step column: each evaluation is taken as one epoch of {1:g} steps",
    ),
    "epochs": (
        "it counts epochs, not steps; give the steps per epoch to have it in steps",
        "epochs were converted to steps, {1:g} steps per epoch",
    ),
    "tokens": _AMOUNT,
    "samples": _AMOUNT,
}


class StepUnit(NamedTuple):
    """Converts logged numbers to `unit`, optimizer steps if these are known: (logged + offset) * times / per."""

    unit: str
    times: float
    per: float
    offset: float
    warnings: list[str]

    def steps_of(self, logged: Iterable[float]) -> list[float]:
        """Logged steps in this unit, whole where they are exact."""
        return [int_if_whole((step + self.offset) * self.times / self.per) for step in logged]


def step_unit(source: Contents, runs: list[RawRun], from_zero: bool, wanted: Wanted) -> StepUnit:
    """The unit of a log, with a warning if a conversion was used, is missing or is not needed."""
    kind = "evaluations" if source.step is None else names.kind(source.step)
    counts = "epochs" if kind == "epoch" else kind if kind in _SENTENCES else "steps"
    of_runs = {understood(run.arguments, run.logged_arguments).steps_per_epoch for run in runs}
    per_epoch = wanted.steps_per_epoch or (of_runs.pop() if len(of_runs) == 1 else None)
    times = per_epoch if counts in ("evaluations", "epochs") else None
    per = wanted.tokens_per_step if counts in ("tokens", "samples") else None
    given = (("steps per epoch", wanted.steps_per_epoch, times), ("tokens per step", wanted.tokens_per_step, per))
    unused = [name for name, value, used in given if value and not used]
    warnings = [f"{name} were given and not needed: this log counts {counts}" for name in unused]
    from_zero = from_zero and counts == "epochs"
    if from_zero:
        warnings.append("its epochs are counted from 0: epoch 0 is taken as one finished epoch")
    known = times or per
    if counts != "steps":
        missing, converted = _SENTENCES[counts]
        warnings.append(converted.format(counts, known) if known else missing.format(counts))
    return StepUnit("steps" if known else counts, times or 1.0, per or 1.0, float(from_zero), warnings)
