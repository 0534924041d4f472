"""A sweep with curves and a known best beta."""

import pytest
from sweep_tables import make_sweeps as make


@pytest.fixture(scope="session")
def make_sweeps():
    return make


@pytest.fixture(scope="session")
def sweep_columns():
    return make()
