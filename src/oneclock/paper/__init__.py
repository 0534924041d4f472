"""The published figures of the paper, and the comparison with them."""
