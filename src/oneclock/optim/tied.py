"""What ties the betas of torch's Adam: one `beta`, a check at every step that nothing untied it, and in checkpoints.

The fused kernel is taken where nobody chose, and handed only what it can walk (`layout`).
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from torch.utils._foreach_utils import _get_fused_kernels_supported_devices

from oneclock.optim import compact_group
from oneclock.optim.compact import RATIO, SCALE, packed, unpacked
from oneclock.optim.layout import alike, gather, is_walkable, misfit
from oneclock.rule import Rule, checked_beta, one_beta

_SETTING_BETA = threading.Lock()
_TORCHS_STEP = torch.optim.Adam.step
while getattr(_TORCHS_STEP, "hooked", False):  # an Adam made before wraps it with hooks, and ours has its own wrapping
    _TORCHS_STEP = _TORCHS_STEP.__wrapped__  # type: ignore[attr-defined]


class OneClock(torch.optim.Adam):
    """What ties the betas of a torch Adam; the two public classes differ only in how weight decay enters."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor,
        *,
        beta: float | None,
        horizon: float | None,
        rule: Rule | str | None,
        refreshes: float | None,
        betas: None,
        state: str,
        stochastic_rounding: bool,
        **options: Any,
    ) -> None:
        if state not in ("full", "compact"):
            raise ValueError(f"state is 'full' (torch's own) or 'compact' (three bytes per parameter), got {state!r}")
        if stochastic_rounding and state == "full":
            raise ValueError("stochastic_rounding goes with state='compact'; torch's own kernels round to the nearest")
        self._compact, self._stochastic = state == "compact", stochastic_rounding
        self._known: dict[int, Any] = {}
        if betas is not None:
            raise ValueError(f"{type(self).__name__} has one memory: give beta= or horizon=, not betas=")
        beta = one_beta(beta, horizon, rule, refreshes)
        super().__init__(params, lr, (beta, beta), **options)
        self._tie_check = self.register_step_pre_hook(_refuse_untied)

    @property
    def beta(self) -> float:
        """The one beta of all parameter groups; setting it keeps every group tied, from any thread.

        A step under way in another thread may take its last groups with the new beta.
        """
        _refuse_untied(self)
        return self.param_groups[0]["betas"][0]

    @beta.setter
    def beta(self, value: float) -> None:
        value = checked_beta(value)
        with _SETTING_BETA:
            for settings in (self.defaults, *self.param_groups):
                settings["betas"] = (value, value)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As in torch; the group takes the fused kernel where torch has one for its parameters and nobody chose."""
        for name in {"beta", "horizon", "rule", "refreshes"} & set(param_group):
            raise ValueError(
                f"a parameter group has no {name} of its own: all groups share one memory, set beside them"
            )
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        _refuse_untied(self)
        if self._compact:
            compact_group.refuse(group)
        else:
            _choose_kernel(group)
        self._agree_with_grad_scaler()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As in torch, for its checkpoints too: a loaded tied beta wins, an untied one does not, each with a warning.

        The kernel comes with the checkpoint (`fused`, `foreach`), so that a run continues bit for bit. State that does
        not fit the parameters, such as that of parameters in another order, is a ValueError, and nothing is loaded.
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

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_compact": self._compact, "_stochastic": self._stochastic}

    def __setstate__(self, state: dict[str, Any]) -> None:
        compact = state.get("_compact", getattr(self, "_compact", False))
        saved, number = state["state"], 0
        for group in state["param_groups"]:
            for p in group["params"]:
                if why := misfit(p, saved.get(p, {})) or misfit(p, saved.get(p, {}), (RATIO, SCALE), dtypes=False):
                    raise ValueError(f"parameter {number}: {why}")
                number += 1
            (_pack if compact else _unpack)(group, saved)
        super().__setstate__(state)
        self._known = {}
        if "_tie_check" not in self.__dict__:  # unpickled or copied: hooks do not travel
            self._tie_check = self.register_step_pre_hook(_refuse_untied)
            self._agree_with_grad_scaler()

    def step(self, closure: Any = None) -> Any:
        """One optimization step, as in torch; `closure` reevaluates the model and returns the loss."""
        return self._compact_step(closure) if self._compact else _TORCHS_STEP(self, closure)

    @torch.no_grad()
    def _compact_step(self, closure: Any) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            compact_group.step(group, self.state, self._known, self._stochastic)
        return loss

    def _init_group(self, group: dict[str, Any], *lists: list[Tensor]) -> bool:
        """Torch's gathering of what a step needs; for the fused kernel, of what that can walk."""
        if not group["fused"] or torch.compiler.is_compiling():
            complex_ = super()._init_group(group, *lists)
            if group["fused"] and not alike(
                lists
            ):  # a compiled step would keep a copy for ever: torch's loop needs none
                self._leave_fused(group)
            return complex_
        try:
            walkable = gather(group, self.state, self._known, lists)
        except KeyError:  # a first gradient: let torch make the state, as it likes it
            super()._init_group(group, *([] for _ in lists))
            for gathered in lists:
                gathered.clear()
            walkable = gather(group, self.state, self._known, lists)
        if walkable:
            return False
        self._leave_fused(group)
        for gathered in lists:
            gathered.clear()
        return super()._init_group(group, *lists)

    def _leave_fused(self, group: dict[str, Any]) -> None:
        group["fused"] = False
        self._agree_with_grad_scaler()
        if getattr(self, "grad_scale", None) is not None:
            self.grad_scale = self.found_inf = None
            raise RuntimeError(
                "a parameter has become a view with gaps, which the fused kernel cannot update; this step of the "
                "GradScaler is lost, and the next goes on with torch's loop"
            )

    def _agree_with_grad_scaler(self) -> None:
        # A GradScaler hands its scale to the kernel only if this says so; the fused kernel alone takes it.
        fused = all(group["fused"] for group in self.param_groups)
        self._step_supports_amp_scaling = fused and not self._compact


