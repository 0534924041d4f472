"""A missing package gives the one pip command that adds it, and torchvision is missed by nobody."""

import importlib
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("integration", "package", "extra"),
    [
        ("huggingface", "transformers", "language"),
        ("lightning", "lightning.pytorch", "lightning"),
        ("optax", "optax", "jax"),
    ],
)
def test_a_missing_package_is_one_pip_command_away(monkeypatch, integration, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"oneclock.integrations.{integration}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'oneclock\[{extra}\]'$"):
        importlib.import_module(f"oneclock.integrations.{integration}")


def test_without_torchvision_there_is_nothing_to_guard(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    monkeypatch.delitem(sys.modules, "oneclock.torchvision_guard", raising=False)
    importlib.import_module("oneclock.torchvision_guard")


@pytest.mark.parametrize("module", ["optim", "integrations.huggingface", "integrations.lightning"])
def test_without_torch_one_line_names_the_command_that_installs_it(module):
    code = f"import sys; sys.modules['torch'] = None; import oneclock.{module}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.rstrip().endswith("pip install 'oneclock[torch]'")
