"""Span corruption: nothing is lost, nothing too long, everything a function of its key."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneclock.lab.data.order import generator
from oneclock.lab.data.spans import corrupt, longest_shape, shape_of
from oneclock.lab.experiments.spec import SpanCorruption

END, SENTINELS = 1, np.arange(2000, 1000, -1)  # T5 counts its sentinels downwards


def reconstruct(inputs, targets):
    """The text of one input and target, by the words of the T5 paper: each sentinel stands for what follows it."""
    assert inputs[-1] == targets[-1] == END
    spans, current = {}, None
    for token in targets[:-1]:
        if token > 1000:
            current = spans.setdefault(token, [])
        else:
            current.append(token)
    text = []
    for token in inputs[:-1]:
        text += spans.pop(token) if token > 1000 else [token]
    assert not spans
    return text


corruptions = st.builds(SpanCorruption, noise_density=st.floats(0.01, 0.99), mean_span_length=st.floats(1, 10))


@given(st.integers(2, 120), st.integers(1, 5), corruptions, st.integers(0, 2**32))
def test_input_and_target_reconstruct_the_text(block, rows, spec, seed):
    blocks = np.random.default_rng(seed).integers(2, 1000, (rows, block))
    shape = shape_of(block, spec)
    inputs, targets = corrupt(blocks, shape, SENTINELS, END, generator(seed))
    assert inputs.shape == (rows, shape.input_length)
    assert targets.shape == (rows, shape.target_length)
    for row in range(rows):
        assert reconstruct(inputs[row].tolist(), targets[row].tolist()) == blocks[row].tolist()


@given(st.integers(1, 120), st.integers(2, 200), st.integers(0, 2**32))
def test_sentinels_come_in_order_and_no_span_is_empty(rows, block, seed):
    shape = shape_of(block, SpanCorruption())
    blocks = np.full((rows, block), 7)
    inputs, targets = corrupt(blocks, shape, SENTINELS, END, generator(seed))
    expected = SENTINELS[: shape.spans].tolist()
    for tokens in (*inputs.tolist(), *targets.tolist()):
        assert [token for token in tokens if token > 1000] == expected
    for tokens in targets.tolist():
        assert all(after == 7 for token, after in pairwise(tokens) if token > 1000)


@given(st.integers(8, 300), corruptions)
def test_the_longest_block_fits_and_a_longer_one_does_not(length, spec):
    try:
        shape = longest_shape(length, spec)
    except ValueError:
        return
    assert max(shape.input_length, shape.target_length) <= length
    longer = shape_of(shape.block + 1, spec)
    assert max(longer.input_length, longer.target_length) > length


def test_the_papers_figures():
    shape = longest_shape(256, SpanCorruption(noise_density=0.15, mean_span_length=3.0))
    assert shape.input_length == 256
    assert shape.noise / shape.block == pytest.approx(0.15, abs=0.005)
    assert shape.noise / shape.spans == pytest.approx(3, abs=0.1)
    assert shape.spans <= 100


def test_every_division_is_as_likely_as_any_other():
    shape = shape_of(5, SpanCorruption(noise_density=0.4, mean_span_length=1.0))
    assert (shape.noise, shape.spans) == (2, 2)
    blocks = np.tile(np.arange(2, 7), (4000, 1))
    inputs, _ = corrupt(blocks, shape, SENTINELS, END, generator(0))
    patterns, counts = np.unique(inputs, axis=0, return_counts=True)
    assert len(patterns) == 2  # three kept tokens in two runs: 1 + 2 or 2 + 1
    assert abs(counts[0] - 2000) < 200


def test_a_key_decides_all():
    blocks = np.tile(np.arange(2, 102), (3, 1))
    shape = shape_of(100, SpanCorruption())
    first, again, other = (
        corrupt(blocks, shape, SENTINELS, END, generator(*key))[0] for key in [(1, 2), (1, 2), (1, 3)]
    )
    assert (first == again).all()
    assert (first != other).any()
    assert (first[0] != first[1]).any()
