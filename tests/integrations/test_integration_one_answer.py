"""Whoever gives a horizon gets the same beta, from every surface there is.

optax runs in a process of its own, since one that has run JAX warns at every fork.
"""

import importlib
import json
import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from typer.testing import CliRunner

from oneclock import BalancedAdam, BalancedAdamW, RefreshScheduler, advise, recommend
from oneclock.cli import app
from oneclock.horizon import Curve
from oneclock.integrations import huggingface
from oneclock.integrations.lightning import balanced_adamw
from oneclock.logs.arguments import Arguments
from oneclock.logs.read import LoggedRun
from oneclock.rule import beta_for, nearest_beta
from oneclock.runs.adaptive import Adaptive

import lightning.pytorch as pl  # isort: skip
from transformers import TrainingArguments  # isort: skip

pytestmark = pytest.mark.filterwarnings("ignore::lightning.fabric.utilities.warnings.PossibleUserWarning")


def weights():
    return [torch.nn.Parameter(torch.ones(1))]


def in_a_trainer(folder, steps, **options):
    kind, settings = huggingface.balanced_adamw(
        TrainingArguments(str(folder), max_steps=steps, use_cpu=True), **options
    )
    return kind(weights(), **settings).beta


def in_lightning(steps, **options):
    module = pl.LightningModule()
    module.trainer = pl.Trainer(max_steps=steps, max_epochs=-1, accelerator="cpu", logger=False)
    return balanced_adamw(module, params=weights(), **options).beta


STEPS = [1, 100, 1_000, 1_200, 6_000, 20_000, 40_000, 10**6]


def typed(*words):
    done = CliRunner().invoke(app, ["beta", *map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["beta"]


def advised(steps, **options):
    """By a log that was useful to its very end."""
    curve = Curve([steps / 2, steps], [2.0, 1.0])
    return advise(LoggedRun("a", curve, Arguments(max_steps=steps)), budget=steps, **options).beta


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize(
    "options", [{}, {"rule": "power:0.05,0.2"}, {"rule": "refresh:0.5"}, {"rule": "recommended"}], ids=str
)
def test_one_answer(tmp_path, steps, options):
    answer = beta_for(steps, **options)
    scheduler = RefreshScheduler(BalancedAdam(weights(), beta=0.5), steps, **options)
    assert {
        BalancedAdam(weights(), horizon=steps, **options).beta,
        BalancedAdamW(weights(), horizon=steps, **options).beta,
        scheduler.get_last_beta(),
        in_a_trainer(tmp_path, steps, **options),
        in_lightning(steps, **options),
        advised(steps, **options),
        recommend(steps, **options).beta,
        typed(steps, *(word for name, value in options.items() for word in (f"--{name}", value))),
    } == {answer}


def test_optax_has_the_same_answer():
    script = f"""
import json
from oneclock.integrations.optax import balanced_adamw
import jax.numpy as jnp
betas = []
for steps in {STEPS}:
    optimizer = balanced_adamw(1.0, horizon=steps)
    _, state = optimizer.update(jnp.ones(1), optimizer.init(jnp.ones(1)), jnp.ones(1))
    betas.append(1 - float(state[0].mu[0]))
print(json.dumps(betas))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == pytest.approx([beta_for(steps) for steps in STEPS], abs=1e-6)


def test_an_adaptive_sweep_starts_at_the_answer():
    assert [Adaptive().start(steps) for steps in STEPS] == [nearest_beta(beta_for(steps)) for steps in STEPS]


def test_the_answer_has_no_cliff_and_rises_with_the_horizon():
    horizons = sorted({round(10 ** (place / 50)) for place in range(301)})
    memories = [1 / (1 - beta_for(horizon)) for horizon in horizons]
    for (one, two), (earlier, later) in zip(pairwise(horizons), pairwise(memories), strict=True):
        assert 1 <= later / earlier <= two / one * (1 + 1e-9)  # no faster than the horizon itself


def test_the_answer_itself():
    assert [round(beta_for(steps), 3) for steps in (1, 100, 1_000, 4_000, 20_000, 300_000)] == [
        *(0.125, 0.588, 0.819, 0.9, 0.953, 0.987),
    ]


@pytest.mark.parametrize("module", ["huggingface", "lightning"])
def test_a_callback_does_not_take_an_accuracy_for_a_loss(module):
    callback = importlib.import_module(f"oneclock.integrations.{module}").RefreshCallback
    with pytest.raises(ValueError, match="'eval_accuracy' is better"):
        callback(metric="eval_accuracy")
    assert callback(metric="eval_nll").metric == "eval_nll"
