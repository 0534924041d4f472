"""Balanced Adam for JAX: `optax.adam` and `optax.adamw` with `b1 = b2 = beta`, and beta from the horizon.

The result is optax's own transformation, so that whatever takes one (flax's TrainState, `optax.chain`,
`optax.MultiSteps`) takes this.
"""

from __future__ import annotations

from typing import Any

from oneclock.rule import REFRESHES, checked_beta, refresh_beta

try:
    import optax
except ModuleNotFoundError as error:
    raise ImportError("the optax integration needs jax and optax: pip install 'oneclock[jax]'") from error


def balanced_adamw(
    learning_rate: optax.ScalarOrSchedule,
    *,
    horizon: float | None = None,
    beta: float | None = None,
    refreshes: float = REFRESHES,
    **options: Any,
) -> optax.GradientTransformationExtraArgs:
    """`optax.adamw` with `b1 = b2 = beta`. Give exactly one of `horizon`, in optimizer steps, and `beta`.

    All other options are optax's: `mask`, `weight_decay` and `mu_dtype` as well as a schedule for the learning rate.

    >>> import jax.numpy as jnp
    >>> optimizer = balanced_adamw(3e-4, horizon=20_000, weight_decay=0.1)  # b1 = b2 = 0.95
    >>> state = optimizer.init(jnp.ones(3))
    >>> updates, state = optimizer.update(jnp.ones(3), state, jnp.ones(3))
    >>> round(float(state[0].mu[0]), 6)
    0.05
    """
    return optax.adamw(learning_rate, **_tied(horizon, beta, refreshes, options))


def balanced_adam(
    learning_rate: optax.ScalarOrSchedule,
    *,
    horizon: float | None = None,
    beta: float | None = None,
    refreshes: float = REFRESHES,
    **options: Any,
) -> optax.GradientTransformationExtraArgs:
    """`optax.adam` with `b1 = b2 = beta`. Give exactly one of `horizon`, in optimizer steps, and `beta`.

    >>> balanced_adam(optax.cosine_decay_schedule(3e-4, 20_000), horizon=20_000).init is not None
    True
    """
    return optax.adam(learning_rate, **_tied(horizon, beta, refreshes, options))


def _tied(horizon: float | None, beta: float | None, refreshes: float, options: dict[str, Any]) -> dict[str, Any]:
    if "b1" in options or "b2" in options:
        raise ValueError("balanced Adam has one memory: give beta= or horizon=, not b1= and b2=")
    if (beta is None) == (horizon is None):
        raise ValueError("balanced Adam needs exactly one of beta= and horizon= (the useful training time in steps)")
    value = refresh_beta(horizon, refreshes) if horizon is not None else checked_beta(beta)  # type: ignore[arg-type]
    return {**options, "b1": value, "b2": value}
