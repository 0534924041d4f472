"""MemoryProbe: the memory that a training's own gradients ask for. Beyond the paper; it looks, and changes nothing.

An average with a memory of H steps holds the noise of about 2 H gradients, and lags H steps behind their mean. Where
each gradient has noise of variance V about a mean that moves by sqrt(D) a step, its error is

    V / (2 H) + D H^2,    least at    H = (V / (4 D))^(1/3)

which is the pilot rule of arXiv 2610.08624. Two gradients k steps apart differ by 2 V + D k^2 in the mean square: a
line over k^2 through some lags gives both. The drift may drown in the noise: then there is no such H, only the noise
and a memory that is at least so long, and the answer says so.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

LAGS = (1, 2, 4, 8, 16, 32)
BLOCKS = 8
"""The steps are cut into so many blocks, whose slopes say how sure the drift is."""

STUDENT = 2.365
"""The two-sided 95 % point of Student's t with BLOCKS - 1 degrees of freedom."""


@dataclass(frozen=True)
class Pilot:
    """What a probe found: `noise` V and `drift` D per coordinate and step, and the memory H that balances them.

    Where the drift is not told from zero, `noise_only` is true, `memory` and `beta` are None, and `at_least` is the
    memory that the largest likely drift would ask for.
    """

    steps: int
    noise: float
    drift: float
    drift_interval: tuple[float, float]
    noise_only: bool
    memory: float | None
    at_least: float
    beta: float | None


class MemoryProbe:
    """Watches a sample of the gradient's coordinates. Call `step()` after every `backward()`, before `zero_grad()`.

    Args:
        params: The parameters, or groups of them, as an optimizer takes them.
        size: How many coordinates to watch, drawn once.
        lags: Steps between the gradients that are compared.
        seed: Of the draw.

    >>> weight = torch.nn.Parameter(torch.zeros(1000))
    >>> probe, generator = MemoryProbe([weight]), torch.Generator().manual_seed(0)
    >>> for step in range(400):
    ...     weight.grad = 0.02 * step + torch.randn(1000, generator=generator)
    ...     probe.step()
    >>> pilot = probe.pilot()
    >>> round(pilot.noise, 1), round(pilot.drift, 4), round(pilot.memory, 1)  # V = 1, D = 0.02 ** 2
    (1.0, 0.0004, 8.5)
    """

    def __init__(
        self,
        params: Iterable[torch.nn.Parameter] | Iterable[dict],
        size: int = 65_536,
        lags: Sequence[int] = LAGS,
        seed: int = 0,
    ) -> None:
        self._params = [one for entry in params for one in (entry["params"] if isinstance(entry, dict) else [entry])]
        if not self._params or min(lags, default=0) < 1 or len({*lags}) < 2:
            raise ValueError("a probe needs parameters to watch, and at least two lags of one step or more")
        self._places = _drawn([one.numel() for one in self._params], size, seed)
        self._lags = tuple(sorted({*lags}))
        self._past: deque[torch.Tensor] = deque(maxlen=self._lags[-1] + 1)
        self._squares: list[list[float]] = []

    @torch.no_grad()
    def step(self) -> None:
        """Take note of the gradients as they are."""
        self._past.append(self._watched())
        if len(self._past) > self._lags[-1]:
            now = self._past[-1]
            means = [(now - self._past[-1 - lag]).square().mean() for lag in self._lags]
            self._squares.append(torch.stack(means).double().tolist())

    def pilot(self) -> Pilot:
        """What the gradients so far ask for; ValueError where they are too few."""
        if len(self._squares) < BLOCKS:
            raise ValueError(
                f"the probe has compared gradients over {len(self._squares)} steps: it needs {BLOCKS + self._lags[-1]}"
            )
        squares = torch.tensor(self._squares, dtype=torch.float64)
        if not squares.isfinite().all():
            raise ValueError("the probe met gradients that are not finite: clip them, or start it later")
        intercept, slope = self._line(squares.mean(0))
        slopes = torch.stack([self._line(block.mean(0))[1] for block in squares.tensor_split(BLOCKS)])
        spread = STUDENT * float(slopes.std()) / math.sqrt(BLOCKS)
        return _pilot(len(self._squares) + self._lags[-1], float(intercept) / 2, float(slope), spread)

    def _line(self, means: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Intercept and slope over the squared lags; a square's own spread grows with it, so small ones weigh more."""
        x = torch.tensor(self._lags, dtype=torch.float64).square()
        weight = 1 / means.square().clamp_min(torch.finfo(torch.float64).tiny)
        weight = weight / weight.sum()
        middle, height = (weight * x).sum(), (weight * means).sum()
        slope = (weight * (x - middle) * (means - height)).sum() / (weight * (x - middle).square()).sum()
        return height - slope * middle, slope

    def _watched(self) -> torch.Tensor:
        parts = [
            torch.zeros(len(places)) if one.grad is None else one.grad.reshape(-1)[places.to(one.device)].float().cpu()
            for one, places in zip(self._params, self._places, strict=True)
        ]
        return torch.cat(parts)


def _pilot(steps: int, noise: float, drift: float, spread: float) -> Pilot:
    low, high = drift - spread, drift + spread
    noise_only = low <= 0 or noise <= 0
    memory = None if noise_only else max(_balance(noise, drift), 1.0)
    return Pilot(
        steps=steps,
        noise=max(noise, 0.0),
        drift=drift,
        drift_interval=(low, high),
        noise_only=noise_only,
        memory=memory,
        at_least=max(_balance(max(noise, 0.0), high), 1.0) if high > 0 else math.inf,
        beta=None if memory is None else 1 - 1 / memory,
    )


def _balance(noise: float, drift: float) -> float:
    return (noise / (4 * drift)) ** (1 / 3)


def _drawn(sizes: Sequence[int], size: int, seed: int) -> list[torch.Tensor]:
    """Places in each parameter: `size` of all coordinates, each as likely as any other; all where there are fewer."""
    total = sum(sizes)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.arange(total) if total <= size else torch.randint(total, (size,), generator=generator).sort().values
    starts = torch.tensor([0, *sizes]).cumsum(0)
    return [chosen[(chosen >= low) & (chosen < high)] - low for low, high in pairwise(starts)]
