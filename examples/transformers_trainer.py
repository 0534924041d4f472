"""Balanced AdamW in a transformers Trainer: a tiny GPT-2 on the characters of Python's own source. Under a minute.

pip install 'oneclock[language]'
python examples/transformers_trainer.py [STEPS]
"""

import argparse
import sys
import tempfile

import torch

from oneclock.integrations.huggingface import RefreshCallback, balanced_adamw

from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments  # isort: skip

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
LENGTH = 16

with open(argparse.__file__, encoding="utf-8") as source:
    codes = torch.tensor(list(source.read().encode("ascii", "replace")))
windows = codes[: len(codes) // LENGTH * LENGTH].view(-1, LENGTH)
samples = [{"input_ids": window, "labels": window} for window in windows]

model = GPT2LMHeadModel(
    GPT2Config(vocab_size=128, n_positions=LENGTH, n_embd=32, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
)

with tempfile.TemporaryDirectory() as folder:
    args = TrainingArguments(
        output_dir=folder,
        max_steps=STEPS,
        learning_rate=3e-3,
        weight_decay=0.1,
        lr_scheduler_type="cosine",
        per_device_train_batch_size=16,
        logging_steps=STEPS // 4,
        eval_strategy="steps",
        eval_steps=STEPS // 12,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Trainer(
        model,
        args,
        train_dataset=samples[:-200],
        eval_dataset=samples[-200:],
        optimizer_cls_and_kwargs=balanced_adamw(args),
        callbacks=[RefreshCallback()],
    )
    trainer.train()

print("\nwhat the Trainer logged:")
for entry in trainer.state.log_history:
    if "beta" in entry:
        print("  step {step}: loss {loss:.3f}, beta {beta:.4f}, {refresh_count:.0f} refreshes so far".format(**entry))
