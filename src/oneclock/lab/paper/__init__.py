"""The published figures of the paper, and the comparison with them."""

from oneclock.lab.paper.check import PaperCheck, check
from oneclock.lab.paper.curves import read_curves

__all__ = ["PaperCheck", "check", "read_curves"]
