"""One thin file per foreign framework, each importing only the core."""
