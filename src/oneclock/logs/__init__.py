"""One reader per log format, from a file or folder to validation curves.

`read` looks at the content, not the name, to find the format. Nothing is ever unpickled.
"""

from oneclock.logs.read import FILES, FOLDERS, Log, LoggedRun, read, read_curves

__all__ = ["FILES", "FOLDERS", "Log", "LoggedRun", "read", "read_curves"]
