"""A study's runs as sweeps of the evidence base: means over seeds, with standard errors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from oneclock.evidence.table import Cell, EvidenceSweep
from oneclock.runs.record import RunRecord
from oneclock.runs.table import read_source

NEAR = 1.1
"""Cells within this factor of the lowest mean share one estimate of the seed effects and of the noise."""

Key = tuple[float, float, float | None]
"""beta1, beta2, learning rate."""


def study_sweeps(study: str | Path, source: str = "yours") -> list[EvidenceSweep]:
    """Every sweep of a study folder, complete or not; its length is the planned steps.

    Model size and tokens per batch are not known from the records: they are empty.
    """
    return [
        EvidenceSweep(
            source=source,
            name=sweep.name,
            task=sweep.name,
            weights=None,
            batch=None,
            tokens_per_batch=None,
            steps=round(sweep.budget),
            optimizer="adamw",
            varied="tied",
            lr_tuned=sweep.has_lrs,
            cells=tuple(evidence_cells([*sweep.tied, *sweep.untied])),
        )
        for sweep in read_source(Path(study)).sweeps
        if sweep.budget is not None and sweep.tied
    ]


def evidence_cells(runs: Iterable[RunRecord]) -> list[Cell]:
    """One cell per (beta1, beta2, lr): the loss of the mean seed, and its standard error.

    Seeds share weights and batches over all cells, so a seed's effect is estimated by least squares over the cells near
    the best and removed. The noise is pooled over all replicate cells near the best; if one pair of untied betas
    spreads more than that, its own spread counts.
    """
    losses: dict[Key, dict[int, float]] = defaultdict(dict)
    for run in runs:
        losses[(*run.key.betas, run.lr)][run.seed] = run.loss
    finite = {key: by_seed for key, by_seed in losses.items() if all(map(math.isfinite, by_seed.values()))}
    lowest = min((_mean(by_seed.values()) for by_seed in finite.values()), default=math.nan)
    near = {key: by_seed for key, by_seed in finite.items() if _mean(by_seed.values()) <= NEAR * lowest}
    effects = _seed_effects(near)
    levels = {
        key: _mean(loss - effects.get(seed, 0.0) for seed, loss in by_seed.items()) for key, by_seed in finite.items()
    }
    squares = {
        key: math.fsum((loss - effects[seed] - levels[key]) ** 2 for seed, loss in by_seed.items())
        for key, by_seed in near.items()
    }
    free = sum(len(by_seed) - 1 for by_seed in near.values()) - max(len(effects) - 1, 0)
    noise = math.sqrt(math.fsum(squares.values()) / free) if free > 0 else None
    result = []
    for key in sorted(losses, key=str):
        own = [other for other in near if other[:2] == key[:2]] if key[0] != key[1] else []
        degrees = sum(len(near[other]) - 1 for other in own)
        spread = noise
        if noise is not None and degrees >= 2:
            spread = max(noise, math.sqrt(math.fsum(squares[other] for other in own) / degrees))
        seeds = len(losses[key])
        se = None if spread is None or key not in levels else spread / math.sqrt(seeds)
        result.append(Cell(*key, seeds, levels.get(key), se))
    return result


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def _seed_effects(near: dict[Key, dict[int, float]]) -> dict[int, float]:
    """What each seed adds to the loss, zero on average over the seeds."""
    seeds = sorted({seed for by_seed in near.values() for seed in by_seed})
    if not seeds:
        return {}
    lines, values = [], []
    for place, by_seed in enumerate(near.values()):
        for seed, loss in by_seed.items():
            line = np.zeros(len(near) + len(seeds))
            line[place], line[len(near) + seeds.index(seed)] = 1, 1
            lines.append(line)
            values.append(loss)
    solved = np.linalg.lstsq(np.array(lines), np.array(values), rcond=None)[0][len(near) :]
    return dict(zip(seeds, solved - solved.mean(), strict=True))
