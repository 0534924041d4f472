"""Every kind of interval that is printed, on simulated sweeps of known truth: how often it holds the truth.

The normal suite repeats each simulation just often enough to notice a broken interval. The slow tests measure the
coverage that `docs/analysis.md` states.
"""

import math

import numpy as np
import pytest
from simulated import BETAS, PAIRS, share, sweep_of_truth, tuned_sweep

from oneclock.evidence.excess import CurvePoint, SweepCurve
from oneclock.evidence.model import SHIFTS, effective, expected, pooled, t_quantile
from oneclock.evidence.table import grouped
from oneclock.evidence.untied import beta2_for, two_betas
from oneclock.lab.evidence.figure import best_memory
from oneclock.rule import RECOMMENDED, Fixed
from oneclock.runs.best import judge
from oneclock.runs.key import Beta
from oneclock.runs.noise import Cell
from oneclock.runs.paired import PairedSweep, between
from oneclock.stats.experiments import fitted, rule_cost
from oneclock.stats.exponents import exponent, profiles_of
from oneclock.stats.rules import outcome, random_effects, rule_row

FEW, MANY = 80, 1000
REPEATS = [pytest.param(FEW, 0.86, id="few"), pytest.param(MANY, 0.915, id="many", marks=pytest.mark.slow)]
"""How often a simulation is repeated, and the least share of intervals that must then hold the truth (level 0.95)."""


def at(beta: Beta) -> dict[Cell, float]:
    """The level of one cell, as `compare` takes it."""
    return {(beta, None): 1.0}


@pytest.mark.parametrize(("repeats", "least"), REPEATS)
@pytest.mark.parametrize("bend", [0.003, 0.03, 0.2])
def test_differences_to_the_best_beta_hold_together_and_the_ties_hold_the_true_best(bend, repeats, least):
    rng, together, tied = np.random.default_rng(1), [], []
    for _ in range(repeats):
        runs, truth = sweep_of_truth(rng, bend)
        sweep = PairedSweep(runs)
        best, cells = judge(sweep), [(beta, None) for beta in BETAS]
        others = [beta for beta in BETAS if beta != best.beta]
        found = sweep.compare([(at(beta), at(best.beta)) for beta in others], cells)
        together.append(
            all(math.expm1(truth[b] - truth[best.beta]) in one.interval for b, one in zip(others, found, strict=True))
        )
        right = min(BETAS, key=truth.get)
        tied.append(right in (best.beta, *best.tied_with) and right in best.interval)
    assert share(together) >= least - 0.01
    assert share(tied) >= least


@pytest.mark.parametrize(("repeats", "least"), REPEATS)
@pytest.mark.parametrize("noise", [0.001, 0.01])
def test_what_rules_cost_against_the_best_beta(noise, repeats, least):
    """Rules of one sweep together; each at its own beta, between two swept ones or at one of them."""
    rng, hits, bend = np.random.default_rng(10), [], 0.06
    rules = [Fixed(beta) for beta in (0.75, 0.86, 0.9, 0.95)]
    for _ in range(repeats):
        best = rng.uniform(-1.2, -0.6)
        sweep = tuned_sweep(rng, 4000, best, bend=bend, noise=noise)
        one = fitted(sweep)
        level = {beta: bend * (math.log10(1 - beta) - best) ** 2 for beta in sweep.betas}
        right = []
        for cost in (rule_cost(one, rule, 4000) for rule in rules):
            true = sum(part * level[b] for b, part in between(cost.beta, sweep.betas).items()) - level[one.best.beta]
            right.append(math.expm1(true) in cost.interval if cost.interval else abs(true) < 1e-12)
        hits.append(all(right))
    assert share(hits) >= least


