"""How long training stayed useful. Pure Python, no torch.

`useful` answers it for people: from a finished curve, or as a forecast while a run goes on. `early_stop` is the paper's
early stop, exactly as defined there, for the paper's tables.
"""

from oneclock.horizon.curve import Curve
from oneclock.horizon.early_stop import (
    CONVENTIONS,
    Convention,
    EarlyStop,
    early_stop,
    effective_horizon,
    mean_best_loss,
    mean_early_stop,
    one_digit,
)
from oneclock.horizon.schedule import SHAPES, guess_schedule
from oneclock.horizon.useful import UsefulHorizon, useful_horizon

__all__ = [
    "CONVENTIONS",
    "SHAPES",
    "Convention",
    "Curve",
    "EarlyStop",
    "UsefulHorizon",
    "early_stop",
    "effective_horizon",
    "guess_schedule",
    "mean_best_loss",
    "mean_early_stop",
    "one_digit",
    "useful_horizon",
]
