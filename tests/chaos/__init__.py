"""Strikes on all that oneclock keeps and starts, dealt by a seeded generator, and what must hold after each.

    cd tests && python -m chaos --strikes 200 --seed 1

One file per kind of strike; `dealer` draws them and counts. The moment at which a process is struck is the machine's: a
seed repeats which strikes are dealt, not what they hit.
"""

from .processes import Marked, held_elsewhere, until
from .sweeps import TARGET, command, table

__all__ = ["TARGET", "Marked", "command", "held_elsewhere", "table", "until"]
