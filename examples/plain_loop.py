"""BalancedAdamW in a plain PyTorch loop, and what its own validation curve says afterwards. About ten seconds.

python examples/plain_loop.py [STEPS]
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

import oneclock

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 6000

torch.set_num_threads(1)  # the model is far too small to share between threads
torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
train, held_out = torch.randperm(len(images)).split([1200, 597])

model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = oneclock.BalancedAdamW(oneclock.decay_groups(model, weight_decay=0.1), lr=1e-3, horizon=STEPS)
memory = oneclock.memory_horizon(optimizer.beta)
print(f"{STEPS:,} steps: beta {optimizer.beta:.4g}, a memory of {memory:.3g} steps")
steps, losses = [], []
for step in range(1, STEPS + 1):
    batch = train[torch.randint(len(train), (32,))]
    loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 100 == 0:
        with torch.no_grad():
            val_loss = nn.functional.cross_entropy(model(images[held_out]), labels[held_out]).item()
        steps.append(step)
        losses.append(val_loss)
        if step % (STEPS // 5) == 0:
            refreshes = oneclock.refresh_count(optimizer.beta, step)
            print(f"step {step:5,}  validation loss {val_loss:.4f}  {refreshes:,.0f} refreshes so far")

useful = oneclock.useful_horizon(oneclock.Curve(steps, losses), plan=STEPS)
if useful.turned:
    print(f"useful for {useful.steps:,} of these steps: next time horizon={useful.steps}")
else:
    print(f"useful to the end, {useful.steps:,} steps: the horizon was right, or too short")
