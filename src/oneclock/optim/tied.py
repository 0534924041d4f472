"""TiedAdam: torch's Adam with one beta per parameter group instead of two.

It adds what the tie needs: one `beta`, a check before every step that both betas are still equal, and checkpoints that
keep them equal. It also chooses torch's fused kernel by default, and gives it only what it can handle (`layout`).
"""

from __future__ import annotations

import threading
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from oneclock.optim import compact_group
from oneclock.optim.betas import beta_settings, check_tied, move_shared_beta, resolve_beta, shared_beta
from oneclock.optim.checkpoints import (
    check_loaded,
    merge_betas,
    pack_group,
    unpack_group,
    unwrap,
    without_cast,
)
from oneclock.optim.layout import gather, is_walkable, same_layout
from oneclock.rule import Rule

FUSED_DEVICES = ("cpu", "cuda", "mps", "xpu", "hpu")
"""Devices for which every supported torch has a fused kernel."""
_SETTING_BETA = threading.Lock()
_TORCHS_STEP = torch.optim.Adam.step
while getattr(_TORCHS_STEP, "hooked", False):  # making an Adam wraps the method with hooks; ours has its own wrapper
    _TORCHS_STEP = _TORCHS_STEP.__wrapped__  # type: ignore[attr-defined]


class TiedAdam(torch.optim.Adam):
    """Torch's Adam with tied betas. The two public classes differ only in how weight decay enters."""

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
            raise ValueError("stochastic_rounding needs state='compact'; torch's own kernels round to the nearest")
        self._compact, self._stochastic = state == "compact", stochastic_rounding
        self._checked: dict[int, Any] = {}
        if betas is not None:
            raise ValueError(f"{type(self).__name__} has one beta: give beta= or horizon=, not betas=")
        beta = resolve_beta(beta, horizon, rule, refreshes)
        super().__init__(params, lr, (beta, beta), **options)

    @property
    def beta(self) -> float:
        """The beta of all parameter groups that have none of their own.

        Setting it changes all of these groups and leaves the others. It may be set from any thread. A step that runs
        in another thread at that moment may use the new beta for its last groups.
        """
        _check_ties(self)
        return shared_beta(self.param_groups, self.defaults["betas"])

    @beta.setter
    def beta(self, value: float) -> None:
        with _SETTING_BETA:
            move_shared_beta([self.defaults, *self.param_groups], value)

    @property
    def group_betas(self) -> list[float]:
        """The beta of each parameter group."""
        _check_ties(self)
        return [group["betas"][0] for group in self.param_groups]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group, as in torch. A group may have its own `beta`, or its own `horizon`.

        If the group is refused, the optimizer is left as it was.
        """
        count = len(self.param_groups)
        if isinstance(param_group, dict):  # torch itself refuses everything else
            param_group = beta_settings(param_group, self.defaults["betas"])
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            if self._compact:
                compact_group.check_group(group)
            else:
                _choose_kernel(group)
        except Exception:
            del self.param_groups[count:]
            raise
        self._tell_grad_scaler()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a checkpoint, as in torch; checkpoints of torch's own Adam and AdamW load too.

        Tied betas of the checkpoint replace those of this optimizer. Untied betas do not. Both cases give a warning.
        The kernel (`fused`, `foreach`) comes with the checkpoint, so that a run continues bit for bit. State that does
        not fit the parameters raises ValueError, and nothing is loaded.
        """
        if self._compact:  # torch would turn the step counter of a fused group into float32
            plain = {"fused": None, "foreach": None, "capturable": False}
            groups = [{**group, **plain} for group in state_dict["param_groups"]]
            state_dict = {**state_dict, "param_groups": groups, "state": without_cast(state_dict["state"])}
        before = [dict(group) for group in self.param_groups]
        super().load_state_dict(state_dict)
        for message in merge_betas(before, self.param_groups):
            warnings.warn(message, stacklevel=2)
        self.defaults["betas"] = (shared_beta(self.param_groups, self.defaults["betas"]),) * 2

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_compact": self._compact, "_stochastic": self._stochastic}

    def __setstate__(self, state: dict[str, Any]) -> None:
        compact = state.get("_compact", getattr(self, "_compact", False))
        saved = state["state"]
        unwrap(saved)
        check_loaded(state["param_groups"], saved)
        for group in state["param_groups"]:
            if compact:
                pack_group(group, saved)
            elif unpack_group(group, saved):
                _choose_kernel(group)
        super().__setstate__(state)
        self._checked = {}
        self._tell_grad_scaler()

    def step(self, closure: Any = None) -> Any:
        """One optimization step, as in torch. `closure` evaluates the model again and returns the loss."""
        _check_ties(self)  # here, after all hooks: a hook may change betas too
        loss = self._compact_step(closure) if self._compact else _TORCHS_STEP(self, closure)
        if not torch.compiler.is_compiling():
            self._tell_autograd()
        return loss

    @torch.no_grad()
    def _compact_step(self, closure: Any) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            compact_group.step(group, self.state, self._checked, self._stochastic)
        return loss

    def _init_group(self, group: dict[str, Any], *lists: list[Tensor]) -> bool:
        """Fill torch's lists of what a step needs. For the fused kernel: in a form that it can walk."""
        if not group["fused"] or torch.compiler.is_compiling():
            has_complex = super()._init_group(group, *lists)
            if group["fused"] and not same_layout(lists):
                self._leave_fused(group)  # a compiled step would keep a copy; torch's loop needs none
            return has_complex
        try:
            walkable = gather(group, self.state, self._checked, lists)
        except KeyError:  # the first gradient of a parameter: let torch create the state
            super()._init_group(group, *([] for _ in lists))
            for gathered in lists:
                gathered.clear()
            walkable = gather(group, self.state, self._checked, lists)
        if walkable:
            return False
        self._leave_fused(group)
        for gathered in lists:
            gathered.clear()
        return super()._init_group(group, *lists)

    def _leave_fused(self, group: dict[str, Any]) -> None:
        group["fused"] = False
        self._tell_grad_scaler()
        if getattr(self, "grad_scale", None) is not None:
            self.grad_scale = self.found_inf = None
            raise RuntimeError(
                "a parameter has become a view with gaps, which the fused kernel cannot update; this step of the "
                "GradScaler is lost, and later steps use torch's loop"
            )

    def _tell_autograd(self) -> None:
        # Torch's fused kernel and ours write the parameters without a word to autograd. Without this a second backward
        # through an old graph would mix old and new weights; now it is an error, as with torch's plain loop.
        groups = (group for group in self.param_groups if self._compact or group["fused"])
        changed = [p for group in groups for p in group["params"] if p.grad is not None]
        torch.autograd.graph.increment_version(changed)

    def _tell_grad_scaler(self) -> None:
        # A GradScaler passes its scale to the kernel only if this is True; only the fused kernel accepts it.
        fused = all(group["fused"] for group in self.param_groups)
        self._step_supports_amp_scaling = fused and not self._compact


def _check_ties(optimizer: torch.optim.Optimizer) -> None:
    try:
        check_tied(optimizer.param_groups)
    except RuntimeError:
        with _SETTING_BETA:  # another thread may be setting beta right now: check again when it is done
            check_tied(optimizer.param_groups)


def _choose_kernel(group: dict[str, Any]) -> None:
    if group["fused"] is None and not group["foreach"] and not group["differentiable"]:
        fusable = all(p.is_floating_point() and p.device.type in FUSED_DEVICES for p in group["params"])
        group["fused"] = (fusable and all(map(is_walkable, group["params"]))) or None
