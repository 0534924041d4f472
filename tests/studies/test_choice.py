"""The recommendation is what the rule written down before the joint study picks, and the pages tell its figures."""

import re
from pathlib import Path

import pytest

from oneclock.answers import recommend
from oneclock.experiments import short
from oneclock.gains import gains, in_percent
from oneclock.paper.published import losses_study
from oneclock.rule import CALIBRATED, RECOMMENDED, nearest_beta, rule_from
from oneclock.study.sweeps import Sweep, Trial
from oneclock.study.table import read

ROOT = Path(__file__).parents[2]
WORDS = (
    *("none", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"),
)
NAMES = {"joint-llama": "Llama", "joint-gpt2": "GPT-2", "joint-vit": "ViT"}


def page(name):
    return " ".join((ROOT / name).read_text().split())


def test_what_is_recommended_is_what_the_written_rule_picks(chooser, sweeps):
    first, *_ = chooser.choose(chooser.ground(sweeps), chooser.ground(losses_study().sweeps))
    second = chooser.decided(read(chooser.SHORT_STUDY).sweeps, first)
    last = chooser.decided_in_brief(read(chooser.BRIEF_STUDY).sweeps, second)
    assert rule_from(chooser.CANDIDATES[last]) == RECOMMENDED


def test_the_short_study_measures_what_is_recommended_and_its_rival(chooser):
    rules = {name: rule_from(chooser.CANDIDATES[name]) for name in ("flat", "joined")}
    for name, measured in (("flat", chooser.FLAT_AT), ("joined", chooser.JOINED_AT)):
        assert nearest_beta(rules[name](short.BUDGET), short.BETAS) == measured[0]
    assert [round(rules[name](short.BRIEF_BUDGET), 5) for name in ("joined", "flat")] == [*short.BRIEF_BETAS]


def test_fresh_seeds_decide_only_where_their_interval_lies_below_zero(chooser):
    def sweep_with(short, flat):
        losses = {chooser.JOINED_AT: short, chooser.FLAT_AT: flat}
        trials = (
            Trial(betas[0], betas[1], seed, None, None, loss + 0.001 * (seed * place % 3), None)
            for place, (betas, loss) in enumerate(losses.items(), start=1)
            for seed in range(1, 13)
        )
        return Sweep("one", "heldout", 300, None, tuple(trials), ())

    better, worse = sweep_with(1.9, 2.0), sweep_with(2.0, 1.9)
    assert chooser.decided([better] * 5, "flat") == "joined"
    assert chooser.decided([better, worse] * 3, "flat") == "flat"
    assert chooser.decided([worse] * 5, "flat") == "flat"
    assert chooser.decided([better] * 5, "root") == "root"


def test_what_both_studies_say_together_is_told_and_decides_nothing(chooser, sweeps):
    effects = chooser.together(sweeps, read(chooser.SHORT_STUDY).sweeps)
    found = chooser.pooled(effects)
    assert len(effects) == 14
    low, high = -found.interval.upper, -found.interval.lower
    assert f"`joined` ends {-found.mean:.1f} % lower ({low:.1f} to {high:.1f})" in page("docs/short.md")


def test_the_brief_study_decides_by_an_interval_of_99_per_cent(chooser):
    def sweep_with(joined, wobble):
        losses = dict(zip(short.BRIEF_BETAS, (joined, 2.0), strict=True))
        trials = (
            Trial(beta, None, seed, None, None, loss + wobble * (seed * place % 3), None)
            for place, (beta, loss) in enumerate(losses.items(), start=1)
            for seed in (*short.BRIEF_SEEDS, *short.BRIEF_FRESH)
        )
        return Sweep("one", "heldout", 150, None, tuple(trials), ())

    clear, wide = [sweep_with(1.98, 0.001)] * 11, [sweep_with(1.98, 0.001), sweep_with(2.019, 0.001)] * 5
    assert chooser.decided_in_brief(clear, "flat") == "joined"
    assert chooser.decided_in_brief(clear, "root") == "root"
    assert chooser.decided_in_brief(wide, "flat") == "flat"
    effects = chooser.in_brief(clear)
    assert chooser.pooled(effects, 0.99).interval.upper >= chooser.pooled(effects).interval.upper


def test_what_the_brief_study_decided_is_told_as_it_came_out(chooser):
    found = chooser.pooled(chooser.in_brief(read(chooser.BRIEF_STUDY).sweeps), level=0.99)
    words = f"`joined` ends {-found.mean:.1f} % below `flat`, with a 99 % interval from {found.interval.lower:.1f} to"
    assert f"{words} {found.interval.upper:.1f}" in page("docs/short.md")


def test_a_pooled_mean_weighs_by_what_is_known_and_widens_where_twins_differ(chooser):
    alike = chooser.pooled([(-1.0, 0.1), (-1.1, 0.1), (-0.9, 0.1), (5.0, 20.0)])
    assert alike.mean == pytest.approx(-1.0, abs=0.01)
    assert alike.interval.upper < 0
    apart = chooser.pooled([(-3.0, 0.1), (1.0, 0.1), (-2.0, 0.1), (0.0, 0.1)])
    assert apart.mean == pytest.approx(-1.0, abs=0.01)
    assert apart.interval.lower < -3 < 1 < apart.interval.upper


def test_the_test_part_is_told_as_it_came_out(chooser, sweeps):
    study, told = chooser.ground(sweeps), page("docs/joint.md")
    risks = {name: study.row(rule_from(text)).heldout for name, text in chooser.CANDIDATES.items()}
    mean = {name: f"{100 * risk.mean.value:.1f}" for name, risk in risks.items()}
    largest = {name: f"{100 * risk.max.value:.1f}" for name, risk in risks.items()}
    assert f"`flat` has a mean gap of {mean['flat']} % and at most {largest['flat']}" in told
    assert f"`joined` and `root` have {mean['joined']} and at most {largest['joined']}" in told
    for name in ("joined", "root"):
        flat = rule_from(chooser.CANDIDATES["flat"])
        against = chooser.mean_difference(study, rule_from(chooser.CANDIDATES[name]), flat, "heldout")
        assert not against.told_apart
        assert (mean[name], largest[name]) == (mean["joined"], largest["joined"])
        assert f"{100 * against.interval.lower:.1f} to {100 * against.interval.upper:.1f}" in told


def test_the_exponents_of_the_page_are_those_of_the_records(found):
    told = page("docs/joint.md")
    assert {series.name for series in found.series} == NAMES.keys()
    for series in found.series:
        span = series.alpha_interval
        words = f"{series.alpha:.2f} ({span.lower:.2f} to {span.upper:.2f})"
        assert f"{words} for {NAMES[series.name]}" in told
        assert words in page("README.md")
    rates = {NAMES[series.name]: (series.rate_alpha, series.rate_alpha_interval) for series in found.series}
    (llama, of_llama), (gpt2, of_gpt2) = rates["Llama"], rates["GPT-2"]
    assert f"falls with {llama:.2f} ({of_llama.lower:.2f} to {of_llama.upper:.2f})" in told
    assert f"GPT-2 it rises with {-gpt2:.2f} ({-of_gpt2.upper:.2f} to {-of_gpt2.lower:.2f})" in told
    assert rates["ViT"] == (None, None)


def test_what_the_rule_costs_beyond_its_evidence_is_told_alike():
    (long,) = [gain for gain in gains() if gain.steps > CALIBRATED[1]]
    for name in ("README.md", "docs/joint.md", "docs/findings.md"):
        assert f"costs {in_percent(long.gap, long.gap_interval)}" in page(name)
    assert f"lost {100 * long.gap:.1f} % to the best tied beta, in one trial of 64,000 steps" in recommend(1e6).sure


def test_the_readme_says_how_the_best_rates_lie(made, sweeps, found):
    said = made.rates_beside_the_pairs(sweeps, found)
    places = r"two in (\d+) of (\d+) sweeps, above in (\d+), below in (\d+), from 0.25 to 2 times it"
    near, count, above, below = map(int, re.search(places, said).groups())
    words = f"in {WORDS[near]} of {WORDS[count]} sweeps, above it in {WORDS[above]}, below it in {WORDS[below]}"
    assert f"within a factor of two of the pair's {words}; at 64,000 steps it was a quarter of it" in page("README.md")
