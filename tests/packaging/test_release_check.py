"""A release is refused while something in it is not ready."""

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "release_check.py"
spec = importlib.util.spec_from_file_location("release_check", SCRIPT)
release_check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(release_check)

GOOD = '[project]\nversion = "1.2.0"\n[project.urls]\nHomepage = "https://example.org/oneclock"\n'


@pytest.mark.parametrize(
    ("project", "changelog", "tag", "words"),
    [
        (GOOD, "## [1.2.0] - 2026-11-18\n", "v1.2.0", None),
        (GOOD.replace("example", "OWNER"), "## [1.2.0] - 2026-11-18\n", None, "placeholder"),
        (GOOD, "## [1.2.0] - 2026-11-18\n", "v1.3.0", "tag"),
        (GOOD, "## [Unreleased]\n", None, "no entry"),
        (GOOD, "## [1.2.0] - soon\n", None, "no date"),
    ],
)
def test_each_problem_is_one_line(tmp_path, project, changelog, tag, words):
    (tmp_path / "pyproject.toml").write_text(project)
    (tmp_path / "CHANGELOG.md").write_text(changelog)
    found = release_check.problems(tmp_path, tag)
    assert [words in line for line in found] == ([] if words is None else [True])
