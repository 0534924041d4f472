"""One module per log format, with the names of `oneclock.logs.source.Reader`."""
