"""AdamW over stacked parameters: each member has its own betas, learning rate and weight decay.

One call of torch's fused kernel per member, over the member's slices. The betas may change with the step; bias
correction is torch's own, 1 - beta ** t with the beta of step t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from oneclock.lab.studies.models import is_decayed

EPSILON = 1e-8


class StackedAdamW:
    """The moments of an ensemble and one update of all its members."""

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        self.names = [*parameters]
        self.first = {name: torch.zeros_like(value) for name, value in parameters.items()}
        self.second = {name: torch.zeros_like(value) for name, value in parameters.items()}
        decayed = [name for name in self.names if is_decayed(name)]
        plain = [name for name in self.names if not is_decayed(name)]
        members = range(len(next(iter(parameters.values()))))
        stacks = (parameters, self.first, self.second)
        self._groups = [
            (names, share, [[_slices(stack, names, member) for stack in stacks] for member in members])
            for names, share in ((decayed, 1.0), (plain, 0.0))
            if names  # the kernel does not accept an empty list
        ]

    def step(
        self,
        gradients: Mapping[str, Tensor],
        number: int,
        betas: Sequence[tuple[float, float]],
        lrs: Sequence[float],
        decays: Sequence[float],
    ) -> None:
        """Update `number`, counted from 1, of every member, in place."""
        steps = torch.tensor(float(number))
        for names, share, slices in self._groups:
            rows = [gradients[name].contiguous().unbind(0) for name in names]  # the kernel reads plain memory
            for member, (values, first, second) in enumerate(slices):
                torch._fused_adamw_(
                    values,
                    [one[member] for one in rows],
                    first,
                    second,
                    [],
                    [steps] * len(names),
                    lr=lrs[member],
                    beta1=betas[member][0],
                    beta2=betas[member][1],
                    weight_decay=decays[member] * share,
                    eps=EPSILON,
                    amsgrad=False,
                    maximize=False,
                )


def _slices(stack: Mapping[str, Tensor], names: Sequence[str], member: int) -> list[Tensor]:
    return [stack[name].detach()[member] for name in names]
