"""Imported before a framework that itself imports torchvision wherever it finds it: see `models.torchvision_guard`.

Nothing here needs torchvision, so that without it there is nothing to do.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("torchvision"):
    import oneclock.models.torchvision_guard  # noqa: F401