def _refuse_untied(optimizer: torch.optim.Optimizer, *_: object) -> None:
    if not _untied(optimizer):
        return
    with _SETTING_BETA:  # another thread may be half-way through setting beta: look again when it is done
        betas = _betas(optimizer)
    if len({beta for pair in betas for beta in pair}) > 1:
        raise RuntimeError(
            f"beta1 and beta2 have come apart: {betas}. Something rewrote them: OneCycleLR and CyclicLR do unless "
            "given cycle_momentum=False. To change the memory, set optimizer.beta"
        )


def _untied(optimizer: torch.optim.Optimizer) -> bool:
    return len({beta for group in optimizer.param_groups for beta in group["betas"]}) > 1


def _betas(optimizer: torch.optim.Optimizer) -> list[tuple[float, float]]:
    return sorted({tuple(group["betas"]) for group in optimizer.param_groups})


def _pack(group: dict[str, Any], saved: dict[Tensor, dict[str, Any]]) -> None:
    """Make the saved state of a group compact, and its own dtypes, which torch's loading does not keep."""
    if group["amsgrad"]:
        raise ValueError("the checkpoint was made with amsgrad=True, which compact state does not have")
    group.update(fused=None, foreach=None, capturable=False)
    for p in (p for p in group["params"] if saved.get(p)):
        own = saved[p]
        if RATIO not in own:
            saved[p] = packed(p, own, group["betas"], group["eps"])
        else:
            own.update({RATIO: own[RATIO].to(torch.int8), SCALE: own[SCALE].to(torch.bfloat16)})


def _unpack(group: dict[str, Any], saved: dict[Tensor, dict[str, Any]]) -> None:
    """Make the saved state of a group torch's own; one that was compact takes the kernel anew."""
    compact = [p for p in group["params"] if RATIO in saved.get(p, {})]
    for p in compact:
        saved[p] = unpacked(p, saved[p], group["betas"], group["eps"])
    if compact:
        _choose_kernel(group)


def _choose_kernel(group: dict[str, Any]) -> None:
    if group["fused"] is None and not group["foreach"] and not group["differentiable"]:
        group["fused"] = _fusable(group["params"]) or None


def _fusable(params: list[Tensor]) -> bool:
    devices = _get_fused_kernels_supported_devices()
    return all(p.is_floating_point() and p.device.type in devices and is_walkable(p) for p in params)
