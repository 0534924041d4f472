"""A script for modded-nanogpt's optimization track: its own Adam result, with beta1 = beta2 from the recommended law.

    python upstream/modded_nanogpt/make_script.py MODDED_NANOGPT train_gpt_simple_balanced.py
    torchrun --standalone --nproc_per_node=8 train_gpt_simple_balanced.py   # inside the clone, with GPUs and data

The track takes "baselines for optimizers from the literature". Its Adam result (number 2) says where one starts:
Adam with (0.9, 0.95), 5,625 steps, and a script in its log. Only the betas of the block matrices change here. A
submission may import no optimizer library, so the script has the formula and torch's AdamW.

    python upstream/modded_nanogpt/make_script.py MODDED_NANOGPT small.py --small --steps 60
    torchrun --standalone --nproc_per_node=1 small.py                       # on a CPU: a small model, little text

`--small` shows that the script runs; its loss says nothing about the track.
"""

from __future__ import annotations

import argparse
import sysconfig
from pathlib import Path

import numpy as np

LOG = Path("records/track_3_optimization/results/a63a68d1-24aa-4a22-af9a-224e43209ea4.txt")
BETAS = "block_adamw_betas = (0.9, 0.95)"
TIED = """# one beta for both averages, from the number of steps: a memory of 1 + sqrt(steps) / 7 steps
block_adamw_beta = train_steps**0.5 / (train_steps**0.5 + 7)
block_adamw_betas = (block_adamw_beta, block_adamw_beta)"""
SMALL = [
    ('torch.device("cuda", int(os.environ["LOCAL_RANK"]))', 'torch.device("cpu")'),
    ("torch.cuda.set_device(device)\n", "torch.manual_seed(0)\n"),
    ('backend="nccl", device_id=device', 'backend="gloo"'),
    ("pin_memory=True", "pin_memory=False"),
    ('device="cuda", dtype=torch.int32', "dtype=torch.int32"),
    ('device="cuda", dtype=torch.int64', "dtype=torch.int64"),
    ("seq_len=1024", "seq_len=64"),
    ("val_tokens = 20 * 524288", "val_tokens = 512 * 64"),
    ("batch_size = 8 * 64 * 1024", "batch_size = 16 * 64"),
    ("mbs = 64", "mbs = 16"),
    ("GPT(vocab_size=50304, num_layers=12, model_dim=768).cuda()", "GPT(vocab_size=256, num_layers=2, model_dim=128)"),
    ("model.compile(dynamic=False)\n", ""),
    ("@torch.compile\n", ""),
    ("block_adamw_warmup_steps = 250", "block_adamw_warmup_steps = 10"),
    ("data/fineweb10B/fineweb_", "small_data/"),
]
"""What a CPU and a few minutes need."""


def replaced(script: str, old: str, new: str) -> str:
    if old not in script:
        raise SystemExit(f"the record's script has no {old!r}: modded-nanogpt has changed, adapt this file")
    return script.replace(old, new)


def make(clone: Path, steps: int | None, untied: bool, small: bool) -> str:
    """The record's script with one change, and with those of `SMALL` if asked."""
    script = (clone / LOG).read_text(encoding="utf-8").partition("\n" + "=" * 100)[0] + "\n"
    if not untied:
        script = replaced(script, BETAS, TIED)
    if steps is not None:
        script = replaced(script, "train_steps = 5625", f"train_steps = {steps}")
    for old, new in SMALL if small else ():
        script = replaced(script, old, new)
    return script


def write_text(folder: Path) -> None:
    """Bytes of Python's own library in the format of the track's data: 256 int32 of header, then uint16."""
    folder.mkdir(exist_ok=True)
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = np.frombuffer(b"".join(path.read_bytes() for path in sources), np.uint8).astype(np.uint16)
    for name, tokens in (("val_0", text[:100_000]), ("train_0", text[100_000:])):
        header = np.zeros(256, np.int32)
        header[:3] = 20240520, 1, len(tokens)
        (folder / f"{name}.bin").write_bytes(header.tobytes() + tokens.tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a script for modded-nanogpt's optimization track.")
    parser.add_argument("clone", type=Path, help="a clone of KellerJordan/modded-nanogpt")
    parser.add_argument("out", type=Path, help="the script to write")
    parser.add_argument("--steps", type=int, help="training steps instead of 5,625; beta follows")
    parser.add_argument("--untied", action="store_true", help="leave (0.9, 0.95), to compare")
    parser.add_argument("--small", action="store_true", help="a small model on a CPU, with text beside the script")
    given = parser.parse_args()
    given.out.write_text(make(given.clone, given.steps, given.untied, given.small), encoding="utf-8")
    if given.small:
        write_text(given.out.parent / "small_data")
    print(f"{given.out} is written")


if __name__ == "__main__":
    main()
