"""What the page of promises names as proof is there."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_every_promise_names_a_test_that_exists():
    rows = [
        line
        for page in ("promises.md", "research/faults.md")
        for line in (TESTS.parent / "docs" / page).read_text(encoding="utf-8").splitlines()
        if "::" in line
    ]
    promised = [name for row in rows for name in re.findall(r"`([\w/]+\.py)::(\w+)`", row)]
    assert len(promised) >= len(rows) > 20
    for file, name in promised:
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, f"{file}::{name}"
