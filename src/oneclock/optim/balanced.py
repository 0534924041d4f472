r"""BalancedAdam and BalancedAdamW: torch's Adam and AdamW with tied betas, `beta1 = beta2 = beta`.

They add to torch's classes what the tie needs, and a better default kernel. Everything else is torch's.

Tied betas bound the update. Both averages give the gradients g_1 .. g_t the same weights:

    m_t = sum_i w_i g_i,    v_t = sum_i w_i g_i^2,    w_i = (1 - beta) beta^(t-i) / (1 - beta^t) >= 0

after bias correction, and the weights sum to one. Hence m_t^2 <= v_t (Cauchy-Schwarz), and Adam's step, weight decay
aside, is |lr * m_t / (sqrt(v_t) + eps)| <= lr for every coordinate, at every t, for any gradients. With beta1 < beta2
there is no such bound: the first gradient after many zeros moves a parameter by up to
lr * (1 - beta1) / sqrt(1 - beta2).
"""

from __future__ import annotations

import threading
import warnings
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from oneclock.optim import compact_group, fused_lists
from oneclock.optim.checkpoints import check_loaded, convert, merge_betas, unwrap, without_cast
from oneclock.optim.group_betas import beta_settings, check_tied, move_shared_beta, shared_beta
from oneclock.rule import Rule, resolve_beta

FUSED_DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu")
"""Devices for which every supported torch has a fused kernel."""
_SETTING_BETA = threading.Lock()
_TORCHS_STEP = torch.optim.Adam.step
while getattr(_TORCHS_STEP, "hooked", False):  # making an Adam wraps the method with hooks; ours has its own wrapper
    _TORCHS_STEP = _TORCHS_STEP.__wrapped__  # type: ignore[attr-defined]


