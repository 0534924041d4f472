"""The pilot rule put to the test: does H = (V / 4D)^(1/3), from gradients early in training, find the best memory?

    python benchmarks/pilot_rule.py [--steps 200] [--seeds 1 2 3]

Each task of the joint study is trained for a few steps, at its own rate and the recommended beta, with a `MemoryProbe`
beside it; printed is the memory that its gradients ask for, next to the one that the study measured to be best. The
pilot knows nothing of the horizon: where the best memory grows with it, the pilot cannot.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from compact_quality import optimizer_of

from oneclock import data, models, open_study
from oneclock.experiments import Experiment, find
from oneclock.optim.probe import MemoryProbe, Pilot
from oneclock.rule import beta_for, memory_horizon
from oneclock.training.schedule import learning_rate

STUDIES = Path(__file__).resolve().parents[1] / "studies"
TASKS = [f"joint-{family}-{steps}" for family in ("llama", "gpt2", "vit") for steps in (250, 1000, 4000)]


def pilot(experiment: Experiment, seed: int, steps: int) -> Pilot:
    """What the first steps of a training ask for."""
    task = data.load(experiment)
    torch.manual_seed(seed)
    model = models.build(experiment.model).train()
    optimizer = optimizer_of(experiment, model, beta_for(experiment.budget), "full")
    probe = MemoryProbe(model.parameters())
    for step in range(min(steps, experiment.budget)):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(experiment.schedule, experiment.optimizer.lr, experiment.budget, step)
        optimizer.zero_grad()
        task.loss(model, task.batch(seed, step, 0), training=True).backward()
        probe.step()
        optimizer.step()
    return probe.pilot()


def measured(names: list[str]) -> dict[str, float | None]:
    """The best memory of each task, where the study has an answer."""
    study = open_study(STUDIES / "joint")
    found = {}
    for name in names:
        try:
            best = study.best(name).beta
        except ValueError:
            continue
        found[name] = None if best is None else memory_horizon(best)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    best = measured(TASKS)
    print(f"{'task':<20}{'best memory':>12}  the pilot's, by seed ({asked.steps} steps)")
    for name in TASKS:
        found = [pilot(find(name), seed, asked.steps) for seed in asked.seeds]
        words = [f"noise only, >= {one.at_least:.1f}" if one.memory is None else f"{one.memory:.1f}" for one in found]
        known = best.get(name)
        print(f"{name:<20}{'-' if known is None else f'{known:.1f}':>12}  {', '.join(words)}", flush=True)


if __name__ == "__main__":
    main()
