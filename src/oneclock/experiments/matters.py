"""What of a spec changes a loss, as plain data: what names a run.

A title, the paper's T_ES, the split and the list of seeds change no loss. A field that was added later says, at its
default, what was before: records written without it name the same run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from oneclock.experiments.spec import Experiment

WORDS = ("name", "title", "split", "seeds", "t_es")
"""Fields that change no loss; the name stands beside the spec in a run's identity."""

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
"""Fields that the first committed records do not have -> the default that means what was before."""


def matters(spec: Experiment | Mapping[str, Any]) -> dict[str, Any]:
    """The spec, or the plain data of one, without its words and without added fields at their defaults.

    >>> from oneclock.experiments import find
    >>> matters(find("gpt2-bible"))["optimizer"]
    {'name': 'adamw', 'lr': 0.005, 'weight_decay': 0.01, 'decay': 'weights', 'clip': 1.0}
    """
    plain = json.loads(json.dumps(asdict(spec) if is_dataclass(spec) else dict(spec)))  # tuples become lists
    return _pruned({name: value for name, value in plain.items() if name not in WORDS}, "")


def _pruned(values: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in values.items():
        path = prefix + name
        if path not in ADDED or value != ADDED[path]:
            kept[name] = _pruned(value, f"{path}.") if isinstance(value, Mapping) else value
    return kept
