"""How far a study is, as plain data and on a terminal."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from oneclock.study.claims import holder
from oneclock.sweep.live import in_words, span, table, time_left
from oneclock.sweep.study import Row, Study


def status(study: Study) -> dict[str, Any]:
    """Runs, what is left per target, and who works on it: plain data."""
    owner = holder(study.path)
    rows = study.rows()
    targets: dict[str, dict[str, Any]] = {}
    for target in study.targets:
        step = study.step(target)
        targets[target.name] = {
            "choice": study.choice(target.name),
            "ended": len(study.losses(target)),
            "left_at_most": step.at_most,
            "done": step.reason,
        }
    running = sum(row.state == "running" for row in rows)
    left = {name: target["left_at_most"] for name, target in targets.items()}
    return {
        "study": str(study.path),
        "sweep": str(owner) if owner else None,
        "seconds_left": time_left(rows, left, running) if owner else None,
        "targets": targets,
        "runs": [asdict(row) for row in rows],
    }


def show(found: dict[str, Any]) -> None:
    """Print what `status` found."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, soft_wrap=True)
    rows = [Row(**values) for values in found["runs"]]
    told = [row for row in rows if row.reason] if console.is_terminal else rows
    if console.is_terminal:
        console.print(table(rows))
    for row in told:
        far = f" (step {row.step:,} of {row.budget:,})" if row.state == "running" else ""
        console.print(in_words(row) + far)
    for name, target in found["targets"].items():
        state = f"done: {target['done']}" if target["done"] else f"at most {target['left_at_most']} to go"
        best = "" if target["choice"] is None else f"; best beta so far {target['choice']:g}"
        console.print(f"{name}: {target['ended']} runs have ended; {state}{best}")
    left = "" if found["seconds_left"] is None else f", about {span(found['seconds_left'])} left"
    console.print(f"a sweep is running: {found['sweep']}{left}" if found["sweep"] else "no sweep is running")
