"""One module per log format, with three names: `FORMAT` for people, `sniff` and `load`.

`sniff(path)` says by the content of a file or folder whether it has the format; it never raises. `load(path, wanted)`
returns its `Contents`, in bounded memory; ValueError if it cannot be read.
"""
