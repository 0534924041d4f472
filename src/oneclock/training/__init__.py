"""One training loop, one schedule, checkpoints."""
