"""One file per log format: `sniff` looks whether a path is of it, `load` hands over what it holds."""
