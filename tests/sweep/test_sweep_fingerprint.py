"""What counts as the same code: values by content, files by module and path, and nothing that is installed."""

import argparse
import os
import subprocess
import sys
import threading
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, make_dataclass
from enum import IntEnum
from functools import cache, partial
from typing import NamedTuple

import numpy as np
import pytest

from oneclock import Execution, run_sweep
from oneclock.sweep import fingerprint, source
from oneclock.sweep.targets import Function


def train(beta, seed, run, width=8, config=None):
    return beta + width


@dataclass
class Config:
    width: int = 8


class Model:
    def __init__(self, width):
        self.width = width

    def train(self, beta, seed, run):
        return beta + self.width

    def __call__(self, beta, seed, run):
        return beta + self.width


def closure(value):
    return lambda beta, seed, run: (beta, value)


def global_user(beta, seed, run):
    return beta + SETTING["width"]


SETTING = {"width": 8}


def of_class_attribute(width):
    class Local:
        size = width

    return closure(Local)


def with_attribute(value, width):
    value.width = width
    return value


def with_width(kind, *arguments):
    def made(width):
        one = type(kind.__name__.title(), (kind,), {"__module__": __name__})(*arguments)
        one.width = width
        return closure(one)

    return made


def of_method(kind, width):
    """A value of a class whose code differs: a tuple, an enum."""
    scope = {"__name__": __name__, "NamedTuple": NamedTuple, "IntEnum": IntEnum}
    exec(f"class Made({kind}):\n  def width(self): return {width}", scope)
    return closure(scope["Made"])


def of_installed_closure(width):
    """What a function of an installed package returns, such as a schedule."""
    scope = {"__name__": "numpy"}
    exec("def make(width):\n  def schedule(step): return width * step\n  return schedule", scope)
    return closure(scope["make"](width))


