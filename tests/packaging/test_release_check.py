"""A release is refused while something in it is not ready."""

import importlib.util
from pathlib import Path

import pytest
import yaml

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


def test_an_address_in_a_page_is_seen_too(tmp_path):
    (tmp_path / "pyproject.toml").write_text(GOOD)
    (tmp_path / "CHANGELOG.md").write_text("## [1.2.0] - 2026-11-18\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("[code](https://example.org/OWNER/oneclock) by its OWNER\n")
    (found,) = release_check.problems(tmp_path)
    assert found.startswith("docs/page.md")


def test_this_project_has_no_home_yet_and_is_refused():
    assert {line.partition(":")[0] for line in release_check.problems(SCRIPT.parents[1])} >= {"pyproject.toml"}


def test_every_test_belongs_to_a_part_of_the_workflow():
    root = SCRIPT.parents[1]
    workflow = yaml.safe_load((root / ".github" / "workflows" / "check.yml").read_text())
    parts = [part["paths"].split() for part in workflow["jobs"]["tests"]["strategy"]["matrix"]["part"]]
    listed = [path for part in parts for path in part]
    tests = {f"tests/{p.name}" for p in (root / "tests").iterdir() if p.name.startswith("test_")}
    tests |= {f"tests/{p.name}" for p in (root / "tests").iterdir() if p.is_dir() and any(p.rglob("test_*.py"))}
    assert sorted(listed) == sorted({*tests, "src"})
