"""What a kind of noise answers, fresh noise, and the event of noise that is correlated."""

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

from privopt import draws
from privopt.convex import pytree_dataclass
from privopt.factorisations import Factorisation, factorise
from privopt.mechanisms.batches import Batches, CyclicPoissonBatches, Participation
from privopt.release import Pytree
from privopt.spec import Relation

QUESTIONS = ("init", "update", "factorisation", "event")

_ROUND_OFF = 1e-9  # of a sensitivity computed in float64, relative


class Noise(Protocol):
    r"""What is added: ``z_t``, the increments of ``B xi`` with independent ``xi_s ~ N(0, I)``.

    Step ``t`` answers ``g_t + sigma z_t``. ``A = B C`` is a factorisation of the matrix of prefix
    sums, so the prefix sums of the answers are ``A g + sigma B xi = B (C g + sigma xi)``: a
    post-processing of one Gaussian mechanism, whose sensitivity is that of ``C`` under the
    participation of a record. For a square ``C`` this is ``z = C^{-1} xi``; independent noise has
    ``C = I``.

    *Adaptivity*. ``g_t`` may depend on the answers before it. The noise is Gaussian and row ``t``
    of ``C g`` needs no gradient after ``g_t``, so the releases are as private as those for
    gradients fixed in advance (Denisov, McMahan, Rush, Smith and Thakurta 2022, arXiv:2202.08312,
    Theorem 2.1). *Vectors*. A record that moves ``g_i`` by vectors of unit norm moves ``C g`` by at
    most ``(\sum_{ij} |X_ij|)^{1/2}`` over its steps, ``X = C^T C``, whatever their directions.

    An implementation is a frozen dataclass registered as a pytree
    (:func:`privopt.convex.pytree_dataclass`). Its factorisation is made of the numbers that the
    device multiplies by. It may declare the ``variance`` of its ``xi_s`` (1 for normal draws);
    they are then independent with mean zero. Without a ``variance`` no rate is claimed.
    """

    def init(self, point: Pytree) -> Pytree:
        """Memory before the first step, for a ``point`` like the parameter; a pytree."""

    def update(self, state: Pytree, t: Array, key: Array, like: Pytree) -> tuple[Pytree, Pytree]:
        """``(z_t, state)``, ``z_t`` a pytree like ``like``, the gradient; ``t = 0, 1, ..``.

        ``key`` is that of the run: what step ``t`` draws comes from ``fold_in(key, t)``.
        """

    def factorisation(self, steps: int) -> Factorisation:
        """``A = B C`` of the first ``steps`` steps, on the host; ValueError beyond its length."""

    def event(
        self, batches: Batches, noise_multiplier: float, steps: int, relation: Relation
    ) -> DpEvent:
        """What ``steps`` answers on these batches do to privacy.

        ``noise_multiplier`` is ``sigma`` over the largest share of one record in an answer: a quotient
        without a unit, from 0 on. At 0, where no noise is added, the event has no privacy.
        ValueError, with the reason, where no theorem covers this noise on these batches.
        """


def drawn(key: Array, t: Array, like: Pytree) -> Array:
    """Draw ``N(0, I)`` from ``fold_in(key, t)``, one number for each number of ``like``."""
    vector, _ = ravel_pytree(like)
    return draws.normal(jax.random.fold_in(key, t), vector.shape, vector.dtype)


def restored(vector: Array, like: Pytree) -> Pytree:
    """Return ``vector`` as a pytree like ``like``."""
    _, unravel = ravel_pytree(like)
    return unravel(vector)


def rows(count: int, point: Pytree) -> Array:
    """Return ``count`` vectors of zeros, each as long as ``point``."""
    vector, _ = ravel_pytree(point)
    return jnp.zeros((count, vector.size), vector.dtype)


