"""Where pretrained checkpoints are on the hub. This module has no heavy imports."""

from __future__ import annotations

_HUB = {"t5-small": "google-t5/t5-small"}


def hub_checkpoint(name: str) -> str:
    """The hub repository of a checkpoint that papers call by a short name; other names are returned unchanged.

    >>> hub_checkpoint("t5-small")
    'google-t5/t5-small'
    """
    return _HUB.get(name, name)
