"""Whoever gives a horizon gets the same beta: from the optimizers, the scheduler and the integrations.

optax has the same table in a file of its own, since a process that has run JAX warns at every fork.
"""

import pytest
import torch

from oneclock import BalancedAdam, BalancedAdamW, RefreshScheduler, beta_for
from oneclock.integrations import huggingface
from oneclock.integrations.lightning import balanced_adamw

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


@pytest.mark.parametrize("steps", [1, 100, 1_000, 1_200, 6_000, 20_000, 40_000, 10**6])
@pytest.mark.parametrize(
    "options", [{}, {"rule": "power:0.05,0.2"}, {"refreshes": 0.5}, {"rule": "recommended"}], ids=str
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
    } == {answer}


def test_the_answer_itself():
    assert [round(beta_for(steps), 4) for steps in (1, 1_200, 6_000, 20_000)] == [0.8333, 0.8333, 0.8333, 0.95]
