"""The probe finds the noise and the drift that gradients have, says when there is only noise, and changes nothing."""

import math

import pytest
import torch

from oneclock import BalancedAdam
from oneclock.optim.probe import LAGS, MemoryProbe


def watched(drift, noise=1.0, steps=600, size=2_000, seed=0):
    weight = torch.nn.Parameter(torch.zeros(size))
    probe, generator = MemoryProbe([weight]), torch.Generator().manual_seed(seed)
    for step in range(steps):
        weight.grad = drift * step + noise * torch.randn(size, generator=generator)
        probe.step()
    return probe.pilot()


@pytest.mark.parametrize(("drift", "noise"), [(0.02, 1.0), (0.1, 1.0), (0.05, 3.0)])
def test_known_noise_and_drift_are_found(drift, noise):
    pilot = watched(drift, noise)
    assert pilot.noise == pytest.approx(noise**2, rel=0.02)
    assert pilot.drift == pytest.approx(drift**2, rel=0.1)
    assert pilot.drift_interval[0] < drift**2 < pilot.drift_interval[1]
    assert pilot.memory == pytest.approx((noise**2 / (4 * drift**2)) ** (1 / 3), rel=0.05)
    assert pilot.beta == 1 - 1 / pilot.memory
    assert not pilot.noise_only


def test_noise_alone_has_no_memory_and_is_called_noise():
    pilot = watched(drift=0.0)
    assert pilot.noise_only
    assert (pilot.memory, pilot.beta) == (None, None)
    assert pilot.at_least > 5
    assert pilot.noise == pytest.approx(1, rel=0.02)


def test_the_memory_is_where_the_error_of_an_average_is_least():
    """The formula against averages of real sequences: none of the memories around it has a smaller error."""
    drift, steps, size = 0.05, 3_000, 200
    generator = torch.Generator().manual_seed(1)
    best = (1 / (4 * drift**2)) ** (1 / 3)
    memories = [best / 2, best / 1.4, best, best * 1.4, best * 2]
    averages, errors = torch.zeros(len(memories), size), torch.zeros(len(memories))
    weights = torch.tensor([1 / memory for memory in memories])[:, None]
    for step in range(steps):
        gradient = drift * step + torch.randn(size, generator=generator)
        averages += weights * (gradient - averages)
        if step > 100:
            errors += (averages - drift * step).square().mean(1)
    assert int(errors.argmin()) in (1, 2, 3)  # the discrete average differs from the formula by a step or so
    assert errors[2] < 1.1 * errors.min()


def test_a_sample_stands_for_all_coordinates_and_groups_are_taken():
    weights = [torch.nn.Parameter(torch.zeros(100, 50)), torch.nn.Parameter(torch.zeros(7))]
    probe = MemoryProbe([{"params": weights[:1]}, {"params": weights[1:]}], size=500)
    generator = torch.Generator().manual_seed(0)
    for step in range(200):
        weights[0].grad = 0.1 * step + torch.randn(100, 50, generator=generator)
        probe.step()  # the second has no gradient yet
    assert probe.pilot().drift == pytest.approx(0.01 * 500 / 500, rel=0.1)


def test_it_changes_nothing():
    def trained(probed):
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 8)
        optimizer = BalancedAdam(model.parameters(), lr=0.01, beta=0.9)
        probe = MemoryProbe(optimizer.param_groups) if probed else None
        for _ in range(50):
            optimizer.zero_grad()
            model(torch.randn(16, 8)).square().mean().backward()
            if probe is not None:
                probe.step()
            optimizer.step()
        return model.weight.detach()

    assert torch.equal(trained(True), trained(False))


def test_too_few_steps_bad_gradients_and_bad_arguments_in_one_line():
    weight = torch.nn.Parameter(torch.zeros(3))
    probe = MemoryProbe([weight])
    with pytest.raises(ValueError, match=f"needs {8 + max(LAGS)}"):
        probe.pilot()
    for _ in range(60):
        weight.grad = torch.full((3,), math.inf)
        probe.step()
    with pytest.raises(ValueError, match="not finite"):
        probe.pilot()
    with pytest.raises(ValueError, match="parameters to watch"):
        MemoryProbe([])
    with pytest.raises(ValueError, match="two lags"):
        MemoryProbe([weight], lags=[0, 1])
