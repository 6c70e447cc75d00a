"""Users as records: all that a user gave, of which so much is kept, is one record of a problem.

The relations of a budget then speak of users, and so do norms, clipping, batches and events: what
is clipped is a user's gradient, and a sampler draws users. Nothing else needs to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from privopt.arguments import positive_integer
from privopt.convex import Loss, Pytree, pytree_dataclass
from privopt.problems.declaration import numeric, record_count


class Users(NamedTuple):
    """What is kept of every user.

    ``records`` has leaves of shape ``(users, most, ...)``, zero where a user gave fewer;
    ``present``, shape ``(users, most)``, says where there is a record.
    """

    records: Pytree
    present: Array


def by_user(data: Pytree, users: ArrayLike, *, n: int, most: int) -> Users:
    """The records of each user, the first ``most`` of them in the order of the table.

    A record more, behind those of its user, changes nothing. Data for a problem of ``n`` records
    with the loss :class:`UserLoss`.

    Parameters
    ----------
    data : pytree of Array
        Leading axis the records, as for :class:`privopt.problems.Problem`.
    users : Array
        Whose record it is, integers from 0 to ``n - 1``, shape ``(records,)``.
    n : int
        Public number of users. Each must have a record: whoever has none is not to be counted.
    most : int
        Public number ``k`` of records that are kept of a user.

    Examples
    --------
    >>> kept = by_user(jnp.array([1.0, 2.0, 3.0, 4.0]), [0, 1, 0, 0], n=2, most=2)
    >>> kept.records.tolist(), kept.present.tolist()
    ([[1.0, 3.0], [2.0, 0.0]], [[True, True], [True, False]])
    """
    n, most = positive_integer("n", n), positive_integer("most", most)
    data, who = jax.tree.map(numeric, data), np.asarray(users)
    total = record_count(data)
    if who.shape != (total,) or not np.issubdtype(who.dtype, np.integer):
        raise ValueError(
            f"users must be integers of shape ({total},), one a record, got {who.dtype} of shape "
            f"{who.shape}"
        )
    if total and not (who.min() >= 0 and who.max() < n):
        raise ValueError(f"users must lie in [0, {n - 1}], got others")
    counts = np.bincount(who, minlength=n)
    if (counts == 0).any():
        raise ValueError(f"users must each have a record, got {(counts == 0).sum()} without")
    order = np.argsort(who, kind="stable")
    first = np.cumsum(counts) - counts
    places = first[:, None] + np.arange(most)
    present = np.arange(most) < counts[:, None]
    rows = order[np.minimum(places, total - 1)]

    def kept(leaf: Array) -> Array:
        where = present.reshape(*present.shape, *(1,) * (leaf.ndim - 1))
        return jnp.where(where, jnp.asarray(leaf)[rows], jnp.zeros((), leaf.dtype))

    return Users(jax.tree.map(kept, data), jnp.asarray(present))


@pytree_dataclass
@dataclass(frozen=True)
class UserLoss:
    """``(1/k) sum_j loss(w; x_j)`` over what is kept of a user, ``k`` the most that may be.

    ``L``-Lipschitz and ``H``-smooth where ``loss`` is: no user counts for more than one record
    does, and one who gave few counts for less, so that records weigh alike. With ``mean=True`` the
    divisor is the number that there is, and users weigh alike. A user of whom nothing is left
    contributes nothing.

    Examples
    --------
    >>> from privopt.problems import SquaredDistance
    >>> user = Users(jnp.array([[2.0], [0.0]]), jnp.array([True, False]))
    >>> loss = SquaredDistance(1.0)
    >>> float(UserLoss(loss)(jnp.zeros(1), user)), float(UserLoss(loss, True)(jnp.zeros(1), user))
    (1.0, 2.0)
    """

    loss: Loss
    mean: Array | bool = False

    def __call__(self, point: Pytree, user: Users) -> Array:
        each = jax.vmap(lambda record: self.loss(point, record))(user.records)
        divisor = jnp.where(self.mean, jnp.maximum(user.present.sum(), 1), user.present.size)
        return jnp.where(user.present, each, 0.0).sum() / divisor.astype(each.dtype)
