"""Forked children for runs that are killed: they start with everything imported, so a kill costs no start-up."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[2])]  # tiny_task, small_data


@pytest.fixture
def in_child() -> Callable[[Callable[[], object]], int]:
    """Run a function in a forked process of its own and return its exit code: -9 where it was killed."""

    def run(function: Callable[[], object]) -> int:
        child = multiprocessing.get_context("fork").Process(target=function)
        child.start()
        child.join(120)
        assert child.exitcode is not None, "the child hangs"
        return child.exitcode

    return run
