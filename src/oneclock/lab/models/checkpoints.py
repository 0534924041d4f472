"""Where pretrained checkpoints lie on the hub today; no heavy import, so that anyone may ask."""

from __future__ import annotations

_HUB = {"t5-small": "google-t5/t5-small"}


def hub_checkpoint(name: str) -> str:
    """Today's repository of a checkpoint that papers call by a short name; any other name is its own.

    >>> hub_checkpoint("t5-small")
    'google-t5/t5-small'
    """
    return _HUB.get(name, name)
