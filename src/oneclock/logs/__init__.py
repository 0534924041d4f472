"""One reader per log format, from a file or folder to validation curves.

`read_log` looks at the content, not the name, to find the format. Nothing is ever unpickled.
"""

from oneclock.logs.read import READERS, Log, LoggedRun, NotFinite, read_log, read_text

__all__ = ["READERS", "Log", "LoggedRun", "NotFinite", "read_log", "read_text"]
