"""User-level privacy: the records of one user become one record of a problem.

The neighbouring relation of a budget then refers to users. So do clipping, batches and events: the
gradient of a user is clipped, and a sampler samples users.
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
from privopt.records import as_array, prepare


class Users(NamedTuple):
    """Records grouped by user.

    ``records`` has leaves of shape ``(users, most, ...)``, padded with zeros. The mask ``present``
    of shape ``(users, most)`` is True for records and False for padding.
    """

    records: Pytree
    present: Array

    def __repr__(self) -> str:
        return f"<Users: {self.present.shape[0]} users of {self.present.shape[1]} records>"


def by_user(data: Pytree, users: ArrayLike, *, n: int, most: int) -> Users:
    """Return the first ``most`` records of each user, in the order of the table.

    The result is the data of a problem of ``n`` records with the loss :class:`UserLoss`. Further
    records of a user, and records with an invalid user, are ignored. A user without a record is a
    null record. Values of ``data`` and ``users`` never raise.

    Parameters
    ----------
    data : pytree of Array
        Leading axis the records, as for :class:`privopt.problems.Problem`.
    users : Array
        The user of each record, integers from 0 to ``n - 1``, shape ``(records,)``.
    n : int
        Public number of users.
    most : int
        Public number ``k`` of records per user.

    Examples
    --------
    >>> users = by_user(jnp.array([1.0, 2.0, 3.0, 4.0]), [0, 1, 0, 0], n=2, most=2)
    >>> users.records.tolist(), users.present.tolist()
    ([[1.0, 3.0], [2.0, 0.0]], [[True, True], [True, False]])
    """
    n, most = positive_integer("n", n), positive_integer("most", most)
    data, owners = prepare(None, data, dim=0, smoothness=None), np.asarray(as_array(users, "users"))
    total = int(jax.tree.leaves(data)[0].shape[0])
    if owners.shape != (total,):
        raise ValueError(
            f"users must have shape ({total},), one for each record, got shape {owners.shape}"
        )
    valid = (owners >= 0) & (owners < n) & (owners == np.floor(owners))
    owners = np.where(valid, owners, n).astype(np.int64)  # n: no user
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners, minlength=n + 1)
    firsts = (np.cumsum(counts) - counts)[:n]
    present = np.arange(most) < counts[:n, None]
    rows = np.where(present, firsts[:, None] + np.arange(most), 0)
    order = order if total else np.zeros(1, np.int64)

    def group(leaf: Array) -> Array:
        mask = present.reshape(*present.shape, *(1,) * (leaf.ndim - 1))
        padded = leaf if total else jnp.zeros((1, *leaf.shape[1:]), leaf.dtype)
        return jnp.where(mask, padded[order[rows]], jnp.zeros((), leaf.dtype))

    return Users(jax.tree.map(group, data), jnp.asarray(present))


@pytree_dataclass
@dataclass(frozen=True)
class UserLoss:
    """Loss ``(1/k) sum_j loss(w; x_j)`` over the at most ``k`` records of a user.

    It is ``L``-Lipschitz and ``H``-smooth if ``loss`` is. All records have the same weight, so a
    user with fewer records has less weight. With ``mean=True`` the divisor is the number of records
    of the user, so all users have the same weight. A user without records has loss 0.

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
