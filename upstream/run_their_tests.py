"""Run the adapters under the tests that each project asks for, against its current release.

    python upstream/run_their_tests.py pytorch_optimizer optax timm

pip fetches the source archive of the newest release. The adapter and its one line in the project's own table are added
to a scratch copy, and the tests of that table are run there. timm's tests need `pip install expecttest`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
NAME = "BalancedAdamW"


def source(package: str, folder: Path) -> Path:
    """The unpacked source archive of the newest release that pip offers."""
    line = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "-q",
        "--no-deps",
        "--no-binary",
        ":all:",
        "-d",
        str(folder),
        package,
    ]
    subprocess.run(line, check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (root,) = (path for path in folder.iterdir() if path.is_dir())
    return root


def edit(path: Path, pattern: str, replacement: str) -> None:
    """Replace the first match; a project that moved its table is noticed."""
    text, count = re.subn(pattern, replacement, path.read_text(), count=1, flags=re.MULTILINE)
    if not count:
        raise SystemExit(f"{path.name} has no {pattern!r}: the project has changed, adapt this script")
    path.write_text(text)


def pytorch_optimizer(folder: Path) -> int:
    root = source("pytorch_optimizer", folder)
    adapter = (HERE / "pytorch_optimizer" / "balanced_adamw.py").read_text()
    (root / "pytorch_optimizer" / "optimizer" / "balanced_adamw.py").write_text(adapter)
    init = root / "pytorch_optimizer" / "optimizer" / "__init__.py"
    above = "from pytorch_optimizer.optimizer.adai import Adai"
    edit(init, f"^{re.escape(above)}$", f"{above}\\n{above.replace('adai', 'balanced_adamw').replace('Adai', NAME)}")
    edit(init, r"^    'Adai',$", f"    'Adai',\\n    '{NAME}',")
    edit(init, r"^    Adai,$", f"    Adai,\\n    {NAME},")
    recipe = "('balancedadamw', {'lr': 1e0, 'num_steps': 10}, 5)"
    edit(root / "tests" / "recipes.py", r"^    \('adai',", f"    {recipe},\\n    ('adai',")
    return run(root, "-k", "balanced", "tests")


def optax(folder: Path) -> int:
    root = source("optax", folder)
    contrib = root / "optax" / "contrib"
    (contrib / "_balanced.py").write_text((HERE / "optax" / "_balanced.py").read_text())
    names = "".join(f"from optax.contrib._balanced import {name}\n" for name in ("balanced_adamw", "balanced_beta"))
    (contrib / "__init__.py").write_text((contrib / "__init__.py").read_text() + names)
    row = "{'opt_name': 'balanced_adamw', 'opt_kwargs': {'learning_rate': 1e-1, 'num_steps': 1000}}"
    table = "_MAIN_OPTIMIZERS_UNDER_TEST"
    edit(contrib / "_common_test.py", rf"^{table} = \[$", f"{table} = [\\n    {row},")
    ours = "".join(
        f"{name} = [row for row in {name} if row['opt_name'] == 'balanced_adamw']\\n"
        for name in (table, "_ALL_OPTIMIZERS_UNDER_TEST")
    )  # their table gives tests numbers for names: the others are left out
    edit(contrib / "_common_test.py", r"^class ContribTest", f"{ours}\\n\\nclass ContribTest")
    return run(root, "optax/contrib/_common_test.py")


def timm(folder: Path) -> int:
    """The tests that timm runs for every optimizer of its registry. They give no horizon, so the entry has one here.

    One is left out: a class without betas must have no argument of that name. Ours has one, to refuse it in one line.
    """
    root = source("timm", folder)
    entry = (HERE / "timm" / "register.py").read_text()
    (root / "timm" / "optim" / "balanced.py").write_text(entry)
    factory = root / "timm" / "optim" / "_optim_factory.py"
    added = "import dataclasses\nfrom timm.optim.balanced import ENTRY\n"
    added += "default_registry.register(dataclasses.replace(ENTRY, defaults={'horizon': 1000}))"
    edit(factory, r"^# Public API$", f"{added}\n\n# Public API")
    guard = ("-p", "oneclock.torchvision_guard")  # for a torchvision beside a torch without CUDA
    return run(root, *guard, "tests/test_optim.py", "-k", "balanced and not common_kwargs")


def run(root: Path, *arguments: str) -> int:
    paths = os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", *arguments]
    return subprocess.run(line, cwd=root, env=os.environ | {"PYTHONPATH": paths}, check=False).returncode


PROJECTS = {"pytorch_optimizer": pytorch_optimizer, "optax": optax, "timm": timm}


def main() -> None:
    codes = {}
    for name in sys.argv[1:] or PROJECTS:
        with tempfile.TemporaryDirectory() as folder:
            codes[name] = PROJECTS[name](Path(folder))
    print("; ".join(f"{name}: {'passed' if code == 0 else f'failed ({code})'}" for name, code in codes.items()))
    sys.exit(any(codes.values()))


if __name__ == "__main__":
    main()
