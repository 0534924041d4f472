"""Statistics of beta sweeps: values in, values out; nothing is drawn here and nothing imports torch."""
