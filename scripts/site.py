"""The documentation's pages that are made, not written: study reports, the API reference, what the calculator runs."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import page_python
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import oneclock
from oneclock import rule

STUDIES = Path(__file__).parents[1] / "studies"

KINDS = ("Refresh", "Fixed", "Power", "Bent")
"""The rules that docs/calculator/calculator.js can compute."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """A hook of mkdocs."""
    for page in sorted(STUDIES.glob("*/report/report.html")):
        name = page.parents[1].name
        files.append(File.generated(config, f"studies/{name}.html", abs_src_path=str(page)))
    files.append(File.generated(config, "api.md", content=api_page()))
    files.append(File.generated(config, "calculator/rule.js", content=calculator_rules()))
    if page_python.ARCHIVE.exists():
        files.append(File.generated(config, "calculator/python.js", content=page_python.script()))
    return files


def api_page() -> str:
    """Every public name of the package, in the order of its `__all__`; mkdocstrings fills in what each is."""
    names = (f"::: oneclock.{name}\n" for name in oneclock.__all__)
    return "\n".join(["# The Python interface", "What `import oneclock` offers; all else may change.\n", *names])


def calculator_rules() -> str:
    """The recommendation and the paper's rule as values that the calculator's script computes with."""
    low, high = rule.CALIBRATED
    sides = {"below": low - 1, "within": low, "above": high + 1}
    data = {
        "recommended": rule_values(rule.chosen_rule()),
        "paper": rule_values(rule.chosen_rule("paper")),
        "calibrated": rule.CALIBRATED,
        "sure": {side: oneclock.recommend(steps).sure for side, steps in sides.items()},
        "readsLogs": page_python.ARCHIVE.exists(),
        "grid": [{"beta": beta, **reach(beta)} for beta in sorted(rule.GRID)],
    }
    return f"const ONECLOCK = {json.dumps(data, indent=2)};\n"


def rule_values(chosen: rule.Rule) -> dict[str, str | float]:
    """A rule's kind and numbers."""
    kind = type(chosen).__name__
    if kind not in KINDS:
        raise ValueError(
            f"the calculator cannot compute a {kind} rule; add it to docs/calculator/calculator.js and here"
        )
    return {"kind": kind, **dataclasses.asdict(chosen)}  # type: ignore[call-overload] # each kind is a dataclass


def reach(beta: float) -> dict[str, int | None]:
    """The horizons for which the paper's rule projects to a value of the grid, None where there is no end."""
    low, high = rule.stability_interval(beta)
    return {"from": round(low) if low else None, "to": None if math.isinf(high) else round(high)}
