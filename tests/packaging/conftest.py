"""The archives of a release: those that ONECLOCK_DIST names, as `make release` does, or built here, offline."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def archives(tmp_path_factory):
    """Wheel and source archive."""
    folder = Path(os.environ.get("ONECLOCK_DIST") or tmp_path_factory.mktemp("dist"))
    if not any(folder.iterdir()):
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
        subprocess.run(build, check=True, capture_output=True)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source
