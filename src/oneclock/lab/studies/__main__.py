"""`python -m oneclock.lab.studies NAME --out DIR`: run a study, or go on with it."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from oneclock.lab.studies import analyse, turns
from oneclock.lab.studies.collect import collect
from oneclock.lab.studies.curves import write_curves
from oneclock.lab.studies.designs import STUDIES
from oneclock.lab.studies.run import MOST, is_done, planned, run_study


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m oneclock.lab.studies", description=__doc__)
    parser.add_argument("name", choices=[*sorted(STUDIES), "all"], help="the study; `all` with --analyse only")
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--part", default="1/1", help="1/2 and 2/2 share the study between two processes")
    parser.add_argument("--most", type=int, default=MOST, help="members of one ensemble at most")
    parser.add_argument("--dearest", type=float, default=math.inf, help="leave ensembles that cost more for later")
    parser.add_argument("--status", action="store_true", help="count what is done, and stop")
    parser.add_argument("--collect", type=Path, help="pack what is done into this folder, and stop")
    parser.add_argument("--analyse", type=Path, help="print the results of the study in this folder, and stop")
    given = parser.parse_args()
    if given.name == "all":
        if not given.analyse:
            parser.error("`all` is for --analyse FOLDER, which holds the studies")
        print(analyse.report_across([given.analyse / name for name in ("finetune", "size", "batch", "long")]))
        return
    if given.analyse:
        print((turns if given.name in ("overfit", "horizon", "third") else analyse).report(given.analyse))
        return
    conditions = STUDIES[given.name]()
    if given.status:
        runs = planned(conditions)
        print(f"{given.name}: {sum(is_done(given.out, run) for run in runs)} of {len(runs)} runs are done")
        return
    if given.collect:
        pack = write_curves if given.name in ("horizon", "third") else collect
        print("{} of {} runs packed".format(*pack(conditions, given.out, given.collect)))
        return
    part, parts = map(int, given.part.split("/"))
    run_study(conditions, given.out, part - 1, parts, given.most, given.dearest)


if __name__ == "__main__":
    main()
