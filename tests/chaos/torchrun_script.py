"""What torchrun starts: one of two processes trains a line by balanced Adam and logs, the other waits for it."""

import math
import os
import sys
import time
from pathlib import Path


def main(beta: float, seed: int, folder: Path) -> None:
    log = folder / "log.csv"
    if os.environ["RANK"] == "0":
        weight, mean, square, lines = float(seed), 0.0, 0.0, ["step,val_loss"]
        for step in range(1, 41):
            slope = 2 * (weight - 3)
            mean, square = beta * mean + (1 - beta) * slope, beta * square + (1 - beta) * slope**2
            weight -= 0.1 * (mean / (1 - beta**step)) / (math.sqrt(square / (1 - beta**step)) + 1e-8)
            if step % 10 == 0:
                lines.append(f"{step},{(weight - 3) ** 2 + 1!r}")
                log.write_text("\n".join(lines) + "\n")
                time.sleep(float(os.environ.get("PACE", "0")))
        (folder / "done").touch()
    while not (folder / "done").exists():
        time.sleep(0.02)


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
