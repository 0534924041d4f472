"""Balanced AdamW for JAX: `optax.adamw` with `b1 = b2 = beta`, and beta from the horizon.

The result is optax's own transformation, so that whatever takes one (flax's TrainState, `optax.chain`,
`optax.MultiSteps`) takes this.
"""

from __future__ import annotations

from typing import Any

from oneclock.rule import Rule, resolve_beta

try:
    import optax
except ModuleNotFoundError as error:
    raise ImportError("the optax integration needs jax and optax: pip install 'oneclock[jax]'") from error


def balanced_adamw(
    learning_rate: optax.ScalarOrSchedule,
    *,
    horizon: float | None = None,
    beta: float | None = None,
    rule: Rule | str | None = None,
    **options: Any,
) -> optax.GradientTransformationExtraArgs:
    """`optax.adamw` with `b1 = b2 = beta`. Give exactly one of `horizon`, in optimizer steps, and `beta`.

    `rule` turns a horizon into a beta, as in `oneclock.BalancedAdamW`. All other options are optax's: `mask` and
    `mu_dtype` as well as `weight_decay`, which makes it `optax.adam` where it is 0.

    >>> import jax.numpy as jnp
    >>> optimizer = balanced_adamw(3e-4, horizon=20_000, weight_decay=0.1)  # b1 = b2 = 0.953
    >>> state = optimizer.init(jnp.ones(3))
    >>> updates, state = optimizer.update(jnp.ones(3), state, jnp.ones(3))
    >>> round(float(state[0].mu[0]), 4)
    0.0472
    """
    if "b1" in options or "b2" in options:
        raise ValueError("balanced Adam has one memory: give beta= or horizon=, not b1= and b2=")
    tied = resolve_beta(beta, horizon, rule)
    return optax.adamw(learning_rate, **options, b1=tied, b2=tied)