KINDS = {
    **{
        f"own {kind.__name__}": with_width(kind, *arguments)
        for kind, *arguments in (
            (dict, {"a": 1}),
            (list, [1]),
            (tuple, [1]),
            (set, [1]),
            (str, "a"),
            (int, 1),
            (float, 1.0),
            (bytes, b"a"),
        )
    },
    "default of a dictionary": lambda width: closure(defaultdict(partial(int, width))),
    "order of an ordered dictionary": lambda width: closure(
        OrderedDict((key, 1) for key in sorted("ab", reverse=width == 8))
    ),
    "attribute of a partial": lambda width: with_attribute(partial(train), width),
    "metaclass": lambda width: closure(type("Meta", (type,), {"width": width})("Made", (), {})),
    "method of a named tuple": lambda width: of_method("NamedTuple", width),
    "method of an enum": lambda width: of_method("IntEnum", width),
    "closure of an installed function": of_installed_closure,
    "made dataclass": lambda width: closure(make_dataclass("Made", [("width", int, width)])),
    "keyword partial": lambda width: partial(train, width=width),
    "positional partial": lambda width: partial(lambda w, beta, seed, run: w, width),
    "nested partial": lambda width: partial(partial(train, width=width), config=1),
    "bound method": lambda width: Model(width).train,
    "callable object": Model,
    "namespace": lambda width: closure(argparse.Namespace(width=width)),
    "dataclass": lambda width: closure(Config(width)),
    "array": lambda width: closure(np.full(3, float(width))),
    "object array": lambda width: closure(np.array([width, None], dtype=object)),
    "numpy generator": lambda width: closure(np.random.default_rng(width)),
    "list of functions": lambda width: closure([abs, lambda x: x + width]),
    "set": lambda width: closure({"a", "b", width}),
    "default": lambda width: eval(f"lambda beta, seed, run, w={width}: w"),
    "cached helper": lambda width: closure(cache(lambda: width)),
    "class attribute": of_class_attribute,
    "bytes": lambda width: closure(bytes([width])),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_counts_by_its_content(kind):
    make = KINDS[kind]
    assert fingerprint.of_callable(make(8)).parts == fingerprint.of_callable(make(8)).parts
    assert fingerprint.of_callable(make(8)).parts != fingerprint.of_callable(make(16)).parts


def test_tensors_and_modules_of_torch_count_by_their_content():
    torch = pytest.importorskip("torch")
    for make in (
        lambda x: torch.full((2,), float(x), dtype=torch.bfloat16),
        lambda x: torch.nn.Threshold(x, 1),
        lambda x: torch.nn.Parameter(torch.full((2,), float(x))),
        lambda x: torch.Generator().manual_seed(x),
        lambda x: torch.device("cpu", x),
    ):
        one, same, other = (fingerprint.of_callable(closure(make(x))).parts for x in (8, 8, 16))
        assert one == same != other


def test_a_global_and_an_attribute_of_a_function_count(monkeypatch):
    before = fingerprint.of_callable(global_user).parts
    monkeypatch.setitem(SETTING, "width", 16)
    assert fingerprint.of_callable(global_user).parts != before
    monkeypatch.setitem(SETTING, "width", 8)
    assert fingerprint.of_callable(global_user).parts == before
    monkeypatch.setattr(global_user, "width", 3, raising=False)
    assert fingerprint.of_callable(global_user).parts != before


def test_the_order_of_two_functions_of_one_name_counts():
    one, two = (lambda x: x + 1), (lambda x: x * 2)
    assert fingerprint.of_callable(closure([one, two])).parts != fingerprint.of_callable(closure([two, one])).parts


def test_an_exception_handler_counts():
    space = [{}, {}]
    for name, scope in zip(("KeyError", "ValueError"), space, strict=True):
        exec(f"def f(beta, seed, run):\n  try:\n    return 1\n  except {name}:\n    return 2", scope)
    one, two = (fingerprint.of_callable(scope["f"]).parts for scope in space)
    assert one != two


def test_a_value_that_holds_itself_is_hashed():
    def made(width):
        value = {"width": width}
        value["self"] = value
        return closure(value)

    assert fingerprint.of_callable(made(1)).parts == fingerprint.of_callable(made(1)).parts
    assert fingerprint.of_callable(made(1)).parts != fingerprint.of_callable(made(2)).parts


def test_what_cannot_be_compared_is_refused_with_the_way_on(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import threading\nfrom oneclock import run_sweep\nlock = threading.Lock()\n"
        "def train(beta, seed, run):\n    with lock:\n        return beta\n"
        "run_sweep(train, 5, 's', betas=[0.5], seeds=[1], quiet=True)\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ValueError: lock holds a lock")
    assert "file.py:function" in last
    assert not (tmp_path / "s").exists()
    with pytest.raises(ValueError, match="make it inside the function"):
        fingerprint.of_callable(partial(train, config=threading.Lock()))


def test_the_hash_is_the_same_in_every_process(tmp_path):
    text = (
        "from oneclock.sweep import fingerprint\n"
        "names = {'a', 'b', 'c', 'd'}\n"
        "def train(beta, seed, run):\n    return beta if 'x' in {'p', 'q', 'r'} else names\n"
        "print(fingerprint.of_callable(train).parts)\n"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", text], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True
        ).stdout
        for seed in "123"
    }
    assert len(told) == 1
    assert b"train" in told.pop()


def test_a_sweep_of_other_values_into_the_same_folder_is_refused(tmp_path):
    def sweep(width):
        target = partial(train, width=width)
        return run_sweep(
            target, 5, tmp_path / "s", betas=[0.5], seeds=[1], where=Execution(in_process=True), quiet=True
        )

    assert sweep(8).rows()[0].best_loss == 8.5
    assert sweep(8).rows()[0].best_loss == 8.5
    with pytest.raises(ValueError, match="has changed"):
        sweep(16)


@pytest.fixture
def project(tmp_path):
    """A package with the shapes that imports have, and a script beside it."""
    files = {
        "main.py": "import pkg.model\nfrom tools import utils\nfrom pkg.sub import *\n",
        "utils.py": "beside = 1\n",
        "tools/utils.py": "scale = 1\n",
        "pkg/__init__.py": "from . import helper\n",
        "pkg/helper.py": "h = 1\n",
        "pkg/model.py": "import utils\nfrom pkg.layers import block\nfrom .sub.deep import x\nfrom .. import nothing\n",
        "pkg/utils.py": "inside = 1\n",
        "pkg/layers/__init__.py": "",
        "pkg/layers/block.py": "b = 1\n",
        "pkg/sub/__init__.py": "from ..utils import inside\n",
        "pkg/sub/deep.py": "def f():\n    import lazy\n    import importlib\n    importlib.import_module('named')\n",
        "lazy.py": "",
        "named.py": "",
        "unused.py": "",
    }
    for name, text in files.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


