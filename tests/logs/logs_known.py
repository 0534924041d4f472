"""A validation curve known beforehand, for the libraries to log and the readers to give back."""

import math

from oneclock.horizon import Curve, early_stop, effective_horizon

EVERY = 500
STEPS = [EVERY * (index + 1) for index in range(40)]
LOSSES = [
    round(1.5 + math.exp(-step / 2000) + max(0, step - 8000) / 40000 + 0.01 * math.sin(step), 6) for step in STEPS
]
BUDGET = 20_000
CURVE = Curve(STEPS, LOSSES)


def same_horizon(read: Curve, known: Curve, budget: float) -> None:
    """Assert that the curve read gives the stop, best and T_ES of the known one, losses to float32."""
    ours, theirs = early_stop(read, budget), early_stop(known, budget)
    assert (ours.stop, ours.best, ours.ran_out) == (theirs.stop, theirs.best, theirs.ran_out)
    assert effective_horizon({0.9: [read]}, budget) == effective_horizon({0.9: [known]}, budget)
    assert read.steps == known.steps
    assert all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(read.losses, known.losses, strict=True))
