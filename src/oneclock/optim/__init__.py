"""Balanced Adam for PyTorch: thin subclasses of torch's optimizers, weight-decay groups, a scheduler and a probe."""

from oneclock.optim.balanced import BalancedAdam, BalancedAdamW
from oneclock.optim.groups import decay_groups
from oneclock.optim.probe import MemoryProbe
from oneclock.optim.scheduler import RefreshScheduler

__all__ = ["BalancedAdam", "BalancedAdamW", "MemoryProbe", "RefreshScheduler", "decay_groups"]
