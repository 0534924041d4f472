"""transformers' `trainer_state.json`, or a folder of checkpoints: the newest. `training_args.bin` is never opened."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from oneclock import guards
from oneclock.logs import names
from oneclock.logs.formats.json_lines import gather
from oneclock.logs.formats.json_stream import elements
from oneclock.logs.source import Contents, Wanted

FORMAT = "transformers trainer_state.json"
_NAME = "trainer_state.json"
_BESIDE = ("global_step", "max_steps", "num_train_epochs")
_LOOKED_AT = 1000  # first entries that settle which key is the step


def sniff(path: Path) -> bool:
    if path.is_dir():
        return bool(_states(path))
    start = guards.head(path)
    return start.lstrip().startswith("{") and '"log_history"' in start


def load(path: Path, wanted: Wanted) -> Contents:
    files = _states(path) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path} holds no {_NAME}, nor a checkpoint with one")
    states = [(_values(file), file) for file in files]
    state, file = max(states, key=lambda pair: _whole(pair[0].get("global_step")))
    keys = dict.fromkeys(key for entry in islice(_history(file), _LOOKED_AT) for key in entry)
    source = gather(_history(file), path, names.choose_step(keys, wanted.step, path), wanted, FORMAT)
    source.steps = names.step_candidates(keys)
    done, planned = _whole(state.get("global_step")), _whole(state.get("max_steps"))
    for run in source.runs:
        run.name = path.name
        run.arguments |= {key: state[key] for key in ("max_steps", "num_train_epochs") if key in state}
    if path.is_dir() and file.parent != path:
        source.warnings.append(f"read from {file.parent.name}, the newest: what was logged after it is not in it")
    if 0 <= done < planned:
        source.warnings.append(f"it holds {done:,} of {planned:,} planned steps: stopped early, or not the end of it")
    return source


def _states(folder: Path) -> list[Path]:
    """The state of the folder itself, and of its newest checkpoint."""
    checkpoints = [
        (int(match[1]), place)
        for place in folder.glob(f"checkpoint-*/{_NAME}")
        if (match := re.fullmatch(r"checkpoint-(\d{1,18})", place.parent.name))
    ]
    newest = [place for _, place in sorted(checkpoints)[-1:]]
    return [place for place in [folder / _NAME, *newest] if place.is_file()]


def _values(path: Path) -> dict[str, Any]:
    """What stands beside the history, as far as it is of use."""
    state, logged = {}, False
    for element in elements(path):
        if element.key in _BESIDE:
            state[element.key] = element.value
        logged = logged or element.key == "log_history"
    if not logged:
        raise ValueError(f"{path} has no log_history; it is not a trainer's state")
    return state


def _history(path: Path) -> Iterator[dict[str, Any]]:
    for element in elements(path):
        if element.key == "log_history" and isinstance(element.value, dict):
            yield element.value


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
