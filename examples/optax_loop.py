"""Balanced AdamW in JAX: optax with a schedule and a mask, the horizon in steps. Handwritten digits, ten seconds.

pip install 'oneclock[jax]'
python examples/optax_loop.py [STEPS]
"""

import sys

import jax
import jax.numpy as jnp
import optax
from sklearn.datasets import load_digits

import oneclock
from oneclock.integrations.optax import balanced_adamw

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 6000

images, labels = load_digits(return_X_y=True)
order = jax.random.permutation(jax.random.key(0), len(images))
images, labels = jnp.array(images, jnp.float32)[order] / 16, jnp.array(labels)[order]
train, held_out = slice(0, 1200), slice(1200, None)

keys = jax.random.split(jax.random.key(1), 2)
weights = {
    "hidden": jax.random.normal(keys[0], (64, 64)) / 8,
    "bias": jnp.zeros(64),
    "out": jax.random.normal(keys[1], (64, 10)) / 8,
}
optimizer = balanced_adamw(
    optax.cosine_decay_schedule(1e-3, STEPS),
    horizon=STEPS,
    weight_decay=0.1,
    mask={"hidden": True, "bias": False, "out": True},
)


def loss_of(weights, images, labels):
    logits = jax.nn.relu(images @ weights["hidden"] + weights["bias"]) @ weights["out"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


@jax.jit
def hundred_steps(weights, state, key):
    def step(carry, key):
        weights, state = carry
        batch = jax.random.randint(key, (32,), 0, 1200)
        gradients = jax.grad(loss_of)(weights, images[batch], labels[batch])
        updates, state = optimizer.update(gradients, state, weights)
        return (optax.apply_updates(weights, updates), state), None

    (weights, state), _ = jax.lax.scan(step, (weights, state), jax.random.split(key, 100))
    return weights, state, loss_of(weights, images[held_out], labels[held_out])


state, steps, losses = optimizer.init(weights), [], []
for step in range(100, STEPS + 1, 100):
    weights, state, loss = hundred_steps(weights, state, jax.random.key(step))
    steps.append(step)
    losses.append(float(loss))
    if step % (STEPS // 6) == 0:
        print(f"step {step:5,}  validation loss {loss:.4f}")

useful = oneclock.useful_horizon(oneclock.Curve(steps, losses), plan=STEPS)
print(f"beta {oneclock.recommend(STEPS).beta:.4f} for {STEPS:,} steps")
if useful.turned:
    print(f"useful for {useful.steps:,} of these steps: next time horizon={useful.steps}")
