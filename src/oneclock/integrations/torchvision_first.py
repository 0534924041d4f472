"""Import this before a framework that imports torchvision; see `oneclock.torchvision_guard`.

Without torchvision, or without torch, there is nothing to do.
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("torchvision") and importlib.util.find_spec("torch"):
    import oneclock.torchvision_guard  # noqa: F401