def test_every_file_that_imports_lead_to_counts_by_its_path(project):
    parts = fingerprint.of_file(project / "main.py").parts
    everything = {path.relative_to(project).as_posix() for path in project.rglob("*.py")}
    assert set(parts) == everything - {"unused.py"}
    for name in parts:
        text = (project / name).read_text()
        (project / name).write_text(text + "edited = 1\n")
        after = fingerprint.of_file(project / "main.py").parts
        assert fingerprint.changed(parts, after) == [name]
        (project / name).write_text(f"# a comment\n{text}")
        assert fingerprint.of_file(project / "main.py").parts == parts


def test_the_same_names_in_a_moved_project(project, tmp_path):
    before = fingerprint.of_file(project / "main.py").parts
    project.rename(tmp_path / "elsewhere")
    assert fingerprint.of_file(tmp_path / "elsewhere/main.py").parts == before


def test_a_module_given_to_a_command_and_its_files(project, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert fingerprint.of_command("python -m pkg.model --beta {beta}").parts == {}
    monkeypatch.chdir(project)  # Python keeps what it found in "." by that name, so the folder before must not count
    (project / "conf").mkdir()
    (project / "conf/a.yaml").write_text("lr: 1")
    (project / "go.sh").write_text("#!/bin/sh\npython main.py $1\n")
    assert "pkg/layers/block.py" in fingerprint.of_command("python -m pkg.model --beta {beta}").parts
    assert set(fingerprint.of_command("python utils.py --config=conf/a.yaml {beta}").parts) == {
        "utils.py",
        "conf/a.yaml",
    }
    assert {"go.sh", "main.py"} <= set(fingerprint.of_command("sh go.sh {beta}").parts)
    assert set(fingerprint.of_command("cd tools && python utils.py {beta}").parts) == {"utils.py"}


def test_the_packages_around_a_named_module_count_from_the_start(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "around").mkdir()
    (tmp_path / "around/__init__.py").write_text("scale = 1\n")
    (tmp_path / "around/mine.py").write_text("def train(beta, seed, run):\n    return beta\n")
    target = Function.of("around.mine:train", 5)
    assert set(target.code) == {"around/__init__.py", "around/mine.py"}
    assert target.code == target._code_now().parts
    monkeypatch.delitem(sys.modules, "around")


@pytest.mark.parametrize("place", ["user/lib/python3.11/site-packages", "apps/torchmod/2.1"])
def test_installed_packages_do_not_count_wherever_they_are(project, tmp_path, monkeypatch, place):
    root = tmp_path / place
    (root / "other").mkdir(parents=True)
    (root / "other/__init__.py").write_text("from other import part\n")
    (root / "other/part.py").write_text("")
    (root / "other-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(root))
    (project / "main.py").write_text("import other\nimport utils\n")
    source._holds_distributions.cache_clear()
    assert set(fingerprint.of_file(project / "main.py").parts) == {"main.py", "utils.py"}
    assert source.installed_imports(project / "main.py") == ["other"]


def test_what_a_package_loads_only_for_a_name_is_loaded_before_runs_are_forked(project, tmp_path, monkeypatch):
    """As in transformers: `from package import Model` imports the module of the model, which takes a second."""
    root = tmp_path / "lib" / "python3.11" / "site-packages"
    (root / "slow").mkdir(parents=True)
    (root / "slow/__init__.py").write_text(
        "import importlib\n\ndef __getattr__(name):\n    return importlib.import_module('slow.model').Model\n"
    )
    (root / "slow/model.py").write_text("Model = object\n")
    (root / "slow-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(str(root))
    (project / "main.py").write_text("from slow import Model\nfrom utils import *\n")
    source._holds_distributions.cache_clear()
    modules = source.installed_imports(project / "main.py")
    call = f"from oneclock.sweep.exec.server import _import; _import({modules})"
    line = f"import sys; {call}; print('slow.model' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    assert subprocess.run([sys.executable, "-c", line], env=environment, capture_output=True).stdout == b"True\n"


def test_a_helper_that_a_function_imports_as_it_runs_counts(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "late_helper.py").write_text("scale = 1\n")

    def lazily(beta, seed, run):
        from late_helper import scale

        return scale

    before = fingerprint.of_callable(lazily).parts
    assert "late_helper.py" in before
    (tmp_path / "late_helper.py").write_text("scale = 2\n")
    assert fingerprint.of_callable(lazily).parts != before


def test_the_files_are_hashed_once_for_all_runs(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text("def train(beta, seed, run):\n    return beta\n")
    calls = []
    plain = fingerprint.of_file
    monkeypatch.setattr(fingerprint, "of_file", lambda file: calls.append(file) or plain(file))
    run_sweep(f"{tmp_path}/mine.py:train", 5, tmp_path / "s", seeds=[1], where=Execution(in_process=True), quiet=True)
    assert len(calls) == 1


def test_an_edited_script_of_a_command_fails_later_runs(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys\nprint('step 5 val_loss', sys.argv[1])\nopen(__file__, 'a').write('x = 1\\n')\n")
    command = f"{sys.executable} {script} {{beta}} {{seed}}"
    line = [sys.executable, "-m", "oneclock", "sweep", "--command", command, "--budget", "5", "--seeds", "1"]
    line += ["--betas", "0.5,0.9,0.99", "--jobs", "1", "--retries", "0", "--out", tmp_path / "s", "--no-report"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    from oneclock import open_study

    rows = open_study(tmp_path / "s").rows()
    assert sorted(row.status for row in rows)[-1] == "finished"
    assert all("edited while the sweep ran (script.py)" in row.reason for row in rows if row.status == "failed")


@pytest.mark.parametrize(
    ("main", "files"),
    [
        ("import pkg.part", {"pkg/part.py": "from x import *\nimport_module('.helper')", "pkg/helper.py": ""}),
        ("import sys\nsys.path.insert(0, 'lib')\nimport helper", {"lib/helper.py": ""}),
        ("import sub.deep", {"sub/deep.py": "import sys\nsys.path.append(PARENT)\nimport helper", "helper.py": ""}),
    ],
)  # fmt: skip
def test_modules_found_at_run_time_count(tmp_path, monkeypatch, main, files):
    for name, text in {"main.py": main, **files}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert any(name.endswith("helper.py") for name in fingerprint.of_file(tmp_path / "main.py").parts)


def test_a_variable_that_a_command_names_counts_by_its_value(monkeypatch):
    def code(width, place):
        monkeypatch.setenv("WIDTH", width)
        monkeypatch.setenv("TMPDIR", place)
        return fingerprint.of_command("for i in 1 2; do train --width ${WIDTH} $TMPDIR/$i {beta}; done").parts

    before = code("8", "/a")
    assert list(before) == ["$WIDTH"]
    assert code("8", "/b") == before
    assert fingerprint.changed(before, code("16", "/a")) == ["$WIDTH"]


@pytest.mark.parametrize(
    "command",
    [
        "PYTHONPATH=lib python main.py {beta}",
        "env PYTHONPATH=lib python main.py {beta}",
        "export PYTHONPATH=lib; python main.py {beta}",
        "bash -c 'cd lib && python helper.py {beta}'",
        "cd lib; python helper.py {beta}",
        "(cd lib && python helper.py)",
        "python lib/helper.py|tee log",
        "torchrun --module lib.helper",
        "./start {beta}",
        "bash start.sh {beta}",
        "cat <lib/helper.py",
        "python other @lib/helper.py",
    ],
)
def test_a_file_counts_however_a_command_names_it(tmp_path, monkeypatch, command):
    lines = "echo it's on\nif true; then python lib/helper.py; fi\n"
    files = {"main.py": "import helper", "lib/helper.py": "", "start": f"#!/bin/sh\n{lines}", "start.sh": lines}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert any(name.endswith("helper.py") for name in fingerprint.of_command(command).parts)
