r"""BalancedAdam and BalancedAdamW: torch's Adam and AdamW with one memory, `beta1 = beta2 = beta`.

They add to torch's classes only what the tie needs (one `beta`, a check that nothing unties it, checkpoints that keep
it) and a better default kernel. Everything else, from `foreach` to distributed checkpoints, is torch's own.

A shared memory bounds the update. With one beta, both averages weigh the gradients g_1 .. g_t alike:

    m_t = sum_i w_i g_i,    v_t = sum_i w_i g_i^2,    w_i = (1 - beta) beta^(t-i) / (1 - beta^t) >= 0

after bias correction, and these weights sum to one. Hence m_t^2 <= v_t (Cauchy-Schwarz), and the step that Adam takes,
weight decay aside, is |lr * m_t / (sqrt(v_t) + eps)| <= lr for every coordinate, at every t, for any gradients. With
beta1 < beta2 no such bound holds: a gradient that follows long silence moves a weight by up to
lr * (1 - beta1) / sqrt(1 - beta2).
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.utils._foreach_utils import _get_fused_kernels_supported_devices

from oneclock.rule import REFRESHES, checked_beta, refresh_beta


class _OneClock(torch.optim.Adam):
    """What ties the betas of a torch Adam; the two public classes differ only in how weight decay enters."""

    def __init__(
        self,
        params: Any,
        lr: float | torch.Tensor = 1e-3,
        *,
        beta: float | None = None,
        horizon: float | None = None,
        refreshes: float = REFRESHES,
        **options: Any,
    ) -> None:
        if "betas" in options:
            raise ValueError(f"{type(self).__name__} has one memory: give beta= or horizon=, not betas=")
        if (beta is None) == (horizon is None):
            raise ValueError(
                f"{type(self).__name__} needs exactly one of beta= and horizon= (the useful training time in steps)"
            )
        beta = refresh_beta(horizon, refreshes) if horizon is not None else checked_beta(beta)  # type: ignore[arg-type]
        super().__init__(params, lr, (beta, beta), **options)
        self._tie_check = self.register_step_pre_hook(_refuse_untied)

    @property
    def beta(self) -> float:
        """The one beta of all parameter groups; setting it keeps every group tied."""
        _refuse_untied(self)
        return self.param_groups[0]["betas"][0]

    @beta.setter
    def beta(self, value: float) -> None:
        value = checked_beta(value)
        for settings in (self.defaults, *self.param_groups):
            settings["betas"] = (value, value)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As in torch; the group takes the fused kernel where torch has one for its parameters and nobody chose."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        _refuse_untied(self)
        if group["fused"] is None and not group["foreach"] and not group["differentiable"]:
            group["fused"] = _fusable(group["params"]) or None
        self._agree_with_grad_scaler()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As in torch, for its checkpoints too: a loaded tied beta wins, an untied one does not, each with a warning.

        The kernel comes with the checkpoint (`fused`, `foreach`), so that a run continues bit for bit.
        """
        own = self.beta
        super().load_state_dict(state_dict)
        loaded = {beta for group in self.param_groups for beta in group["betas"]}
        if len(loaded) > 1:
            warnings.warn(
                f"the checkpoint's betas {_betas(self)} are not tied; keeping beta = {own:g}. "
                "Its averages carry over and adapt within a few memories",
                stacklevel=2,
            )
            self.beta = own
        elif loaded != {own}:
            (self.beta,) = loaded
            warnings.warn(
                f"the checkpoint's beta {self.beta:g} replaces {own:g}; set optimizer.beta after loading to change it",
                stacklevel=2,
            )
        self._agree_with_grad_scaler()

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_tie_check" not in self.__dict__:  # unpickled or copied: hooks do not travel
            self._tie_check = self.register_step_pre_hook(_refuse_untied)
            self._agree_with_grad_scaler()

    def _agree_with_grad_scaler(self) -> None:
        # A GradScaler hands its scale to the kernel only if this says so; the fused kernel alone takes it.
        self._step_supports_amp_scaling = all(group["fused"] for group in self.param_groups)


class BalancedAdam(_OneClock):
    """`torch.optim.Adam` with `betas = (beta, beta)`. Give exactly one of `beta` and `horizon`.

    `horizon` is the useful training time in optimizer steps: beta = 1 - refreshes / horizon. All other options are
    torch's; the fused kernel is used wherever torch has one, unless `fused=False` or `foreach=True` says otherwise.

    >>> weights = [torch.nn.Parameter(torch.ones(3))]
    >>> BalancedAdam(weights, lr=3e-4, horizon=20_000).beta
    0.95
    """


class BalancedAdamW(_OneClock, torch.optim.AdamW):
    """`torch.optim.AdamW` with `betas = (beta, beta)`. Give exactly one of `beta` and `horizon`.

    `horizon` is the useful training time in optimizer steps: beta = 1 - refreshes / horizon. All other options are
    torch's; the fused kernel is used wherever torch has one, unless `fused=False` or `foreach=True` says otherwise.

    >>> weights = [torch.nn.Parameter(torch.ones(3))]
    >>> BalancedAdamW(weights, lr=3e-4, horizon=20_000, weight_decay=0.1).beta
    0.95
    """


def _refuse_untied(optimizer: torch.optim.Optimizer, *_: object) -> None:
    betas = _betas(optimizer)
    if len({beta for pair in betas for beta in pair}) > 1:
        raise RuntimeError(
            f"beta1 and beta2 have come apart: {betas}. Something rewrote them: OneCycleLR and CyclicLR do unless "
            "given cycle_momentum=False. To change the memory, set optimizer.beta"
        )


def _betas(optimizer: torch.optim.Optimizer) -> list[tuple[float, float]]:
    return sorted({tuple(group["betas"]) for group in optimizer.param_groups})


def _fusable(params: list[torch.Tensor]) -> bool:
    devices = _get_fused_kernels_supported_devices()
    return all(p.is_floating_point() and p.device.type in devices for p in params)
