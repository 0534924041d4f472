"""One process of a run that has several: what torchrun starts, with the run's description as its one argument."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from oneclock.sweep.cells import Cell
from oneclock.sweep.targets import Named


def main() -> None:
    """Train, with the others; asked to end, they save together and end badly, for the run is not finished."""
    name, budget, settings, path, beta, seed, rate, data_dir = json.loads(sys.argv[1])
    cell = Cell(tuple(beta) if isinstance(beta, list) else beta, seed, rate)
    try:
        Named(name, budget, tuple(settings), data_dir=data_dir).execute(Path(path), cell)
    except KeyboardInterrupt as asked:
        sys.exit(f"ended: {asked}")


if __name__ == "__main__":
    main()