@jax.custom_batching.custom_vmap
def weighted(weights: Array, vectors: Array) -> Array:
    """``sum_i weights_i vectors_i``; no accelerator may round the weights, which privacy rests on.

    A compiled loop copies all rows if a step reads old ones after it has written new ones.
    Under ``vmap`` every run gets its own copy of the weights: with shared weights XLA would gather
    the rows of all runs anew in every step.
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
    """Noise ``z = C^-1 xi`` of normal draws: its event follows from ``factorisation``."""

    variance = 1.0

    def event(
        self: Noise, batches: Batches, noise_multiplier: float, steps: int, relation: Relation
    ) -> DpEvent:
        return participation_event(self, batches, noise_multiplier, steps, relation)


def participation_event(
    noise: Noise, batches: Batches, noise_multiplier: float, steps: int, relation: Relation
) -> DpEvent:
    """The event of ``steps`` answers: one Gaussian mechanism, of noise ``noise_multiplier/sensitivity``.

    ``noise.factorisation(steps)`` says how far one record moves ``C g``, and
    ``batches.participation`` in which steps a record may take part. On cyclic Poisson batches it is
    their event for banded noise.

    Formal guarantee
    ----------------
    ``sensitivity/noise_multiplier``-Gaussian DP under ``zero_out``, twice that under ``replace_one``
    (what a Gaussian event means there), for every data set and every adaptive choice of the points.
    ValueError where no theorem covers the batches, or the noise on them, or the noise is shorter
    than ``steps``.

    Examples
    --------
    >>> from privopt.mechanisms import OrderedBatches, TreeNoise
    >>> batches = OrderedBatches.of(1, 100)
    >>> event = participation_event(TreeNoise(), batches, 1.0, 100, Relation.ZERO_OUT)
    >>> round(event.noise_multiplier**-2, 6)  # a step lies in so many blocks
    7.0
    """
    if isinstance(batches, CyclicPoissonBatches):
        return _banded_event(noise, batches, noise_multiplier, steps, relation)
    participation = batches.participation(steps, relation)
    if participation.times == 0:
        return SelfComposedDpEvent(GaussianDpEvent(noise_multiplier), 0)
    sensitivity = _sensitivity(_Question(noise, _content(noise), steps, participation))
    return GaussianDpEvent(math.nextafter(noise_multiplier / sensitivity, 0.0))


def _banded_event(
    noise: Noise,
    batches: CyclicPoissonBatches,
    noise_multiplier: float,
    steps: int,
    relation: Relation,
) -> DpEvent:
    """Of noise whose band ends before a record can take part again."""
    if steps == 0:
        return batches.banded(noise_multiplier, 1, steps, relation)
    once = _Question(noise, _content(noise), steps, Participation(1, 1, even=True))
    band = _band(once)
    if band > batches.cycle:
        raise ValueError(
            f"noise must be banded by at most cycle = {batches.cycle} on cyclic Poisson batches: "
            "no theorem covers a record that returns before its noise has ended; got "
            f"{type(noise).__name__}, which spreads a step over {band}"
        )
    column = math.nextafter(noise_multiplier / _sensitivity(once), 0.0)
    return batches.banded(column, band, steps, relation)


@dataclass(frozen=True)
class _Question:
    """A key of the caches below: a noise is compared by its content."""

    noise: Noise = field(compare=False)
    content: object
    steps: int
    participation: Participation


@lru_cache(maxsize=128)
def _sensitivity(asked: _Question) -> float:
    """How far one record of unit norm moves ``C g``, rounded up."""
    times, gap, even = asked.participation
    factorisation = asked.noise.factorisation(asked.steps)
    return factorisation.sensitivity(times, gap, even=even) * (1.0 + _ROUND_OFF)


@lru_cache(maxsize=128)
def _band(asked: _Question) -> int:
    """Over how many rows of ``C`` a step is spread."""
    return asked.noise.factorisation(asked.steps).band


def _content(noise: Noise) -> object:
    """Structure and numbers, arrays by their digests."""
    leaves, structure = jax.tree.flatten(noise)
    arrays = [np.asarray(leaf) for leaf in leaves]
    return structure, tuple(
        (array.dtype.str, array.shape, hashlib.sha256(array.tobytes()).digest()) for array in arrays
    )


@pytree_dataclass
@dataclass(frozen=True)
class IndependentNoise:
    """``z_t ~ N(0, I)``, independent of all others.

    The draws end at ``draws.NORMAL_REACH`` standard deviations, which the calibration charges to
    ``delta``.
    """

    variance = 1.0

    def init(self, point: Pytree) -> tuple[()]:
        del point
        return ()

    def update(
        self, state: tuple[()], t: Array, key: Array, like: Pytree
    ) -> tuple[Pytree, tuple[()]]:
        return restored(drawn(key, t, like), like), state

    def factorisation(self, steps: int) -> Factorisation:
        return factorise("independent", steps)

    def event(
        self, batches: Batches, noise_multiplier: float, steps: int, relation: Relation
    ) -> DpEvent:
        return batches.composed(noise_multiplier, steps, relation)
