"""`adaptive` against `paper` on the published sweeps under seed noise: fewer runs, and about the same gap."""

import importlib.util
import statistics
from pathlib import Path

import pytest

path = Path(__file__).parents[2] / "benchmarks" / "adaptive_vs_paper.py"
spec = importlib.util.spec_from_file_location("adaptive_vs_paper", path)
adaptive_vs_paper = importlib.util.module_from_spec(spec)
spec.loader.exec_module(adaptive_vs_paper)


@pytest.fixture(scope="module")
def found():
    truth = list(adaptive_vs_paper.published_truth())
    return {
        noise: adaptive_vs_paper.simulate([(budget, gaps, noise) for budget, gaps in truth], repeats=20)
        for noise in (0.1, 0.3, 1.0, 3.0)
    }


def test_it_spends_at_most_10_of_the_23_runs(found):
    for noise in found:
        assert set(found[noise]["paper"][1]) == {23}
        assert max(found[noise]["adaptive"][1]) <= 10
        assert max(found[noise]["adaptive, 7 runs"][1]) <= 7


def test_its_gap_is_about_the_same_under_the_same_noise(found):
    """In the mean over noise levels and experiments. Twenty repeats tell gaps apart that differ by a tenth."""
    gap = {
        name: statistics.fmean(statistics.fmean(found[noise][name][0]) for noise in found)
        for name in ("paper", "adaptive")
    }
    assert 0 < gap["adaptive"] <= 1.1 * gap["paper"]
