"""Balanced Adam for PyTorch: thin subclasses of torch's optimizers, and the usual weight-decay groups."""

from oneclock.optim.balanced import BalancedAdam, BalancedAdamW
from oneclock.optim.groups import decay_groups
from oneclock.optim.scheduler import RefreshScheduler

__all__ = ["BalancedAdam", "BalancedAdamW", "RefreshScheduler", "decay_groups"]
