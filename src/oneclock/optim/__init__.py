"""Balanced Adam for PyTorch: thin subclasses of torch's optimizers, weight-decay groups and a scheduler."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError("the optimizers need torch: pip install 'oneclock[torch]'", name="torch") from error

from oneclock.optim.balanced import BalancedAdam, BalancedAdamW
from oneclock.optim.group_betas import decay_groups
from oneclock.optim.scheduler import RefreshScheduler

__all__ = ["BalancedAdam", "BalancedAdamW", "RefreshScheduler", "decay_groups"]
