"""What must be true before a release: a real address, one version, a dated changelog entry. Standard library only.

python scripts/release_check.py --tag v0.2.0
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[1]
PLACEHOLDER = "OWNER"
"""Stands in every address until the project has a home."""


def published(root: Path) -> list[Path]:
    """The files whose addresses people see: on the index, in the repository and on the site."""
    tops = [
        root / name
        for name in (
            "pyproject.toml",
            "README.md",
            "CHANGELOG.md",
            "CITATION.cff",
            "CONTRIBUTING.md",
            "SECURITY.md",
        )
    ]
    pages = sorted((root / "docs").rglob("*.md")) + sorted((root / "src").rglob("*.md"))
    return [path for path in [*tops, *pages] if path.exists()]


def problems(root: Path, tag: str | None = None) -> list[str]:
    """One line for each thing that a release must not have."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    version = project["version"]
    lines = [
        f"{path.relative_to(root)}: an address still has the placeholder {PLACEHOLDER}: {address}"
        for path in published(root)
        for address in re.findall(
            rf"https?://[^\s\"')>]*\b{PLACEHOLDER}\b[^\s\"')>]*", path.read_text(encoding="utf-8")
        )
    ]
    if tag is not None and tag != f"v{version}":
        lines.append(f"the tag is {tag}, but pyproject.toml says version {version}")
    entry = re.search(rf"^## \[{re.escape(version)}\] - (.+)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    if entry is None:
        lines.append(f"CHANGELOG.md has no entry '## [{version}] - DATE'")
    elif not re.fullmatch(r"\d{4}-\d\d-\d\d", entry[1]):
        lines.append(f"CHANGELOG.md: the entry of {version} has no date: {entry[1]!r}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description="Check that the project can be released.")
    parser.add_argument("--tag", help="the git tag of the release, for example v0.2.0")
    found = problems(ROOT, parser.parse_args().tag)
    print("\n".join(found) or "ready to release")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
