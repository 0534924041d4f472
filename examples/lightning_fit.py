"""Balanced AdamW in Lightning, with the horizon from the Trainer itself. Handwritten digits, about half a minute.

pip install 'oneclock[lightning]'
python examples/lightning_fit.py [EPOCHS]
"""

import logging
import sys
import warnings

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

from oneclock.integrations.lightning import RefreshCallback, balanced_adamw

import lightning.pytorch as pl  # isort: skip

EPOCHS = int(sys.argv[1]) if len(sys.argv) > 1 else 160


class Digits(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch, _):
        return nn.functional.cross_entropy(self.model(batch[0]), batch[1])

    def validation_step(self, batch, _):
        self.log("val_loss", nn.functional.cross_entropy(self.model(batch[0]), batch[1]))

    def configure_optimizers(self):
        return balanced_adamw(self, lr=1e-3, weight_decay=0.1)


warnings.filterwarnings("ignore", module="lightning.*")
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
torch.set_num_threads(1)  # the model is far too small to share between threads
pl.seed_everything(0, verbose=False)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels))
train, held_out = random_split(data, [1200, 597])

trainer = pl.Trainer(
    max_epochs=EPOCHS,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[RefreshCallback()],
)
trainer.fit(Digits(), DataLoader(train, batch_size=32, shuffle=True), DataLoader(held_out, batch_size=597))

(optimizer,) = trainer.optimizers
print(f"\n{EPOCHS} epochs of 38 batches are {trainer.global_step:,} steps: beta {optimizer.beta:.4f}")
for name in ("val_loss", "memory_horizon", "refresh_count"):
    print(f"  {name:15} {trainer.callback_metrics[name].item():.4g}")
