"""How long training stayed useful: `useful` for people, `early_stop` for the paper's tables. Pure Python, no torch."""

from oneclock.horizon.curve import Curve
from oneclock.horizon.early_stop import EarlyStop, early_stop, effective_horizon, mean_best_loss
from oneclock.horizon.schedule import SHAPES, guess_schedule
from oneclock.horizon.useful import UsefulHorizon, useful_horizon

__all__ = [
    "Curve", "EarlyStop", "early_stop", "effective_horizon", "mean_best_loss",
    "SHAPES", "guess_schedule", "UsefulHorizon", "useful_horizon",
]  # fmt: skip
