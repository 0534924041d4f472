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

from typing import Literal

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from oneclock.optim.tied import OneClock
from oneclock.rule import Rule


class BalancedAdam(OneClock):
    """`torch.optim.Adam` with `betas = (beta, beta)`.

    Give exactly one of `beta` and `horizon`, the useful training time in optimizer steps, from which the recommended
    rule makes beta: 1 - 1000 / horizon from 6,000 steps on. With `horizon` may come `rule` ("paper", "refresh:300" or
    another that `rule_from` takes, or a rule value) or `refreshes` (that many in the paper's rule). All other options
    are torch's. The fused kernel is used wherever torch has one and it is right, unless `fused=False` or
    `foreach=True` says otherwise.

    `state="compact"` keeps three bytes of state per parameter instead of eight (docs/compact.md), for float32 and
    bfloat16 parameters, without amsgrad, capturable and differentiable; with `stochastic_rounding` bfloat16 parameters
    are rounded so that small updates are not lost.

    Raises ValueError for both or neither of `beta` and `horizon`, for what they cannot be, for `betas=`, and for a
    parameter group with a beta of its own; RuntimeError at a step before which something untied the betas.

    >>> weights = [torch.nn.Parameter(torch.ones(3))]
    >>> BalancedAdam(weights, lr=3e-4, horizon=20_000).beta
    0.95
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        beta: float | None = None,
        horizon: float | None = None,
        rule: Rule | str | None = None,
        refreshes: float | None = None,
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
        state: Literal["full", "compact"] = "full",
        stochastic_rounding: bool = False,
        betas: None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            beta=beta,
            horizon=horizon,
            rule=rule,
            refreshes=refreshes,
            betas=betas,
            state=state,
            stochastic_rounding=stochastic_rounding,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=decoupled_weight_decay,
        )


class BalancedAdamW(OneClock, torch.optim.AdamW):
    """`torch.optim.AdamW` with `betas = (beta, beta)`.

    Give exactly one of `beta` and `horizon`, the useful training time in optimizer steps, from which the recommended
    rule makes beta: 1 - 1000 / horizon from 6,000 steps on. With `horizon` may come `rule` ("paper", "refresh:300" or
    another that `rule_from` takes, or a rule value) or `refreshes` (that many in the paper's rule). All other options
    are torch's. The fused kernel is used wherever torch has one and it is right, unless `fused=False` or
    `foreach=True` says otherwise.

    `state="compact"` keeps three bytes of state per parameter instead of eight (docs/compact.md), for float32 and
    bfloat16 parameters, without amsgrad, capturable and differentiable; with `stochastic_rounding` bfloat16 parameters
    are rounded so that small updates are not lost.

    Raises ValueError for both or neither of `beta` and `horizon`, for what they cannot be, for `betas=`, and for a
    parameter group with a beta of its own; RuntimeError at a step before which something untied the betas.

    >>> weights = [torch.nn.Parameter(torch.ones(3))]
    >>> BalancedAdamW(weights, lr=3e-4, horizon=20_000, weight_decay=0.1).beta
    0.95
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        beta: float | None = None,
        horizon: float | None = None,
        rule: Rule | str | None = None,
        refreshes: float | None = None,
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        state: Literal["full", "compact"] = "full",
        stochastic_rounding: bool = False,
        betas: None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            beta=beta,
            horizon=horizon,
            rule=rule,
            refreshes=refreshes,
            betas=betas,
            state=state,
            stochastic_rounding=stochastic_rounding,
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
        )
