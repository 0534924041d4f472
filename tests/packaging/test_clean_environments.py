"""A release in environments that hold nothing else: the light base, and each extra. They download: slow."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "logs"))

from logs_corpus import CORPUS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TRAIN = """
import pathlib, sys
beta, folder = float(sys.argv[1]), pathlib.Path(sys.argv[2])
rows = [f"{step},{(beta - 0.9) ** 2 + 1 / step}" for step in range(100, 1100, 100)]
(folder / "log.csv").write_text("\\n".join(["step,val_loss", *rows]))
"""


class Environment:
    """A virtual environment with one thing installed, outside of this project's reach."""

    def __init__(self, folder, *requirements):
        self.folder, self.bin = folder, folder / "venv" / "bin"
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        install = ["-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", *requirements]
        started = time.monotonic()
        self.run("python", *install)
        self.seconds = time.monotonic() - started

    def run(self, program, *arguments, ok=True):
        """What it prints; its complaint where it is expected to fail."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        done = subprocess.run(
            [self.bin / program, *arguments],
            cwd=self.folder,
            env={**environment, "PATH": f"{self.bin}:{environment['PATH']}"},
            capture_output=True,
            text=True,
        )
        assert (done.returncode == 0) is ok, done.stderr
        return done.stdout if ok else done.stderr

    def megabytes(self):
        """What was installed weighs, without the tools that a virtual environment begins with."""
        (packages,) = (self.folder / "venv" / "lib").glob("python*/site-packages")
        files = (path for path in packages.rglob("*") if path.is_file())
        return (
            sum(p.stat().st_size for p in files if p.relative_to(packages).parts[0] not in ("pip", "setuptools")) / 1e6
        )


EXTRAS = {
    "torch": "import oneclock, torch; oneclock.BalancedAdamW(torch.nn.Linear(2, 1).parameters(), horizon=20_000)",
    "language": "import oneclock.integrations.huggingface, oneclock.lab.models.language",
    "vision": "import oneclock.lab.models.vision",
    "lightning": "import oneclock.integrations.lightning",
    "jax": "import oneclock.integrations.optax, sys; assert 'torch' not in sys.modules",
    "cluster": "import distributed",
    "report": "from oneclock.cli import main; main(['report', '--paper', '--out', 'report'])",
    "logs": "import tensorboard, pyarrow.parquet",
    "compact": "import numba, oneclock, torch; "
    "oneclock.BalancedAdamW(torch.nn.Linear(2, 1).parameters(), horizon=20_000, state='compact')",
    "laptop": "from oneclock.cli import main; "
    "main('lab train vit-digits --beta 0.9 --seed 1 --steps 2 --out run'.split())",
}
"""A line that shows what each extra promises."""


@pytest.fixture(scope="module")
def base(archives, tmp_path_factory):
    """The base, from wheels alone: no compiler is asked for."""
    return Environment(tmp_path_factory.mktemp("base"), "--only-binary=:all:", archives[0])


def test_the_base_answers_without_torch(base, capsys):
    assert "0.95" in base.run("oneclock", "beta", "20000")
    assert "torch" not in base.run("python", "-m", "pip", "list").lower()
    message = base.run("python", "-c", "import oneclock; oneclock.BalancedAdamW", ok=False)
    assert message.splitlines()[-1] == (
        "ImportError: oneclock.BalancedAdamW needs torch: pip install 'oneclock[torch]'"
    )
    with capsys.disabled():
        print(f"\nthe base: {base.megabytes():.0f} MB, installed in {base.seconds:.0f} s")


def test_the_base_advises_on_each_form_of_log(base, tmp_path, capsys):
    started = time.monotonic()
    for number, form in enumerate(CORPUS.values()):
        options = {
            name: ",".join(value) if isinstance(value, list) else str(value) for name, value in form.options.items()
        }
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        advice = json.loads(base.run("oneclock", "advise", form.written(tmp_path / str(number)), *flags, "--json"))
        assert (advice["logs"][0]["format"], advice["best_step"], advice["unit"]) == (form.format, 7500, "steps")
    with capsys.disabled():
        print(f"\nadvise on {len(CORPUS)} forms: {(time.monotonic() - started) / len(CORPUS):.1f} s each")


def test_the_base_analyses_a_table(base):
    table = str(ROOT / "docs" / "data" / "digits.csv")
    assert "digits" in json.dumps(json.loads(base.run("oneclock", "analyse", table, "--json")))


def test_the_base_sweeps_a_command(base):
    (base.folder / "train.py").write_text(TRAIN)
    command = ["--command", "python train.py {beta} {folder} {seed}", "--log", "{folder}/log.csv", "--budget", "1000"]
    plan = ["--protocol", "grid", "--betas", "0.8,0.9,0.95", "--seeds", "1", "--out", "study"]
    base.run("oneclock", "sweep", *command, *plan)
    assert len(list((base.folder / "study" / "runs").rglob("result.json"))) == 3


@pytest.mark.parametrize("extra", EXTRAS)
def test_each_extra_brings_what_it_promises(extra, archives, tmp_path, capsys):
    environment = Environment(tmp_path, f"{archives[0]}[{extra}]")
    environment.run("python", "-c", EXTRAS[extra])
    with capsys.disabled():
        print(f"\n[{extra}]: {environment.megabytes():.0f} MB, installed in {environment.seconds:.0f} s")


def test_the_readme_s_lines_run_in_a_clean_environment(archives, tmp_path):
    environment = Environment(tmp_path, f"{archives[0]}[torch,report,test]")
    lines = ["-p", "no:cacheprovider", "-k", "every_block and README", ROOT / "tests" / "test_docs.py"]
    assert "1 passed" in environment.run("python", "-m", "pytest", *lines)
