"""transformers' `trainer_state.json`, or a folder of checkpoints: the newest. `training_args.bin` is never opened."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from oneclock import guards
from oneclock.logs.formats.json_document import whole_document
from oneclock.logs.formats.json_lines import runs_of_objects
from oneclock.logs.source import Contents, Wanted

FORMAT = "transformers trainer_state.json"
_NAME = "trainer_state.json"


def sniff(path: Path) -> bool:
    if path.is_dir():
        return bool(_states(path))
    start = guards.head(path)
    return start.lstrip().startswith("{") and '"log_history"' in start


def load(path: Path, wanted: Wanted) -> Contents:
    files = _states(path) if path.is_dir() else [path]
    if not files:
        raise ValueError(f"{path} holds no {_NAME}, nor a checkpoint with one")
    states = [(_state(file), file) for file in files]
    state, file = max(states, key=lambda pair: _whole(pair[0].get("global_step")))
    source = runs_of_objects([entry for entry in state["log_history"] if isinstance(entry, dict)], path, wanted, FORMAT)
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
        (int(match[1]), file)
        for file in folder.glob(f"checkpoint-*/{_NAME}")
        if (match := re.fullmatch(r"checkpoint-(\d{1,18})", file.parent.name))
    ]
    newest = [file for _, file in sorted(checkpoints)[-1:]]
    return [file for file in [folder / _NAME, *newest] if file.is_file()]


def _state(path: Path) -> dict[str, Any]:
    state = whole_document(path)
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise ValueError(f"{path} has no log_history; it is not a trainer's state")
    return state


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1
