"""The command line: `cd tests && python -m chaos --strikes 200 --seed 1`."""

import argparse
import signal
import sys
import time

from .dealer import SHARES, deal

parser = argparse.ArgumentParser(prog="chaos", description="Strike at everything, and see what holds.")
parser.add_argument("--strikes", type=int, default=200)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--kinds", nargs="+", choices=SHARES, default=list(SHARES), metavar="KIND", help=", ".join(SHARES))
arguments = parser.parse_args()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is mounted is unmounted, and clusters end
started = time.monotonic()
counts = deal(arguments.strikes, arguments.seed, arguments.kinds)
for name, count in counts.items():
    print(f"{name}: {count}")
wrong = sum(len(count.wrong) for count in counts.values())
total = sum(count.struck.total() for count in counts.values())
print(f"{total} strikes, seed {arguments.seed}: {wrong} did not hold, {time.monotonic() - started:.0f} s")
sys.exit(bool(wrong))
