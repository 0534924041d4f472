"""What a spec's model names -> a torch module."""
