"""Losses that are not functions of one linear prediction, and the losses of users."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Bool, Float

from privopt.arguments import positive_integer
from privopt.convex import (
    Distance,
    FeaturesLike,
    Loss,
    Pytree,
    as_features,
    prepare_pair,
    pytree_dataclass,
)
from privopt.records import as_array, prepare


@pytree_dataclass
@dataclass(frozen=True)
class RegularisedDistance:
    """Regularised distance ``|w - x|_2 + (m/2) |w|_2^2``, or its Moreau envelope.

    The loss is ``m``-strongly convex, ``(1 + m R)``-Lipschitz for ``|w| <= R``, and not smooth. A
    positive ``width`` ``h`` gives the envelope ``min_v |v - x| + (m/2)|v|^2 + |v - w|^2/(2h)``. By
    completing the square it is ``|.|_{h/s}(w/s - x) + m |w|^2/(2s)`` with ``s = 1 + m h``, which is
    ``m/s``-strongly convex and ``1/h``-smooth.

    Examples
    --------
    >>> RegularisedDistance(0.5)(jnp.array([2.0, 0.0]), jnp.zeros(2)).item()
    3.0
    """

    modulus: Array | float
    width: Array | float = 0.0

    def __call__(self, point: Float[Array, " d"], example: Float[Array, " d"]) -> Float[Array, ""]:
        """Return the loss of one record."""
        scale = 1.0 + self.modulus * self.width
        rounded = Distance(self.width / scale)
        return rounded(point / scale, example) + 0.5 * self.modulus * jnp.sum(point**2) / scale

    def smoothed(self, width: Array) -> RegularisedDistance:
        """Return the Moreau envelope; widths add."""
        return RegularisedDistance(self.modulus, self.width + width)


@pytree_dataclass
@dataclass(frozen=True)
class TwoKinks:
    """Loss ``s |w_1 - x_1| + sqrt(1 - s^2) |w_A - x_A|_2``, ``A`` all other coordinates.

    The loss is 1-Lipschitz for slopes ``s`` from 0 to 1, and not smooth. The two parts share no
    coordinate, so the Moreau envelope of the sum is the sum of the envelopes. The envelope of ``a
    |.|`` of width ``h`` is ``a`` times the envelope of ``|.|`` of width ``a h``.
    """

    slope: Array | float
    width: Array | float = 0.0

    def __call__(self, point: Float[Array, " d"], example: Float[Array, " d"]) -> Float[Array, ""]:
        """Return the loss of one record."""
        along, across = self.slope, jnp.sqrt(1.0 - jnp.square(self.slope))
        first = along * Distance(along * self.width)(point[:1], example[:1])
        return first + across * Distance(across * self.width)(point[1:], example[1:])

    def smoothed(self, width: Array) -> TwoKinks:
        """Return the Moreau envelope; widths add."""
        return TwoKinks(self.slope, self.width + width)


@pytree_dataclass
@dataclass(frozen=True)
class Multinomial:
    """Softmax loss ``log sum_k exp(<x, w_k>) - <x, w_y>`` with labels ``0..classes-1``.

    ``W`` has shape ``(classes, features)``. For every record the loss is

    - ``sqrt(2) |x|``-Lipschitz in the Frobenius norm: the gradient is ``(p - e_y) x^T`` with the
      softmax probabilities ``p``, and ``|p - e_y|^2 <= 2``, with equality for ``p -> e_k``.
    - ``|x|^2/2``-smooth: the Hessian is ``(diag(p) - p p^T) (x) x x^T``, and the variance of
      ``v_k`` under ``p`` is at most ``|v|^2/2``, a quarter of the largest squared range, with
      equality if two classes have probability 1/2.

    Both constants hold for all data: a record with an invalid label has loss 0.

    Examples
    --------
    >>> Multinomial(3)(jnp.zeros((3, 2)), (jnp.ones(2), jnp.array(0.0))).round(4).item()
    1.0986
    """

    classes: int = field(metadata={"static": True})

    curvature: ClassVar[float] = 0.5

    def __call__(
        self, point: Float[Array, "classes d"], example: tuple[FeaturesLike, Array]
    ) -> Float[Array, ""]:
        """Return the loss of one record."""
        features, label = example
        scores = as_features(features).matvec(point)
        is_label = label == jnp.arange(self.classes).astype(label.dtype)
        return jnp.sum(jnp.where(is_label, jax.nn.logsumexp(scores) - scores, 0.0))

    @property
    def domain(self) -> str:
        """Rule for the labels, for error messages."""
        return f"labels must be places of the classes, from 0 to {self.classes - 1}"

    def admits(self, example: tuple[FeaturesLike, Array]) -> Bool[Array, ""]:
        """Return True if the label is a class."""
        label = example[1]
        return jnp.any(label == jnp.arange(self.classes).astype(label.dtype))

    def prepare(
        self, data: Pytree, *, dim: int, smoothness: float | None
    ) -> tuple[FeaturesLike, Array]:
        """Return the records as floats; rows are shortened to ``|x|^2/2 <= smoothness``."""
        return prepare_pair(
            data, columns=dim // self.classes, curvature=self.curvature, smoothness=smoothness
        )


@pytree_dataclass
@dataclass(frozen=True)
class HalfSquare:
    """Public term ``r(w) = |w|_2^2 / 2``, independent of the records."""

    def __call__(self, point: Float[Array, " d"]) -> Float[Array, ""]:
        """Return ``|w|^2 / 2``."""
        return 0.5 * jnp.sum(jnp.square(point))


class Users(NamedTuple):
    """Records grouped by user, for user-level privacy: one user becomes one record of a problem.

    The neighbouring relation of a budget, clipping, batches and events then refer to users.
    ``records`` has leaves of shape ``(users, most, ...)``, padded with zeros. The mask ``present``
    is True for records and False for padding.
    """

    records: Pytree
    present: Bool[Array, "*users most"]

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

    def __call__(self, point: Pytree, user: Users) -> Float[Array, ""]:
        each = jax.vmap(lambda record: self.loss(point, record))(user.records)
        divisor = jnp.where(self.mean, jnp.maximum(user.present.sum(), 1), user.present.size)
        return jnp.where(user.present, each, 0.0).sum() / divisor.astype(each.dtype)
