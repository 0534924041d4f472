"""One thread per test process, for two OpenMP programs at two threads each slow each other tenfold on two cores; and a
real browser with the network off."""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from opened_page import Opened

if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # started in the background: what tests start must hear it all the same
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# On CI the same examples each time; elsewhere new ones, which is how failures are found.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "explore")

collect_ignore_glob = ["conftest.py", "*/conftest.py"]  # doctests are in src; two files of one name would clash

CHROMIUM = "apt-get install -y --no-install-recommends chromium"


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


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Opened]]:
    opened: list[Opened] = []

    def open_it(path: Path, **settings: Any) -> Opened:
        opened.append(Opened(browser, path, **settings))
        return opened[-1]

    yield open_it
    for one in opened:
        one.close()
