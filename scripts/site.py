"""The documentation's pages that are made, not written: study reports, both references, what the calculator runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import command_page
import page_python
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import oneclock
from oneclock import rule
from oneclock.evidence.model import packaged_ranges
from oneclock.recommend import MEASURED

STUDIES = Path(__file__).parents[1] / "studies"
PACKAGE = Path(oneclock.__file__).parent

KINDS = ("SquareRoot", "Refresh", "Fixed", "Power")
"""The rules that docs/calculator/calculator.js can compute."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """A hook of mkdocs."""
    for page in sorted(STUDIES.glob("*/report/report.html")):
        name = page.parents[1].name
        files.append(File.generated(config, f"studies/{name}.html", abs_src_path=str(page)))
    files.append(File.generated(config, "api.md", content=api_page()))
    for text_file in ("llms.txt", "SKILL.md"):  # as they are: for scripts, not as pages of the site
        text = (PACKAGE / "agents" / text_file).read_text(encoding="utf-8")
        files.append(File.generated(config, text_file.replace("SKILL.md", "skill.txt"), content=text))
    files.append(File.generated(config, "commands.md", content=command_page.page()))
    files.append(File.generated(config, "calculator/rule.js", content=calculator_rules()))
    if page_python.ARCHIVE.exists():
        files.append(File.generated(config, "calculator/python.js", content=page_python.script()))
    return files


FIRST = """# The Python interface
Most users need four calls:

```python
import oneclock

answer = oneclock.recommend(20_000)  # which beta for 20,000 steps, and the evidence
optimizer = oneclock.BalancedAdamW(model.parameters(), lr=3e-4, horizon=20_000)  # train with it
advice = oneclock.advise("runs/")  # what an earlier run's log says
study = oneclock.run_sweep(train, budget=20_000, out="study")  # measure it: train(beta, seed, run)
```

Everything that `import oneclock` offers follows. Anything else may change ([versions](versions.md)).
"""


FOUR = ("recommend", "BalancedAdamW", "advise", "run_sweep")


def api_page() -> str:
    """Every public name of the package, the four most used first; mkdocstrings fills in what each is."""
    names = [*FOUR, *(name for name in oneclock.__all__ if name not in FOUR)]
    modules = {path.stem for path in PACKAGE.glob("*") if not path.stem.startswith("_")}
    paths = [f"oneclock.{name}.{name}" if name in modules else f"oneclock.{name}" for name in names]  # the function
    return "\n".join([FIRST, *(f"::: {path}\n" for path in paths)])


def calculator_rules() -> str:
    """The recommendation and the paper's rule as values that the calculator's script computes with."""
    data = {
        "recommended": rule_values(rule.resolve_rule()),
        "paper": rule_values(rule.resolve_rule("paper")),
        "measured": MEASURED,
        "ranges": [row[1:3] for row in packaged_ranges()],
        "readsLogs": page_python.ARCHIVE.exists(),
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
