"""The core's tests in environments other than the developer's: each supported Python, and the oldest versions promised.

    python scripts/environments.py 3.10 3.12    the newest packages that each Python has
    python scripts/environments.py oldest       the lower bounds of pyproject.toml, on the oldest Python

Each environment is made anew below .cache/environments, with uv, which finds an interpreter or brings one. On Linux
torch comes with CUDA, some gigabytes, unless UV_TORCH_BACKEND=cpu says otherwise.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
OLDEST = "3.10"
PACKAGE = f"{ROOT}[torch,compact,report,logs,test]"
CORE = [
    *("tests/core", "tests/optim", "tests/stats", "tests/runs"),
    *(f"src/oneclock/{part}" for part in ("rule.py", "horizon", "optim", "runs", "stats", "advise")),
]


def main(wanted: list[str]) -> int:
    """Try each; the exit code is 1 where tests fail or nothing could be tried."""
    outcomes = {name: tried(name) for name in wanted}
    print("\n".join(["", *(f"{name:8} {outcome}" for name, outcome in outcomes.items())]))
    return int(any(outcome.startswith("fails") for outcome in outcomes.values()) or "passes" not in outcomes.values())


def tried(name: str) -> str:
    """What came of one environment."""
    place = ROOT / ".cache" / "environments" / name
    python = place / "bin" / "python"
    if uv("venv", "--clear", "--python", OLDEST if name == "oldest" else name, place).returncode:
        return "not tried: no such Python here, and none could be downloaded"
    lowest = ["--resolution", "lowest-direct"] if name == "oldest" else []
    if uv("pip", "install", *lowest, "--python", python, "--editable", PACKAGE).returncode:
        return "fails: its packages do not install"
    tests = subprocess.run(
        [python, "-m", "pytest", "-p", "no:cacheprovider", "--doctest-ignore-import-errors", *CORE],
        check=False,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": ""},
    )
    return "passes" if tests.returncode == 0 else "fails"


def uv(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    """Run uv quietly, with pyenv's interpreters among those it looks at."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    path = os.pathsep.join([*(str(folder) for folder in sorted(pyenv.glob("*/bin"))), os.environ["PATH"]])
    command = [sys.executable, "-m", "uv", "--quiet", *arguments]
    return subprocess.run(command, check=False, env={**os.environ, "PATH": path})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
