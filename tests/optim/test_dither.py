"""The dither: uniform, unrelated from step to step, nearly unrelated between neighbours, the same in every shard."""

import numpy as np
import pytest
import torch

from oneclock.optim.dither import MASK, blocks, dither, positions, step_keys

COUNT = 2**18


def numbers(position, step, stream=0):
    """The three uses of a dither, in [-1/2, 1/2): rounding the ratio, the scale and a bfloat16 parameter."""
    bits = dither(position, step_keys(step)[stream]).numpy()
    return (bits >> 8) / 2**24 - 0.5, (bits & 0xFFFF) / 2**16 - 0.5, (bits >> 16) / 2**16 - 0.5


def correlation(a, b):
    return 12 * float(np.mean(a * b))


@pytest.mark.parametrize("position", [0, 1, 12_345, 2**32 - 1, 2**40 + 7])
def test_over_time_an_element_sees_uniform_uncorrelated_numbers(position):
    steps = torch.arange(1, COUNT + 1)
    keys = step_keys(steps)
    bits = [dither(torch.tensor(position), key).numpy() for key in keys]
    ratio, scale, parameter = (
        (bits[0] >> 8) / 2**24 - 0.5,
        (bits[0] & 0xFFFF) / 2**16 - 0.5,
        (bits[1] >> 16) / 2**16 - 0.5,
    )
    noise = 1 / np.sqrt(COUNT)
    for use in (ratio, scale, parameter):
        assert abs(use.mean()) < 4.5 * noise / np.sqrt(12)
        assert abs(correlation(use, use) - 1) < 0.01
        assert np.histogram(use, 256, (-0.5, 0.5))[0] == pytest.approx(COUNT / 256, rel=0.2)
        for lag in (1, 2, 3, 5, 8, 100, 1_000):
            assert abs(correlation(use[:-lag], use[lag:])) < 4.5 * noise
    for one, other in ((ratio, scale), (ratio, parameter), (scale, parameter)):
        for lag in (0, 1, 2):
            assert abs(correlation(one[: COUNT - lag], other[lag:])) < 4.5 * noise


@pytest.mark.parametrize("step", [1, 2, 1_000, 2**24, 2**24 + 1, 2**40])
def test_neighbours_are_nearly_uncorrelated(step):
    ratio, scale, _ = numbers(torch.arange(COUNT), step)
    for use in (ratio, scale):
        assert abs(use.mean()) < 0.003
        for lag in (*range(1, 65), 128, 384, 768, 1_024, 1_597, 2_584, 4_181, 50_257):
            assert abs(correlation(use[:-lag], use[lag:])) < 0.02
    assert abs(correlation(ratio, scale)) < 0.02


def test_no_two_steps_of_a_long_training_share_a_key():
    steps = torch.cat([torch.arange(COUNT), 2**24 + torch.arange(COUNT), 2**30 + torch.arange(COUNT)])
    for stream in range(2):
        assert len(step_keys(steps)[stream].unique()) == len(steps)
    assert step_keys(7) == tuple(int(key) for key in step_keys(torch.tensor(7)))
    assert all(0 <= key <= MASK for key in step_keys(2**40 + 1))


@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2, 3, 11), (0, 3), (1, 1000)])
@pytest.mark.parametrize("most", [1, 2, 7, 64])
def test_blocks_cover_every_element_once_and_know_its_position(shape, most):
    whole = torch.arange(int(np.prod(shape, dtype=int))).reshape(shape)
    seen = []
    for block in blocks(shape, most):
        part = whole[block]
        assert part.numel() <= most
        assert torch.equal(positions(shape, (0,) * len(shape), block, torch.device("cpu")).expand(part.shape), part)
        seen += part.flatten().tolist()
    assert sorted(seen) == list(range(whole.numel()))
