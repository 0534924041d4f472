"""How far a study is, as plain data and on a terminal."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Any

from oneclock.plain_text import printable
from oneclock.study.claims import holder
from oneclock.study.folder import Row
from oneclock.study.sharing import workers
from oneclock.sweep.plan import Plan
from oneclock.sweep.progress import have_ended, run_in_words, span, time_left
from oneclock.sweep.slurm import in_queue


def status(plan: Plan) -> dict[str, Any]:
    """Runs, the best beta and what is left per target, and who works on it: plain data."""
    owner, at_work = holder(plan.path), workers(plan.path)
    rows = plan.rows()
    targets: dict[str, dict[str, Any]] = {}
    for target in plan.targets:
        step, best, losses = plan.step(target), plan.study.best(target.name), plan.losses(target)
        targets[target.name] = {
            "best_beta": best.beta,
            "best_rate": best.rate,
            "best_interval": None if best.interval is None else asdict(best.interval),
            "tied_with": list(best.tied_with),
            "best_word": best.word,
            "ended": len(losses),
            "left_at_most": step.at_most,
            "done": step.reason,
        }
    running = sum(row.state == "running" for row in rows)
    left = {name: target["left_at_most"] for name, target in targets.items()}
    return {
        "study": str(plan.path),
        "sweep": str(owner) if owner else None,
        "workers": [str(worker) for worker in at_work],
        "jobs": in_queue(plan.path),
        "seconds_left": time_left(rows, left, running) if owner or at_work else None,
        "targets": targets,
        "runs": [{**vars(row), "output": _output(plan, row)} for row in rows],
    }


def in_json(found: dict[str, Any]) -> str:
    """What `status` found as JSON, a run per line: of ten thousand it is still quick to write and to search.

    >>> print(in_json({"sweep": None, "runs": [{"seed": 1}, {"seed": 2}]}))
    {
      "sweep": null,
      "runs": [
        {"seed": 1},
        {"seed": 2}
      ]
    }
    """
    head, tail = json.dumps({**found, "runs": []}, indent=2).rsplit("[]", 1)
    lines = ",\n".join(f"    {json.dumps(run)}" for run in found["runs"])
    return f"{head}[\n{lines}\n  ]{tail}"


def best_in_words(target: dict[str, Any]) -> str:
    """The best beta of a target, as `status` found it, with its rate where several were swept.

    >>> best = {"best_beta": 0.9, "best_rate": None, "best_interval": None, "best_word": "one seed"}
    >>> best_in_words(best), best_in_words(best | {"best_rate": 0.001})
    ('best beta 0.9 (one seed)', 'best pair beta 0.9, lr 0.001 (one seed)')
    """
    if target["best_beta"] is None:
        return f"no best beta: {target['best_word']}"
    interval = target["best_interval"]
    between = f"{interval['lower']:g} to {interval['upper']:g}; " if interval else ""
    best = f"best beta {target['best_beta']:g}"
    if target["best_rate"] is not None:
        best = f"best pair beta {target['best_beta']:g}, lr {target['best_rate']:g}"
        between = between and f"beta {between}"
    return f"{best} ({between}{target['best_word']})"


def _output(plan: Plan, row: Row) -> str | None:
    """Where the run's printed output lies, if it left any."""
    path = f"{plan.path}/runs/{plan.folder_of(row)}/output.log"  # of ten thousand runs a Path takes its time
    return path if os.path.exists(path) else None


def _line(row: Row, output: str | None) -> str:
    """One run, and where it stands or where its output lies."""
    far = f" (step {row.step:,} of {row.budget:,})" if row.state == "running" else ""
    return run_in_words(row) + far + (f"; its output: {output}" if output and row.state == "failed" else "")


def show(found: dict[str, Any]) -> None:
    """Print what `status` found."""
    from rich.console import Console

    from oneclock.sweep.live import table

    console = Console(highlight=False, markup=False, soft_wrap=True)
    outputs = [run["output"] for run in found["runs"]]
    rows = [Row(**{name: value for name, value in run.items() if name != "output"}) for run in found["runs"]]
    if console.is_terminal:
        console.print(table(rows))
    told = [
        _line(row, output) for row, output in zip(rows, outputs, strict=True) if row.reason or not console.is_terminal
    ]
    if told:
        console.print("\n".join(told))
    for name, target in found["targets"].items():
        state = f"done: {target['done']}" if target["done"] else f"at most {target['left_at_most']} to go"
        console.print(printable(f"{name}: {have_ended(target['ended'])}; {state}; {best_in_words(target)}"))
    for job in found["jobs"] or ():
        console.print(printable(f"job {job['job']}: {job['state'].lower()} for {job['time']}, {job['where']}"))
    left = "" if found["seconds_left"] is None else f", about {span(found['seconds_left'])} left"
    console.print(f"{_at_work(found)}{left}")


def _at_work(found: dict[str, Any]) -> str:
    """Who works on the study.

    >>> _at_work({"sweep": None, "workers": ["process 7 on a", "process 9 on b"]})
    '2 worker(s) are running: process 7 on a, process 9 on b'
    """
    if found["workers"]:
        return f"{len(found['workers'])} worker(s) are running: {', '.join(found['workers'])}"
    return f"a sweep is running: {found['sweep']}" if found["sweep"] else "no sweep is running"
