"""What curves say about the next run: the horizon they had, how sure that is, and the beta that follows."""

from oneclock.advise.answer import Advice, advise

__all__ = ["Advice", "advise"]
