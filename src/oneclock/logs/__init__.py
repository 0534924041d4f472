"""One reader per log format, from a file to validation curves."""
