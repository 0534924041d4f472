"""The order of the data: a pure function of seed and position."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from oneclock.lab.data.order import EvaluationBatches, Order, generator, torch_seeded

orders = st.builds(Order, size=st.integers(1, 60), batch_size=st.integers(1, 12), drop_last=st.booleans()).filter(
    lambda order: order.batches > 0
)


@given(orders, st.integers(0, 100), st.integers(0, 3))
def test_an_epoch_holds_every_sample_once(order, seed, epoch):
    seen = np.concatenate([order.indices(seed, epoch * order.batches + number) for number in range(order.batches)])
    assert len(set(seen.tolist())) == len(seen)
    assert len(seen) == (order.batches * order.batch_size if order.drop_last else order.size)
    assert set(seen.tolist()) <= set(range(order.size))


@given(orders, st.integers(0, 100), st.integers(0, 50), st.integers(0, 50))
def test_a_batch_does_not_depend_on_what_was_asked_before(order, seed, position, other):
    first = order.indices(seed, position).tolist()
    order.indices(seed + 1, other)
    order.indices(seed, other)
    assert order.indices(seed, position).tolist() == first


def test_epochs_and_seeds_differ():
    order = Order(size=1000, batch_size=1000, drop_last=True)
    batches = [order.indices(seed, epoch).tolist() for seed in (1, 2) for epoch in (0, 1)]
    assert len({tuple(batch) for batch in batches}) == 4


def test_the_order_is_the_same_on_every_machine():
    assert Order(8, 4, drop_last=True).indices(seed=1, position=0).tolist() == [4, 3, 1, 6]


def test_a_key_is_not_its_neighbour():
    draws = {generator(*key).integers(2**62) for key in [(0, 1), (1, 0), (0, 1, 0), (0, 0, 1), (10,)]}
    assert len(draws) == 5


def test_seeding_leaves_the_global_generator_where_it_was():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with torch_seeded(1, 2, 3):
        inside = torch.rand(3)
    assert torch.equal(torch.rand(3), expected)
    with torch_seeded(1, 2, 3):
        assert torch.equal(torch.rand(3), inside)


@given(st.integers(1, 50), st.integers(1, 9), st.one_of(st.none(), st.integers(1, 9)))
def test_evaluation_batches_are_fixed_and_of_the_right_number(size, batch_size, batches):
    def make(samples, key):
        return {"samples": torch.tensor(samples)}

    first, second = (EvaluationBatches("validation", size, batch_size, batches, make) for _ in range(2))
    seen = [number for batch in first for number in batch["samples"].tolist()]
    assert seen == [number for batch in second for number in batch["samples"].tolist()]
    assert len(set(seen)) == len(seen) == min(size, batches * batch_size if batches else size)
    assert len(list(first)) == len(first)
