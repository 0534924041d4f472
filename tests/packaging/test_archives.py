"""What a release holds: the package whole, a source archive whose tests can run, a base without torch."""

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from test_clean_environments import EXTRAS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def metadata(archives):
    with zipfile.ZipFile(archives[0]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(wheel.read(name))


def files_below(*folders):
    found = (path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file())
    kept = (path for path in found if "__pycache__" not in path.parts and path.suffix != ".pyc")
    return {path.relative_to(ROOT).as_posix() for path in kept}


def test_the_wheel_is_the_package_and_nothing_else(archives):
    with zipfile.ZipFile(archives[0]) as wheel:
        names = {f"src/{name}" for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == files_below("src/oneclock")
    assert {"src/oneclock/py.typed", "src/oneclock/report/page/report.html"} <= names


def test_the_source_archive_holds_what_its_tests_need(archives):
    with tarfile.open(archives[1]) as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    needed = files_below("src", "tests", "examples", "benchmarks", "scripts", "docs")
    studies = {path.relative_to(ROOT).as_posix() for path in (ROOT / "studies").glob("*/study.json")}
    tops = {"README.md", "CHANGELOG.md", "LICENSE", "CITATION.cff", "Makefile", "constraints.txt", "mkdocs.yml"}
    assert needed | studies | tops <= names
    assert not {name for name in names if name.startswith((".venv/", ".cache/", "dist/", "site/"))}


def test_an_index_would_take_them(archives):
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *archives], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("PASSED") == 2


def test_the_base_is_light_and_what_needs_torch_says_so(metadata):
    requirements = metadata.get_all("Requires-Dist")
    base = {re.split(r"[^\w-]", requirement)[0] for requirement in requirements if "extra ==" not in requirement}
    assert base <= {"cloudpickle", "numpy", "pandas", "rich", "typer"}
    for extra in ("language", "vision", "lightning"):
        assert any(re.match(rf"torch>=.*extra == '{extra}'", requirement) for requirement in requirements), extra


def test_each_extra_is_tried_in_an_environment_of_its_own(metadata):
    assert EXTRAS.keys() == {*metadata.get_all("Provides-Extra")} - {"all", "test", "dev"}


def test_the_changelog_names_each_version_once_and_this_one_or_what_is_unreleased_first(metadata):
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", changelog, flags=re.MULTILINE)
    versions = [re.fullmatch(r"\[(Unreleased|[\d.]+)\](?: - \d{4}-\d\d-\d\d)?", line)[1] for line in headings]
    assert len(versions) == len({*versions})
    assert versions[0] in ("Unreleased", metadata["Version"])
    for part in changelog.split("\n## ")[1:]:
        kinds = re.findall(r"^### (.*)$", part, flags=re.MULTILINE)
        assert kinds == [
            kind for kind in ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security") if kind in kinds
        ]


@pytest.mark.slow
def test_the_source_archive_s_own_tests_pass_without_the_clone(archives, tmp_path):
    with tarfile.open(archives[1]) as source:
        source.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    tests = [
        "tests/core",
        "tests/lab/studies",
        "tests/site",
        "tests/test_readme.py",
        "tests/packaging/test_archives.py",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *tests],
        cwd=unpacked,
        env={**os.environ, "PYTHONPATH": str(unpacked / "src"), "ONECLOCK_DIST": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
