"""The losses of the committed studies: they stay readable, and no change of the code changes them."""

import hashlib
from pathlib import Path

import pytest

from oneclock.runs.table import read_source

STUDIES = Path(__file__).parents[2] / "studies"

LOSSES = {
    "brief": (572, "f2e41739d525e687"),
    "fashion": (174, "32d222db97d741b8"),
    "joint": (469, "9da60601af9a5459"),
    "laptop": (319, "3c62fe8ffdebea65"),
    "series": (155, "849f857bff3079cc"),
    "short": (1232, "cce7857c81eda722"),
}
"""Runs of each study, and the checksum of their losses: computed before a run had one key and one record."""


@pytest.mark.parametrize("study", LOSSES)
def test_committed_losses_do_not_change(study):
    runs = [run for sweep in read_source(STUDIES / study).sweeps for run in (*sweep.tied, *sweep.untied)]
    lines = []
    for run in runs:
        beta1, beta2 = (run.beta, None) if run.key.is_tied else run.beta
        lines.append(f"{run.experiment} {beta1!r} {beta2!r} {run.lr!r} {run.seed} {run.loss!r} {run.best_train_loss!r}")
    checksum = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
    assert (len(runs), checksum) == LOSSES[study]
