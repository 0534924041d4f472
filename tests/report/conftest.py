"""Studies made once per session, and a real browser with the network off."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from report_studies import SCRIPT, write_run, write_study

from oneclock.report.subject import Subject, subject_of

CHROMIUM = "apt-get install -y --no-install-recommends chromium"


@pytest.fixture(scope="session")
def small_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two development experiments and one held out, one of them with a hostile name, and an untied baseline."""
    study = write_study(tmp_path_factory.mktemp("small") / "study", ("digits", "shakespeare", SCRIPT))
    write_run(study, "digits", (0.9, 0.999), 1)
    return study


@pytest.fixture(scope="session")
def subject(small_study: Path) -> Subject:
    return subject_of(small_study)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of Chromium; in CI its absence is a failure, elsewhere a skip that says how to get it."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        message = f"no Chromium on this machine; {CHROMIUM}"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(message)
    return found


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Any]:
    """A browser that a test opens contexts in."""
    from playwright.sync_api import sync_playwright

    quiet = ("gpu", "quic", "background-networking", "component-update", "sync")
    arguments = ["--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in quiet)]
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_CACHE_HOME": home}
        opened = playwright.chromium.launch(executable_path=chromium, args=arguments, env=environment)
        yield opened
        opened.close()
