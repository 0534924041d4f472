"""Studies made once per session."""

from pathlib import Path

import pytest
from report_studies import SCRIPT, write_run, write_study

from oneclock.report.folder import Subject, subject_of


@pytest.fixture(scope="session")
def small_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two development experiments and one held out, one of them with a hostile name, and an untied baseline."""
    study = write_study(tmp_path_factory.mktemp("small") / "study", ("digits", "shakespeare", SCRIPT))
    write_run(study, "digits", (0.9, 0.999), 1)
    return study


@pytest.fixture(scope="session")
def subject(small_study: Path) -> Subject:
    return subject_of(small_study)
