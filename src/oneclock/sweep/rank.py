"""One process of a run that has several: what torchrun starts, with the run's description as its one argument."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from oneclock.sweep.cells import Cell
from oneclock.sweep.functions import Function
from oneclock.sweep.named import Named
from oneclock.sweep.server import unwinding

KINDS: dict[str, type[Named] | type[Function]] = {"Named": Named, "Function": Function}


def main() -> None:
    """Train, with the others; asked to end, they save what they can and end badly, for the run is not finished."""
    told = json.loads(sys.argv[1], object_hook=_with_tuples)
    sys.path[:] = dict.fromkeys([*told["search"], *sys.path])
    try:
        with unwinding():
            KINDS[told["kind"]](**told["target"]).execute_here(Path(told["path"]), Cell(**told["cell"]))
    except KeyboardInterrupt as asked:
        sys.exit(f"ended: {asked}")


def _with_tuples(values: dict[str, object]) -> dict[str, object]:
    """JSON has no tuples, and a pair of betas or an experiment's settings is one."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


if __name__ == "__main__":
    main()
