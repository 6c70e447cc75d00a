"""Protocol of noise, independent noise, and the event of correlated noise."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, SelfComposedDpEvent
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import Float, Key

from privopt import random
from privopt.convex import pytree_dataclass
from privopt.factorisations import Factorisation, factorise
from privopt.mechanisms.batches import Batches, CyclicPoissonBatches, Participation
from privopt.release import Pytree
from privopt.spec import Relation

QUESTIONS = ("init", "update", "factorisation", "event")

_ROUND_OFF = 1e-9  # relative, of a sensitivity in float64


class Noise(Protocol):
    r"""Noise ``z_t``: the increments of ``B xi`` with independent ``xi_s ~ N(0, I)``.

    Step ``t`` returns ``g_t + sigma z_t``. ``A = B C`` is a factorisation of the matrix of prefix
    sums, so the prefix sums of the answers are ``A g + sigma B xi = B (C g + sigma xi)``: a
    post-processing of one Gaussian mechanism, with the sensitivity of ``C`` under the
    participation of a record. For a square ``C`` this is ``z = C^{-1} xi``. Independent noise has
    ``C = I``.

    *Adaptivity*. ``g_t`` may depend on earlier answers. The noise is Gaussian and row ``t`` of ``C
    g`` needs no gradient after ``g_t``, so the releases are as private as those for gradients
    fixed in advance (Denisov, McMahan, Rush, Smith and Thakurta 2022, arXiv:2202.08312, Theorem
    2.1). *Vectors*. If a record changes ``g_i`` by vectors of unit norm, it changes ``C g`` by at
    most ``(\sum_{ij} |X_ij|)^{1/2}`` over its steps, ``X = C^T C``, for all directions.

    An implementation is a frozen dataclass registered as a pytree
    (:func:`privopt.convex.arrays`). Its factorisation consists of the numbers that the
    device multiplies by. It may declare the ``variance`` of its ``xi_s`` (1 for normal noise);
    they are then independent with mean zero. Without a ``variance`` there is no rate.
    """

    def init(self, point: Pytree) -> Pytree:
        """Return the initial state, a pytree, for a ``point`` like the parameter."""

    def update(
        self, state: Pytree, t: Array, key: Key[Array, ""], like: Pytree
    ) -> tuple[Pytree, Pytree]:
        """Return ``(z_t, state)``, ``z_t`` a pytree like the gradient ``like``; ``t = 0, 1, ..``.

        ``key`` is the key of the run: step ``t`` uses ``fold_in(key, t)``.
        """

    def factorisation(self, steps: int) -> Factorisation:
        """Return ``A = B C`` of the first ``steps`` steps; ValueError beyond its length."""

    def event(
        self, batches: Batches, noise_multiplier: float, steps: int, relation: Relation
    ) -> DpEvent:
        """Return the event of ``steps`` answers on these batches.

        ``noise_multiplier`` is ``sigma`` over the per-record sensitivity of an answer, at least 0.
        At 0 the event has no privacy. ValueError, with the reason, if no theorem covers this noise
        on these batches.
        """


def sample_normal(key: Key[Array, ""], t: Array, like: Pytree) -> Float[Array, " d"]:
    """Sample ``N(0, I)`` from ``fold_in(key, t)``, one number for each number of ``like``."""
    vector, _ = ravel_pytree(like)
    return random.normal(random.fold_in(key, t), vector.shape, vector.dtype)


def unravel_like(vector: Float[Array, " d"], like: Pytree) -> Pytree:
    """Return ``vector`` as a pytree like ``like``."""
    _, unravel = ravel_pytree(like)
    return unravel(vector)


def zero_rows(count: int, point: Pytree) -> Float[Array, "rows d"]:
    """Return ``count`` vectors of zeros, each as long as ``point``."""
    vector, _ = ravel_pytree(point)
    return jnp.zeros((count, vector.size), vector.dtype)


@jax.custom_batching.custom_vmap
def weighted(weights: Array, vectors: Array) -> Array:
    """Return ``sum_i weights_i vectors_i`` in full precision, since privacy depends on the weights.

    A compiled loop copies all rows if a step reads old ones after it has written new ones. Under
    ``vmap`` every run gets its own copy of the weights: with shared weights XLA would gather the
    rows of all runs in every step.
    """
    return jnp.matmul(weights, vectors, precision=jax.lax.Precision.HIGHEST)


@weighted.def_vmap
def _(runs: int, batched: list[bool], weights: Array, vectors: Array) -> tuple[Array, bool]:
    each = [
        array if is_batched else jnp.broadcast_to(array, (runs, *array.shape))
        for array, is_batched in zip((weights, vectors), batched, strict=True)
    ]
    return jnp.einsum("ri,rid->rd", *each, precision=jax.lax.Precision.HIGHEST), True


class CorrelatedNoise:
    """Noise ``z = C^-1 xi`` with normal ``xi``: its event follows from ``factorisation``."""

    variance = 1.0

    def event(
        self: Noise, batches: Batches, noise_multiplier: float, steps: int, relation: Relation
    ) -> DpEvent:
        return participation_event(self, batches, noise_multiplier, steps, relation)


def participation_event(
    noise: Noise, batches: Batches, noise_multiplier: float, steps: int, relation: Relation
) -> DpEvent:
    """Return the event of ``steps`` answers: one Gaussian mechanism.

    Its noise multiplier is ``noise_multiplier/sensitivity``, with the sensitivity of ``C g`` from
    ``noise.factorisation(steps)`` and ``batches.participation``. On cyclic Poisson batches it is
    their event for banded noise.

    Formal guarantee
    ----------------
    ``sensitivity/noise_multiplier``-Gaussian DP under ``zero_out``, twice that under
    ``replace_one`` (the meaning of a Gaussian event there), for every data set and every adaptive
    choice of the points. ValueError if no theorem covers the batches, or the noise on them, or if
    the noise is shorter than ``steps``.

    Examples
    --------
    >>> from privopt.mechanisms import OrderedBatches, TreeNoise
    >>> batches = OrderedBatches.of(1, 100)
    >>> event = participation_event(TreeNoise(), batches, 1.0, 100, Relation.ZERO_OUT)
    >>> round(event.noise_multiplier**-2, 6)  # number of blocks that contain a step
    7.0
    """
    if isinstance(batches, CyclicPoissonBatches):
        return _banded_event(noise, batches, noise_multiplier, steps, relation)
    participation = batches.participation(steps, relation)
    if participation.times == 0:
        return SelfComposedDpEvent(GaussianDpEvent(noise_multiplier), 0)
    sensitivity = _sensitivity(_Query(noise, _content(noise), steps, participation))
    return GaussianDpEvent(math.nextafter(noise_multiplier / sensitivity, 0.0))


def _banded_event(
    noise: Noise,
    batches: CyclicPoissonBatches,
    noise_multiplier: float,
    steps: int,
    relation: Relation,
) -> DpEvent:
    """Return the event of noise with a band that ends before a record can be sampled again."""
    if steps == 0:
        return batches.banded(noise_multiplier, 1, steps, relation)
    once = _Query(noise, _content(noise), steps, Participation(1, 1, even=True))
    band = _band(once)
    if band > batches.cycle:
        raise ValueError(
            f"noise must be banded by at most cycle = {batches.cycle} on cyclic Poisson batches: "
            "no theorem covers a record that is sampled again before its noise has ended; got "
            f"{type(noise).__name__}, which spreads a step over {band}"
        )
    column = math.nextafter(noise_multiplier / _sensitivity(once), 0.0)
    return batches.banded(column, band, steps, relation)


@dataclass(frozen=True)
class _Query:
    """Key of the caches below: a noise is compared by its content."""

    noise: Noise = field(compare=False)
    content: object
    steps: int
    participation: Participation


@lru_cache(maxsize=128)
def _sensitivity(query: _Query) -> float:
    """Return the sensitivity of ``C g`` for a record of unit norm, rounded up."""
    times, gap, even = query.participation
    factorisation = query.noise.factorisation(query.steps)
    return factorisation.sensitivity(times, gap, even=even) * (1.0 + _ROUND_OFF)


@lru_cache(maxsize=128)
def _band(query: _Query) -> int:
    """Return the number of diagonals of ``C``."""
    return query.noise.factorisation(query.steps).band


def _content(noise: Noise) -> object:
    """Return structure and numbers; arrays by their digests."""
    arrays_or_numbers, structure = jax.tree.flatten(noise)
    arrays = [np.asarray(leaf) for leaf in arrays_or_numbers]
    return structure, tuple(
        (array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).digest()) for array in arrays
    )


@pytree_dataclass
@dataclass(frozen=True)
class IndependentNoise:
    """Independent noise ``z_t ~ N(0, I)``.

    The calibration charges the truncation at ``draws.NORMAL_REACH`` standard deviations to
    ``delta``.
    """

    variance = 1.0

    def init(self, point: Pytree) -> tuple[()]:
        del point
        return ()

    def update(
        self, state: tuple[()], t: Array, key: Key[Array, ""], like: Pytree
    ) -> tuple[Pytree, tuple[()]]:
        return self.sample(t, key, like), state

    def sample(self, t: Array, key: Key[Array, ""], like: Pytree) -> Pytree:
        """Return ``z_t``, a pytree like ``like``."""
        return unravel_like(sample_normal(key, t, like), like)

    def factorisation(self, steps: int) -> Factorisation:
        return factorise("independent", steps)

    def event(
        self, batches: Batches, noise_multiplier: float, steps: int, relation: Relation
    ) -> DpEvent:
        return batches.composed(noise_multiplier, steps, relation)
