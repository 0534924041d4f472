"""Import this before torchvision, transformers or lightning: with a CPU-only torch their import may fail.

The torchvision of PyPI is built for the CUDA torch of PyPI. Beside a CPU build its compiled operators do not load, and
`import torchvision` ends with "operator torchvision::nms does not exist". Models and transforms do not need them: on
that very error, and only then, the two that torchvision describes are declared.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_declared: list[Any] = []  # torch forgets the operators when the library object is collected


def import_torchvision() -> None:
    """Import torchvision, declaring the operators that a CPU-only torch lacks if that is what stops it."""
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "operator torchvision::nms does not exist" not in str(error):
            raise
        import torch

        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        library.define("nms" + _SIGNATURE)
        library.define("qnms" + _SIGNATURE)
        _declared.append(library)
        importlib.import_module("torchvision")


if importlib.util.find_spec("torchvision") and importlib.util.find_spec("torch"):
    import_torchvision()
