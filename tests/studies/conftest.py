"""The scripts that turn the joint and the short study into tables and a choice, as modules."""

import importlib.util
import sys
from pathlib import Path

import pytest

from oneclock.analysis import analyse
from oneclock.study.sweeps import Sweeps

SCRIPTS = Path(__file__).parents[2] / "scripts"


def _script(name, monkeypatch):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def scripts():
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield {name: _script(name, monkeypatch) for name in ("fresh_seeds", "gains", "choose")}


@pytest.fixture(scope="session")
def made(scripts):
    return scripts["gains"]


@pytest.fixture(scope="session")
def chooser(scripts):
    return scripts["choose"]


@pytest.fixture(scope="session")
def sweeps(made):
    """The sweeps of the joint study."""
    return made.joint_sweeps()


@pytest.fixture(scope="session")
def found(sweeps):
    """What the analysis says of them."""
    return analyse(Sweeps(tuple(sweeps)))
