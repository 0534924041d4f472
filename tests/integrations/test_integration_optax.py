"""optax with one memory: equal to `optax.adamw(b1=beta, b2=beta)`, to torch, and resumable."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import torch
from sklearn.datasets import load_digits

from oneclock import BalancedAdamW
from oneclock.integrations.optax import balanced_adamw
from oneclock.rule import beta_for

STEPS, LR, DECAY = 60, 1e-2, 0.1
OPTIONS = dict(horizon=600, rule="refresh:60")  # beta 0.9


def batches():
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))[: 16 * STEPS].reshape(STEPS, 16)
    return [(np.float32(images[rows] / 16), labels[rows]) for rows in order]


def start():
    generator = np.random.default_rng(1)
    return {
        "hidden": np.float32(generator.normal(0, 0.1, (64, 16))),
        "out": np.float32(generator.normal(0, 0.1, (16, 10))),
    }


def loss_of(weights, images, labels):
    logits = jnp.tanh(images @ weights["hidden"]) @ weights["out"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


@functools.partial(jax.jit, static_argnames="optimizer")
def step(optimizer, weights, state, images, labels):
    loss, gradients = jax.value_and_grad(loss_of)(weights, images, labels)
    updates, state = optimizer.update(gradients, state, weights)
    return optax.apply_updates(weights, updates), state, loss


def train(optimizer, data, weights, state=None):
    state = optimizer.init(weights) if state is None else state
    losses = []
    for images, labels in data:
        weights, state, loss = step(optimizer, weights, state, images, labels)
        losses.append(float(loss))
    return weights, state, losses


def updated(optimizer, steps=5):
    """Weights and state after a few updates with gradients drawn once for all."""
    weights, update = jax.tree.map(jnp.array, start()), jax.jit(optimizer.update)
    state, generator = optimizer.init(weights), np.random.default_rng(2)
    for _ in range(steps):
        gradients = {name: np.float32(generator.normal(size=value.shape)) for name, value in weights.items()}
        updates, state = update(gradients, state, weights)
        weights = {name: value + updates[name] for name, value in weights.items()}
    return weights, state


def equal(ours, reference):
    return jax.tree.all(jax.tree.map(np.array_equal, ours, reference))


def test_it_matches_the_torch_run():
    _, _, losses = train(balanced_adamw(LR, weight_decay=DECAY, **OPTIONS), batches(), jax.tree.map(jnp.array, start()))
    weights = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in start().items()}
    optimizer = BalancedAdamW(weights.values(), LR, weight_decay=DECAY, **OPTIONS)
    assert optimizer.beta == 0.9
    plain = []
    for images, labels in batches():
        logits = torch.tanh(torch.tensor(images) @ weights["hidden"]) @ weights["out"]
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(labels))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        plain.append(loss.item())
    assert losses == pytest.approx(plain, rel=1e-4)
    assert losses[-1] < losses[0] / 2


def test_a_resumed_run_ends_at_the_same_weights(tmp_path):
    optimizer = balanced_adamw(LR, **OPTIONS)
    data, weights = batches(), jax.tree.map(jnp.array, start())
    straight, _, _ = train(optimizer, data, weights)
    halfway = train(optimizer, data[:30], weights)[:2]
    leaves, shape = jax.tree.flatten(halfway)
    np.savez(tmp_path / "checkpoint.npz", *leaves)
    with np.load(tmp_path / "checkpoint.npz") as saved:
        weights, state = jax.tree.unflatten(shape, [jnp.array(saved[f"arr_{i}"]) for i in range(len(leaves))])
    assert equal(train(balanced_adamw(LR, **OPTIONS), data[30:], weights, state)[0], straight)


@pytest.mark.parametrize(
    "options",
    [
        dict(weight_decay=0.1, mask={"hidden": True, "out": False}),
        dict(mu_dtype=jnp.bfloat16, eps=1e-6),
        dict(nesterov=True, eps_root=1e-8),
    ],
)
def test_it_is_optax_adamw_with_tied_betas_whatever_the_options(options):
    schedule = optax.cosine_decay_schedule(LR, STEPS)
    ours = updated(balanced_adamw(schedule, **OPTIONS, **options))
    assert equal(ours, updated(optax.adamw(schedule, b1=0.9, b2=0.9, **options)))


def test_without_weight_decay_it_is_optax_adam_with_tied_betas():
    ours, _ = updated(balanced_adamw(LR, beta=0.9, weight_decay=0))
    assert equal(ours, updated(optax.adam(LR, b1=0.9, b2=0.9))[0])


def test_the_learning_rate_can_be_injected():
    inject = optax.inject_hyperparams(lambda learning_rate: balanced_adamw(learning_rate, **OPTIONS))
    injected, state = updated(inject(learning_rate=LR))
    assert float(state.hyperparams["learning_rate"]) == pytest.approx(LR)
    plain, _ = updated(balanced_adamw(LR, **OPTIONS))
    for name, value in plain.items():
        np.testing.assert_allclose(injected[name], value, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("steps", [1, 100, 1_000, 1_200, 6_000, 20_000, 40_000, 10**6])
def test_a_horizon_gives_the_one_answer(steps):
    for options in ({}, {"rule": "power:0.05,0.2"}, {"rule": "refresh:0.5"}):
        optimizer = balanced_adamw(LR, horizon=steps, **options)
        _, state = optimizer.update(jnp.ones(1), optimizer.init(jnp.ones(1)), jnp.ones(1))
        assert float(state[0].mu[0]) == pytest.approx(1 - beta_for(steps, **options), rel=1e-6)


def test_what_it_refuses():
    for options in ({}, {"horizon": 20_000, "beta": 0.9}):
        with pytest.raises(ValueError, match="exactly one of beta= and horizon="):
            balanced_adamw(LR, **options)
    with pytest.raises(ValueError, match="not b1= and b2="):
        balanced_adamw(LR, beta=0.9, b2=0.999)
    with pytest.raises(ValueError, match="the horizon must exceed 1000"):
        balanced_adamw(LR, horizon=500, rule="paper")
    with pytest.raises(ValueError, match="give it with horizon=, not with beta="):
        balanced_adamw(LR, beta=0.9, rule="paper")
