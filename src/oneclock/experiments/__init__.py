"""The eleven experiments of the paper, as frozen values."""
