"""Studies to report on, written through the records as a sweep writes them: smooth curves with seeded noise."""

import math
import random
from collections.abc import Iterable
from pathlib import Path

from oneclock.rule import GRID
from oneclock.runs.folder import RunFolder
from oneclock.runs.key import RunKey

SCRIPT = "<script>alert(1)</script>"
ENVIRONMENT = {"python": "3.11.2", "versions": {"torch": "2.13.0"}, "device": "cpu", "threads": 1}


def write_run(
    study: Path,
    experiment: str,
    beta: float | tuple[float, float],
    seed: int,
    *,
    split: str = "development",
    budget: int = 20_000,
    evaluations: int = 20,
    best: float = 0.944,
    ending: str | None = "finished",
    wiggle: float = 0.01,
) -> RunFolder:
    """One run whose loss is lowest for a beta near `best` and turns up after two thirds of the budget."""
    identity = RunKey(experiment, beta, seed, budget, split=split)
    run = RunFolder.start(study / "runs" / identity.folder, identity, ENVIRONMENT)
    noise = random.Random(f"{experiment} {beta} {seed}")
    tied = beta if isinstance(beta, float) else beta[1]
    distance = math.log10((1 - tied) / (1 - best))
    floor = 2.0 + 0.05 * distance**2 + noise.gauss(0, wiggle)
    lines = []
    for index in range(1, evaluations + 1):
        x = index / evaluations
        loss = floor + 3 * math.exp(-6 * x) + 0.4 * max(0.0, x - 0.66) ** 2 + noise.gauss(0, wiggle / 10)
        lines.append(f'{{"step": {budget * index // evaluations}, "val_loss": {loss}, "train_loss": {loss - 0.1}}}\n')
    (run.path / "curve.jsonl").write_text("".join(lines))
    if ending is not None:
        run.finish(ending, seconds=1.0, reason="worker died" if ending == "failed" else None)
    return run


def write_study(
    study: Path,
    experiments: Iterable[str] = ("digits", "shakespeare"),
    betas: tuple[float, ...] = GRID,
    repeats: int = 5,
    **settings: int,
) -> Path:
    """The paper's protocol for every experiment: all betas with seed 1, `repeats` of them with seeds 2 and 3."""
    names = list(experiments)
    for place, name in enumerate(names):
        split = "heldout" if len(names) > 1 and place >= len(names) * 2 / 3 else "development"
        best = (0.944, 0.9, 0.968)[place % 3]
        near = sorted(betas, key=lambda beta: abs(math.log10((1 - beta) / (1 - best))))[:repeats]
        for beta in betas:
            for seed in (1, 2, 3) if beta in near else (1,):
                write_run(study, name, beta, seed, split=split, best=best, **settings)
    return study