@pytest.mark.parametrize(("repeats", "least"), REPEATS)
@pytest.mark.parametrize("pair_noise", [1.0, 3.0, 6.0])
def test_baselines_against_a_beta_between_two_swept_ones(pair_noise, repeats, least):
    rng, together, alone = np.random.default_rng(2), [], []
    mixture: dict[Cell, float] = {(beta, None): part for beta, part in between(0.86, BETAS).items()}
    for _ in range(repeats):
        runs, truth = sweep_of_truth(rng, pair_noise=pair_noise)
        sweep, level = PairedSweep(runs), sum(part * truth[beta] for (beta, _), part in mixture.items())
        found = sweep.compare([(at(pair), mixture) for pair in PAIRS])
        hits = [math.expm1(truth[pair] - level) in one.interval for pair, one in zip(PAIRS, found, strict=True)]
        together.append(all(hits))
        (one,) = sweep.compare([(at(PAIRS[-1]), mixture)])
        alone.append(math.expm1(truth[PAIRS[-1]] - level) in one.interval)
    assert share(together) >= least - 0.01
    assert share(alone) >= least - 0.02


@pytest.mark.parametrize(("repeats", "least"), REPEATS)
@pytest.mark.parametrize(("alpha", "noise"), [(0.5, 0.003), (0.5, 0.01), (0.0, 0.005)])
def test_exponents_and_best_betas_of_a_series(alpha, noise, repeats, least):
    rng, hits, points = np.random.default_rng(3), [], []
    lengths = (250, 1000, 4000, 16_000)
    bests = [-0.4 - alpha * math.log10(steps / 250) for steps in lengths]
    for _ in range(repeats // 2):
        sweeps = [tuned_sweep(rng, steps, best, noise=noise) for steps, best in zip(lengths, bests, strict=True)]
        profiles = [profiles_of(sweep)[0] for sweep in sweeps]
        hits.append(alpha in exponent(np.log10(lengths), profiles)[2])
        ends = [profile.interval() for profile in profiles]
        points += [low - 0.006 <= best <= high + 0.006 for (low, high), best in zip(ends, bests, strict=True)]
    assert share(hits) >= least - (0.03 if repeats == FEW else 0.01)
    assert share(points) >= least


@pytest.mark.parametrize(("repeats", "least"), [(24, 0.8), pytest.param(300, 0.91, marks=pytest.mark.slow)])
def test_the_best_pair_of_beta_and_learning_rate(repeats, least):
    rng, hits = np.random.default_rng(4), []
    for _ in range(repeats):
        sweep = tuned_sweep(rng, 4000, -0.9, best_lr=-2.5, lrs=(0.0008, 0.0016, 0.0032, 0.0064, 0.0128))
        for profile, true in zip(profiles_of(sweep), (-0.9, -2.5), strict=True):
            low, high = profile.interval()
            hits.append(low - 0.011 <= true <= high + 0.011)
    assert share(hits) >= least


@pytest.mark.parametrize(("repeats", "least"), REPEATS)
@pytest.mark.parametrize("sweeps", [3, 11])
@pytest.mark.parametrize("between_sweeps", [0.002, 0.01])
def test_the_mean_difference_of_two_rules_by_random_effects(sweeps, between_sweeps, repeats, least):
    rng, hits, freedom = np.random.default_rng(5), [], 8
    for _ in range(repeats):
        spread, near = rng.choice((0.0005, 0.01, 0.02), sweeps), rng.uniform(0.05, 1, sweeps)
        values = 0.003 + between_sweeps * rng.standard_normal(sweeps) + spread * near * rng.standard_normal(sweeps)
        seen = spread * np.sqrt(rng.chisquare(freedom, sweeps) / freedom)
        _, interval = random_effects(list(values), list(seen * near), list(seen), [freedom] * sweeps)
        hits.append(0.003 in interval)
    assert share(hits) >= least - 0.02


@pytest.mark.parametrize(("repeats", "least"), REPEATS)
@pytest.mark.parametrize("sweeps", [3, 8, 20])
@pytest.mark.parametrize("noise", [0.001, 0.01])
def test_the_mean_excess_of_a_rule_over_sweeps(sweeps, noise, repeats, least):
    """The whole way: runs, fit, best beta, interpolation. The truth is the mean over all sweeps of this kind."""
    rng, hits, beta, bend = np.random.default_rng(7), [], 0.86, 0.06
    shares, u = between(beta, BETAS), {one: math.log10(1 - one) for one in BETAS}

    def excess(best: float) -> float:
        level = {one: bend * (u[one] - best) ** 2 for one in BETAS}
        return math.expm1(sum(share * level[one] for one, share in shares.items()) - min(level.values()))

    true = np.mean([excess(best) for best in np.linspace(-1.2, -0.6, 1001)])
    for _ in range(repeats // 8):
        drawn = [tuned_sweep(rng, 4000, rng.uniform(-1.2, -0.6), bend=bend, noise=noise) for _ in range(sweeps)]
        fits = [fitted(one) for one in drawn]
        row = rule_row(outcome(Fixed(beta), fits), fits)
        hits.append(true in row.interval)
    assert share(hits) >= least


@pytest.mark.parametrize(("repeats", "least"), REPEATS)
@pytest.mark.parametrize("tasks", [2, 5, 14])
@pytest.mark.parametrize("between_tasks", [0.0, 0.3, 1.0])
def test_the_mean_over_tasks_near_a_length(tasks, between_tasks, repeats, least):
    """What the evidence base pools: tasks of unequal noise, and of lengths that count more or less."""
    rng, hits = np.random.default_rng(11), []
    for _ in range(repeats):
        noise = np.exp(rng.uniform(math.log(0.1), math.log(2), tasks))
        values = 0.5 + between_tasks * rng.standard_normal(tasks) + noise * rng.standard_normal(tasks)
        weights = list(np.exp(-1.5 * rng.uniform(0, 1, tasks) ** 2))
        mean, se = pooled(weights, list(zip(values, noise**2, strict=True)))
        hits.append(abs(mean - 0.5) <= t_quantile(effective(weights) - 1) * se)
    assert share(hits) >= least


def evidence_of_truth(rng, tasks, noise):
    """Sweeps of tasks: twice the recommended memory is better by 1 %, a longer second one by 2 %, on average."""
    rows = []
    for task in range(tasks):
        double, second = 1 + 0.5 * rng.standard_normal(), 2 + 0.5 * rng.standard_normal()
        for steps in (1_500, 4_000, 10_000):
            beta = RECOMMENDED(steps)
            cells = [
                (beta, beta, 0.0),
                (1 - (1 - beta) / 2, 1 - (1 - beta) / 2, -double),
                (beta, beta2_for(steps), -second),
            ]
            for beta1, beta2, percent in cells:
                loss = 3 * (1 + (percent + noise * rng.standard_normal()) / 100)
                rows.append({"source": "s", "sweep": f"{task}-{steps}", "task": f"{task}", "steps": f"{steps}"})
                rows[-1] |= {"varied": "tied", "beta1": repr(beta1), "beta2": repr(beta2), "loss": repr(loss)}
                rows[-1] |= {"se": repr(3 * noise / 100)}
    return grouped(rows)


@pytest.mark.parametrize(
    ("repeats", "least"), [(40, 0.84), pytest.param(400, 0.915, id="many", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(("tasks", "noise"), [(3, 0.2), (10, 0.2), (10, 1.0)])
def test_what_the_evidence_expects_and_what_tying_costs(tasks, noise, repeats, least):
    """The whole way from a table of sweeps; per cent of the loss."""
    rng, memory, tying = np.random.default_rng(12), [], []
    for _ in range(repeats):
        found = evidence_of_truth(rng, tasks, noise)
        outlook, cost = expected(4_000, found), two_betas(4_000, evidence=found).tying
        place = SHIFTS.index(1.0)
        half = t_quantile(outlook.tasks - 1) * outlook.gap_se[place]
        memory.append(abs(outlook.gap[place] + 1) <= half)
        tying.append(cost.low <= 2 <= cost.high)
    assert share(memory) >= least
    assert share(tying) >= least


@pytest.mark.parametrize(("repeats", "least"), REPEATS)
@pytest.mark.parametrize("bend", [0.002, 0.05])
@pytest.mark.parametrize("error", [0.0002, 0.002, 0.01])
def test_the_best_memory_in_the_picture_of_the_evidence(error, bend, repeats, least):
    rng, hits, xs = np.random.default_rng(5), [], sorted(math.log(1 - beta) for beta in BETAS)
    for _ in range(repeats):
        best = rng.uniform(xs[1], xs[-2])
        losses = [1 + bend * (x - best) ** 2 + rng.normal(0, error) for x in xs]
        one = best_memory(SweepCurve(tuple(CurvePoint(x, loss, error) for x, loss in zip(xs, losses, strict=True))))
        hits.append(one.low <= math.exp(-best) <= one.high)
    assert share(hits) >= least
