"""The published figures of the paper, and the comparison with them."""

from oneclock.lab.paper.check import PaperCheck, check_paper
from oneclock.lab.paper.curves import read_curves

__all__ = ["PaperCheck", "check_paper", "read_curves"]
