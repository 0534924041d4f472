"""Balanced Adam: Adam with one decay rate for both moments, set from the length of training.

Both averages have the same memory, `1 / (1 - beta)` steps. Given the planned number of optimizer steps `T`, the memory
is `1 + sqrt(T) / 7`. The paper that proposed to tie the decay rates is Fernández-Hernández et al., "Refresh-Scaling the
Memory of Balanced Adam", 2026.
"""

from typing import Any, Callable, Optional, Union

import jax.numpy as jnp
from optax._src import base
from optax._src import combine
from optax._src import transform


def balanced_beta(num_steps: Any) -> Any:
  """The decay rate of both moments for a training of `num_steps` steps.

  Args:
    num_steps: Planned optimizer steps, above 0.

  Returns:
    `sqrt(T) / (sqrt(T) + 7)`.

  Examples:
    >>> from optax import contrib
    >>> round(float(contrib.balanced_beta(20_000)), 3)
    0.953
  """
  root = jnp.sqrt(num_steps)
  return root / (root + 7.0)


def balanced_adamw(
    learning_rate: base.ScalarOrSchedule,
    num_steps: Optional[float] = None,
    beta: Optional[float] = None,
    eps: float = 1e-8,
    weight_decay: base.ScalarOrSchedule = 0.0,
    mask: Optional[Union[Any, Callable[[base.Params], Any]]] = None,
    mu_dtype: Optional[jnp.dtype] = None,
) -> base.GradientTransformation:
  r"""AdamW with one decay rate, :math:`\beta_1 = \beta_2 = \beta`.

  Args:
    learning_rate: A fixed learning rate or a schedule.
    num_steps: Planned optimizer steps, from which beta follows. Give this or
      `beta`.
    beta: Decay rate of both moments, in [0, 1).
    eps: A small constant added to the denominator.
    weight_decay: Strength of the decoupled weight decay.
    mask: Which parameters decay; as in :func:`optax.adamw`.
    mu_dtype: Optional dtype of the first moment.

  Returns:
    The corresponding :class:`optax.GradientTransformation`.

  Examples:
    >>> import jax, jax.numpy as jnp, optax
    >>> from optax import contrib
    >>> solver = contrib.balanced_adamw(learning_rate=0.1, num_steps=100)
    >>> params = jnp.array([1.0, 2.0, 3.0])
    >>> state = solver.init(params)
    >>> value = lambda x: jnp.sum(x**2)
    >>> for _ in range(100):
    ...   updates, state = solver.update(jax.grad(value)(params), state, params)
    ...   params = optax.apply_updates(params, updates)
    >>> bool(value(params) < 1.0)
    True
  """
  if (num_steps is None) == (beta is None):
    raise ValueError('give exactly one of num_steps and beta')
  if beta is None:
    beta = balanced_beta(num_steps)
  return combine.chain(
      transform.scale_by_adam(b1=beta, b2=beta, eps=eps, mu_dtype=mu_dtype),
      transform.add_decayed_weights(weight_decay, mask),
      transform.scale_by_learning_rate(learning_rate),
  )
