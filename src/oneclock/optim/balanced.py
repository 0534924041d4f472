r"""BalancedAdam and BalancedAdamW: torch's Adam and AdamW with tied betas, `beta1 = beta2 = beta`.

They add to torch's classes only what the tie needs (one `beta`, a check that both betas stay equal, checkpoints that
keep them equal) and a better default kernel. Everything else, from `foreach` to distributed checkpoints, is torch's.

Tied betas bound the update. Both averages give the gradients g_1 .. g_t the same weights:

    m_t = sum_i w_i g_i,    v_t = sum_i w_i g_i^2,    w_i = (1 - beta) beta^(t-i) / (1 - beta^t) >= 0

after bias correction, and the weights sum to one. Hence m_t^2 <= v_t (Cauchy-Schwarz), and Adam's step, weight decay
aside, is |lr * m_t / (sqrt(v_t) + eps)| <= lr for every coordinate, at every t, for any gradients. With beta1 < beta2
there is no such bound: the first gradient after many zeros moves a parameter by up to
lr * (1 - beta1) / sqrt(1 - beta2).
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from oneclock.optim.tied import TiedAdam
from oneclock.rule import Rule


class BalancedAdam(TiedAdam):
    r"""`torch.optim.Adam` with tied betas, `betas = (beta, beta)`.

    One step, with gradient g and t counting from 1:

        g     <- g + weight_decay * theta
        m     <- beta * m + (1 - beta) * g
        v     <- beta * v + (1 - beta) * g^2
        theta <- theta - lr * (m / (1 - beta^t)) / (sqrt(v / (1 - beta^t)) + eps)

    Args:
        params: Parameters, named parameters, or parameter groups. A group may have its own `beta` or its own `horizon`
            (with `rule` or `refreshes`), and its own `lr`, `eps` and `weight_decay`, as in torch.
        lr: Learning rate. No parameter moves by more than `lr` in a step, weight decay aside.
        beta: The tied beta, in [0, 1). The averages remember about 1 / (1 - beta) steps. Give `beta` or `horizon`.
        horizon: The useful training time in optimizer steps. The recommended rule turns it into beta.
        rule: Another rule for `horizon`: "paper", "refresh:300", or anything else that `rule_from` accepts.
        refreshes: The paper's rule with this many refreshes, beta = 1 - refreshes / horizon. Instead of `rule`.
        eps: Added to the root of the averaged squares; avoids division by zero.
        weight_decay: L2 penalty: weight_decay * theta is added to the gradient. Decoupled decay (AdamW) if
            `decoupled_weight_decay` is True.
        amsgrad: Divide by the largest average of squares so far. Not with compact state.
        foreach: Use torch's foreach kernel. By default the fused kernel is used where torch has one.
        maximize: Maximize the objective.
        capturable: Allow capture in a CUDA graph. Not with compact state.
        differentiable: Let autograd go through the step. Not with compact state.
        fused: True or False to choose. By default the fastest kernel that is right for the parameters: torch's fused
            kernel with full state; the CPU loop or the GPU kernel with compact state. With compact state False means
            the definition in plain torch: the same numbers, slower.
        decoupled_weight_decay: Use the decay of AdamW.
        state: "full" keeps torch's two averages, eight bytes per float32 parameter. "compact" keeps three bytes per
            parameter, for float32 and bfloat16 (docs/compact.md).
        stochastic_rounding: Round bfloat16 parameters up or down at random, so that small updates are not lost. Only
            with compact state.
        betas: Not accepted. It is listed so that the error says what to give instead.

    Raises:
        ValueError: If both or neither of `beta` and `horizon` are given, if a value is out of range, if `betas` is
            given, or if compact state does not support an option or a dtype.
        RuntimeError: At a step, if the two betas of a group have become different since.

    Example:
        >>> weights = [torch.nn.Parameter(torch.ones(3))]
        >>> optimizer = BalancedAdam(weights, lr=3e-4, beta=0.95)
        >>> optimizer.beta
        0.95

        A group with its own beta:

        >>> embedding, matrix = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
        >>> groups = [{"params": [embedding], "beta": 0.5}, {"params": [matrix]}]
        >>> BalancedAdam(groups, lr=3e-4, beta=0.95).group_betas
        [0.5, 0.95]
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


class BalancedAdamW(TiedAdam, torch.optim.AdamW):
    r"""`torch.optim.AdamW` with tied betas, `betas = (beta, beta)`.

    One step, with gradient g and t counting from 1:

        theta <- (1 - lr * weight_decay) * theta
        m     <- beta * m + (1 - beta) * g
        v     <- beta * v + (1 - beta) * g^2
        theta <- theta - lr * (m / (1 - beta^t)) / (sqrt(v / (1 - beta^t)) + eps)

    Args:
        params: Parameters, named parameters, or parameter groups. A group may have its own `beta` or its own `horizon`
            (with `rule` or `refreshes`), and its own `lr`, `eps` and `weight_decay`, as in torch.
        lr: Learning rate. No parameter moves by more than `lr` in a step, weight decay aside.
        beta: The tied beta, in [0, 1). The averages remember about 1 / (1 - beta) steps. Give `beta` or `horizon`.
        horizon: The useful training time in optimizer steps. The recommended rule turns it into beta.
        rule: Another rule for `horizon`: "paper", "refresh:300", or anything else that `rule_from` accepts.
        refreshes: The paper's rule with this many refreshes, beta = 1 - refreshes / horizon. Instead of `rule`.
        eps: Added to the root of the averaged squares; avoids division by zero.
        weight_decay: Decoupled decay: a step first multiplies every parameter by 1 - lr * weight_decay.
        amsgrad: Divide by the largest average of squares so far. Not with compact state.
        foreach: Use torch's foreach kernel. By default the fused kernel is used where torch has one.
        maximize: Maximize the objective.
        capturable: Allow capture in a CUDA graph. Not with compact state.
        differentiable: Let autograd go through the step. Not with compact state.
        fused: True or False to choose. By default the fastest kernel that is right for the parameters: torch's fused
            kernel with full state; the CPU loop or the GPU kernel with compact state. With compact state False means
            the definition in plain torch: the same numbers, slower.
        state: "full" keeps torch's two averages, eight bytes per float32 parameter. "compact" keeps three bytes per
            parameter, for float32 and bfloat16 (docs/compact.md).
        stochastic_rounding: Round bfloat16 parameters up or down at random, so that small updates are not lost. Only
            with compact state.
        betas: Not accepted. It is listed so that the error says what to give instead.

    Raises:
        ValueError: If both or neither of `beta` and `horizon` are given, if a value is out of range, if `betas` is
            given, or if compact state does not support an option or a dtype.
        RuntimeError: At a step, if the two betas of a group have become different since.

    Example:
        >>> weights = [torch.nn.Parameter(torch.ones(3))]
        >>> optimizer = BalancedAdamW(weights, lr=3e-4, beta=0.95, weight_decay=0.1)
        >>> optimizer.beta
        0.95

        A group with its own beta:

        >>> embedding, matrix = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
        >>> groups = [{"params": [embedding], "beta": 0.5}, {"params": [matrix]}]
        >>> BalancedAdamW(groups, lr=3e-4, beta=0.95).group_betas
        [0.5, 0.95]
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
