"""A run that was logged to TensorBoard, and what `oneclock advise` reads from it. About fifteen seconds.

pip install 'oneclock[logs]'
python examples/advice_from_tensorboard.py [STEPS]

The run is made here, with betas of 0.9 and 0.999 and more steps than it needs; yours is there already:

oneclock advise runs/my-run --budget 20000
"""

import subprocess
import sys
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.tensorboard import SummaryWriter

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 6000

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)
torch.set_num_threads(1)  # the model is far too small to share between threads
torch.manual_seed(0)
order = torch.randperm(len(images))
train, held_out = order[:600], order[600:]
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.999), fused=True)

with tempfile.TemporaryDirectory() as folder:
    with SummaryWriter(folder) as writer:
        for step in range(1, STEPS + 1):
            batch = train[torch.randint(len(train), (16,))]
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 50 == 0:
                with torch.no_grad():
                    val_loss = nn.functional.cross_entropy(model(images[held_out]), labels[held_out])
                writer.add_scalar("loss/train", loss.item(), step)
                writer.add_scalar("loss/val", val_loss.item(), step)
    command = ["advise", folder, "--budget", str(STEPS)]
    print(f"$ oneclock {' '.join(command)}", flush=True)
    sys.exit(subprocess.run([sys.executable, "-m", "oneclock", *command], check=False).returncode)
