"""A real Lightning fit on digits: the beta expected, the plain torch run, and a resumed one."""

import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from oneclock.integrations.lightning import RefreshCallback, balanced_adamw

import lightning.pytorch as pl  # isort: skip
from lightning.pytorch.callbacks import ModelCheckpoint  # isort: skip
from lightning.pytorch.loggers import CSVLogger  # isort: skip

STEPS, REFRESHES, BETA = 40, 4, 0.9
RULE = f"refresh:{REFRESHES}"

pytestmark = [
    pytest.mark.filterwarnings("ignore::lightning.fabric.utilities.warnings.PossibleUserWarning"),
    pytest.mark.filterwarnings("ignore:Checkpoint directory"),
]


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def loaders():
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels))
    return DataLoader(data, batch_size=90, sampler=range(1797)), DataLoader(data, batch_size=1797)


class Digits(pl.LightningModule):
    def __init__(self, **options):
        super().__init__()
        self.model, self.options, self.losses = model(), options, []

    def training_step(self, batch, _):
        loss = nn.functional.cross_entropy(self.model(batch[0]), batch[1])
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", nn.functional.cross_entropy(self.model(batch[0]), batch[1]))

    def configure_optimizers(self):
        return balanced_adamw(self, lr=3e-3, weight_decay=0.1, **self.options)


def trainer_of(folder, **changes):
    settings = dict(
        max_epochs=2, accelerator="cpu", logger=CSVLogger(folder), log_every_n_steps=1, enable_progress_bar=False,
        enable_model_summary=False, val_check_interval=5, callbacks=[RefreshCallback()],
    )  # fmt: skip
    return pl.Trainer(**{**settings, **changes})


def saving_in(folder):
    return ModelCheckpoint(folder, filename="{step}", every_n_train_steps=20, save_top_k=-1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    trainer = trainer_of(folder, callbacks=[RefreshCallback(), saving_in(folder)])
    module = Digits(rule=RULE)
    trainer.fit(module, *loaders())
    return trainer, module, folder


def test_the_beta_is_the_rules_in_the_optimizer_and_the_log(finished):
    trainer, _, folder = finished
    assert trainer.global_step == STEPS
    assert trainer.optimizers[0].beta == BETA
    (log,) = folder.rglob("metrics.csv")
    rows = pd.read_csv(log).dropna(subset="beta")
    assert rows.beta.tolist() == [pytest.approx(BETA)] * STEPS
    assert rows.refresh_count.iloc[-1] == pytest.approx(REFRESHES)
    assert rows.memory_horizon.iloc[-1] == pytest.approx(10)


def test_it_matches_the_plain_torch_run(finished):
    _, module, _ = finished
    plain = model()
    optimizer = torch.optim.AdamW(plain.parameters(), lr=3e-3, betas=(BETA, BETA), weight_decay=0.1, fused=True)
    losses = []
    for _ in range(2):
        for images, labels in loaders()[0]:
            loss = nn.functional.cross_entropy(plain(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert module.losses == losses
    assert losses[-1] < losses[0] - 0.5
    for ours, theirs in zip(module.model.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_resumed_run_has_the_beta_and_ends_at_the_same_weights(finished, tmp_path):
    trainer, straight, folder = finished
    module, callback = Digits(rule=RULE), RefreshCallback()
    again = trainer_of(tmp_path, callbacks=[callback, saving_in(folder)])
    again.fit(module, *loaders(), ckpt_path=folder / "step=20.ckpt")
    assert again.optimizers[0].beta == BETA
    assert module.losses == straight.losses[20:]
    for ours, theirs in zip(module.model.parameters(), straight.model.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    losses = trainer.callbacks[0].losses
    assert sorted(losses) == [5, 10, 15, 20, 25, 30, 35, 40]
    del losses[20]  # Lightning saves before it validates, and does not come back to that validation
    assert callback.losses == losses


def test_accumulated_batches_make_fewer_steps(tmp_path):
    trainer = trainer_of(tmp_path, accumulate_grad_batches=2, enable_checkpointing=False, limit_val_batches=0)
    trainer.fit(Digits(rule="refresh:5"), *loaders())
    assert trainer.global_step == 20
    assert trainer.optimizers[0].beta == 0.75


def test_a_horizon_of_ones_own_wins(tmp_path):
    trainer = trainer_of(tmp_path, max_steps=1, max_epochs=-1, enable_checkpointing=False, limit_val_batches=0)
    trainer.fit(Digits(horizon=20_000, rule="paper"), *loaders())
    assert trainer.optimizers[0].beta == 0.95


def test_training_without_an_end_asks_for_a_horizon(tmp_path):
    trainer = trainer_of(tmp_path, max_epochs=-1, enable_checkpointing=False)
    with pytest.raises(ValueError, match="no planned end"):
        trainer.fit(Digits(), *loaders())


def test_the_advice_is_printed_when_training_ends(tmp_path, capsys):
    trainer = trainer_of(tmp_path, max_steps=10, max_epochs=-1, enable_checkpointing=False, val_check_interval=1)
    trainer.fit(Digits(rule=RULE, maximize=True), *loaders())  # uphill: the first evaluation stays the best
    printed = capsys.readouterr().out
    assert printed.count("oneclock: the validation loss turned near step 1 ") == 1  # said once, while training
    assert "oneclock: Useful for 1 of 10 steps" in printed
