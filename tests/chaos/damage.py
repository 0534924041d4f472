"""Bytes as a bad disk, a power loss or a stray program leaves them."""

from __future__ import annotations

import random

KINDS = ("flipped", "flipped", "flipped", "cut", "emptied", "zeros", "zeros from there on", "longer")


def damaged(data: bytes, dice: random.Random) -> tuple[str, bytes]:
    """What was done to the bytes, and what became of them; flipped bits are the most frequent."""
    kind, place = dice.choice(KINDS), dice.randrange(len(data))
    if kind == "flipped":
        return kind, data[:place] + bytes([data[place] ^ (1 << dice.randrange(8))]) + data[place + 1 :]
    left = {
        "cut": data[:place],
        "emptied": b"",
        "zeros": bytes(len(data)),
        "zeros from there on": data[:place] + bytes(len(data) - place),
        "longer": data + dice.choice([b"\n", b"0", b"}", data]),
    }
    return kind, left[kind]
