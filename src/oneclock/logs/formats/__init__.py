"""One module per log format: `sniff` tells whether a path has the format, `load` reads it."""
