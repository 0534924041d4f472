"""A real sweep in a few minutes: which beta is best for a small Llama on the King James Bible, and what is it worth?

Run it with `make demo`, or `python examples/demo.py FOLDER`. Nine tied betas and two default pairs, 25 runs of 250
steps at a tuned learning rate. If you stop it, the same command continues. The study and its report stay in the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import oneclock
from oneclock.lab import experiment_target

BETAS = oneclock.GRID[:9]
PAIRS = ((0.9, 0.999), (0.9, 0.95))
SETTINGS = ["optimizer.lr=0.0055", "schedule.min_lr=0.00055", "evaluation.batches=32"]


def main(out: Path) -> None:
    print(f"Sweeping beta for a small Llama on the King James Bible: 25 runs of 250 steps in {out}/")
    oneclock.run_sweep(
        experiment_target("joint-llama-250", settings=SETTINGS),
        out=out,
        protocol=oneclock.Paper(BETAS, baselines=PAIRS, second_stage="window"),
    )
    print()
    print(oneclock.in_words(oneclock.analyse(out)))
    print(f"\n{oneclock.write_report(out, out / 'report')}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo-study"))