class BalancedAdam(torch.optim.Adam):
    r"""`torch.optim.Adam` with tied betas, `betas = (beta, beta)`.

    One step, with gradient g and t counting from 1:

        g     <- g + weight_decay * theta
        m     <- beta * m + (1 - beta) * g
        v     <- beta * v + (1 - beta) * g^2
        theta <- theta - lr * (m / (1 - beta^t)) / (sqrt(v / (1 - beta^t)) + eps)

    Args:
        params: Parameters, named parameters, or parameter groups. A group may have its own `beta` or its own `horizon`
            (with `rule`), and its own `lr`, `eps` and `weight_decay`, as in torch.
        lr: Learning rate. No parameter moves by more than `lr` in a step, weight decay aside.
        beta: The tied beta, in [0, 1). The averages remember about 1 / (1 - beta) steps. Give `beta` or `horizon`.
        horizon: The useful training time in optimizer steps. The recommended rule turns it into beta.
        rule: Another rule for `horizon`: "paper", "refresh:300", or another of `oneclock.rule.RULE_FORMS`.
        eps: Added to the root of the averaged squares; avoids division by zero.
        weight_decay: The factor of the decay in the formula above. By default 0, and 0.01 for BalancedAdamW.
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
        >>> BalancedAdam(weights, lr=3e-4, beta=0.95).beta
        0.95
    """

    _DEFAULT_DECAY = 0.0

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        *,
        beta: float | None = None,
        horizon: float | None = None,
        rule: Rule | str | None = None,
        eps: float = 1e-8,
        weight_decay: float | None = None,
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
        if state not in ("full", "compact"):
            raise ValueError(f"state is 'full' (torch's own) or 'compact' (three bytes per parameter), got {state!r}")
        if stochastic_rounding and state == "full":
            raise ValueError("stochastic_rounding needs state='compact'; torch's own kernels round to the nearest")
        if betas is not None:
            raise ValueError(f"{type(self).__name__} has one beta: give beta= or horizon=, not betas=")
        self._compact, self._stochastic = state == "compact", stochastic_rounding
        self._checked: dict[int, Any] = {}
        beta = resolve_beta(beta, horizon, rule)
        super().__init__(
            params,
            lr,
            (beta, beta),
            eps,
            self._DEFAULT_DECAY if weight_decay is None else weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
        )

    @property
    def beta(self) -> float:
        """The beta of all parameter groups that have none of their own.

        Setting it changes these groups, from any thread. A step that runs in another thread at that moment may use the
        new beta for its last groups.
        """
        self._check_ties()
        return shared_beta(self.param_groups, self.defaults["betas"])

    @beta.setter
    def beta(self, value: float) -> None:
        with _SETTING_BETA:
            move_shared_beta([self.defaults, *self.param_groups], value)

    @property
    def group_betas(self) -> list[float]:
        """The beta of each parameter group."""
        self._check_ties()
        return [group["betas"][0] for group in self.param_groups]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group, as in torch, also with its own `beta` or `horizon`; a refused one is not added."""
        count = len(self.param_groups)
        if isinstance(param_group, dict):  # torch itself refuses everything else
            param_group = beta_settings(param_group, self.defaults["betas"])
        super().add_param_group(param_group)
        try:
            (compact_group.check_group if self._compact else _choose_kernel)(self.param_groups[-1])
        except Exception:
            del self.param_groups[count:]
            raise
        self._tell_grad_scaler()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint, as in torch; checkpoints of torch's own Adam and AdamW load too.

        Tied betas of the checkpoint replace those of this optimizer, untied ones do not; both give a warning. The
        kernel (`fused`, `foreach`) comes with the checkpoint, so that a run continues bit for bit. State that does not
        fit the parameters raises ValueError, and nothing is loaded.
        """
        before = [dict(group) for group in self.param_groups]
        super().load_state_dict(without_cast(state_dict) if self._compact else state_dict)
        for message in merge_betas(before, self.param_groups):
            warnings.warn(message, stacklevel=2)
        self.defaults["betas"] = (shared_beta(self.param_groups, self.defaults["betas"]),) * 2

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_compact": self._compact, "_stochastic": self._stochastic}

    def __setstate__(self, state: dict[str, Any]) -> None:
        compact = state.get("_compact", getattr(self, "_compact", False))
        unwrap(state["state"])
        check_loaded(state["param_groups"], state["state"])
        for group in state["param_groups"]:
            if convert(group, state["state"], compact) and not compact:
                _choose_kernel(group)
        super().__setstate__(state)
        self._checked = {}
        self._tell_grad_scaler()

    def step(self, closure: Any = None) -> Any:
        """One optimization step, as in torch. `closure` evaluates the model again and returns the loss."""
        self._check_ties()  # here, after all hooks: a hook may change betas too
        loss = self._compact_step(closure) if self._compact else _TORCHS_STEP(self, closure)
        if not torch.compiler.is_compiling():
            # Torch's fused kernel and ours write the parameters without a word to autograd. Without this a second
            # backward through an old graph would mix old and new weights; now it is an error, as with torch's loop.
            groups = (group for group in self.param_groups if self._compact or group["fused"])
            changed = [p for group in groups for p in group["params"] if p.grad is not None]
            torch.autograd.graph.increment_version(changed)
        return loss

    @torch.no_grad()
    def _compact_step(self, closure: Any) -> Any:
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            compact_group.step(group, self.state, self._checked, self._stochastic)
        return loss

    def _init_group(self, group: dict[str, Any], *lists: list[Tensor]) -> bool:
        """Fill torch's lists of what a step needs. For the fused kernel: in a form that it can walk."""
        has_complex = super()._init_group(group, *lists)
        if not group["fused"]:
            return has_complex
        compiling = torch.compiler.is_compiling()
        if fused_lists.same_layout(lists) if compiling else fused_lists.same_as_before(lists, self._checked):
            return has_complex
        if compiling or not all(map(fused_lists.is_walkable, lists[0])):
            self._leave_fused(group)  # a compiled step would keep the copies of `align`; torch's loop needs none
        else:
            torch.compiler.disable(fused_lists.align)(lists, self.state, self._checked)  # inside a compiled step too
        return has_complex

    def _leave_fused(self, group: dict[str, Any]) -> None:
        group["fused"] = False
        self._tell_grad_scaler()
        if getattr(self, "grad_scale", None) is not None:
            self.grad_scale = self.found_inf = None
            raise RuntimeError(
                "a parameter has become a view with gaps, which the fused kernel cannot update; this step of the "
                "GradScaler is lost, and later steps use torch's loop"
            )

    def _check_ties(self) -> None:
        try:
            check_tied(self.param_groups)
        except RuntimeError:
            with _SETTING_BETA:  # another thread may be setting beta right now: check again when it is done
                check_tied(self.param_groups)

    def _tell_grad_scaler(self) -> None:
        # A GradScaler passes its scale to the kernel only if this is True; only the fused kernel accepts it.
        fused = all(group["fused"] for group in self.param_groups)
        self._step_supports_amp_scaling = fused and not self._compact


class BalancedAdamW(BalancedAdam, torch.optim.AdamW):
    r"""`torch.optim.AdamW` with tied betas: BalancedAdam with decoupled weight decay, by default 0.01.

    A step begins with `theta <- (1 - lr * weight_decay) * theta` and does not change the gradient. All arguments are
    those of BalancedAdam.

    >>> weights = [torch.nn.Parameter(torch.ones(3))]
    >>> BalancedAdamW(weights, lr=3e-4, beta=0.95, weight_decay=0.1).beta
    0.95
    """

    _DEFAULT_DECAY = 0.01


def _choose_kernel(group: dict[str, Any]) -> None:
    if group["fused"] is None and not group["foreach"] and not group["differentiable"]:
        fusable = all(p.is_floating_point() and p.device.type in FUSED_DEVICES for p in group["params"])
        group["fused"] = (fusable and all(map(fused_lists.is_walkable, group["params"]))) or None
