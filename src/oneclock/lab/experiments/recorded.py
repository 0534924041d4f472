"""A spec as a run's record stores it: plain data, from which the run's hash is made.

A field that was added later is left out at its default, which means the former behaviour. So older records, which do
not have the field, still match the same run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from oneclock.lab.experiments.spec import Experiment

ADDED: dict[str, Any] = {
    "model.padding": None,
    "data.examples": "blocks",
    "data.separate": None,
    "data.shortest": 0,
    "data.filler": None,
    "data.held_out_share": None,
    "data.held_out_by": "drawn",
    "data.order_seed": None,
    "data.leave_out": [],
    "data.augmentation.erasing_area": [0.02, 0.33],
    "data.augmentation.erasing_aspect": [0.3, 3.3],
    "data.augmentation.erasing_fill": "zero",
    "span_corruption.mask_by": "batch",
    "schedule.phase": "closed",
    "evaluation.draw": "once",
    "evaluation.mean": "targets",
}
"""Fields that the first committed records do not have -> the default that means the former behaviour."""


def recorded(experiment: Experiment) -> dict[str, Any]:
    """The spec as plain data, without added fields at their defaults.

    >>> from oneclock.lab.experiments import find
    >>> recorded(find("gpt2-bible"))["optimizer"]
    {'name': 'adamw', 'lr': 0.005, 'weight_decay': 0.01, 'decay': 'weights', 'clip': 1.0}
    """
    return _pruned(json.loads(json.dumps(asdict(experiment))), "")  # tuples become lists


def _pruned(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in values.items():
        path = prefix + name
        if path not in ADDED or value != ADDED[path]:
            kept[name] = _pruned(value, f"{path}.") if isinstance(value, Mapping) else value
    return kept
