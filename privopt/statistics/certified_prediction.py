"""Certified prediction by randomised smoothing: a vote on noisy inputs and its certified radius.

Differential privacy with *inputs* in place of data sets: inputs have Gaussian noise, and two inputs
are neighbours if they are close. No record is protected, and the classifier is arbitrary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
from jax import Array
from scipy.optimize import minimize_scalar
from scipy.special import betaincinv, ndtri

from privopt import random
from privopt.arguments import checked, count, positive_number, real, shown
from privopt.privacy import gaussian_mu
from privopt.privacy.numbers import real_array
from privopt.records import check_floating

FloatArray: TypeAlias = npt.NDArray[np.float64]


@checked
def clopper_pearson(
    hits: npt.ArrayLike, trials: int, failure: float
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper confidence bounds of the probability of a hit, shaped like ``hits``.

    Each bound fails with probability at most ``failure``, for every true probability.

    Source: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case
    of the binomial", Biometrika 1934.

    Examples
    --------
    >>> lower, upper = clopper_pearson([0, 10], trials=10, failure=0.001)
    >>> lower.round(3).tolist(), upper.round(3).tolist()
    ([0.0, 0.501], [0.499, 1.0])
    """
    hits = real_array("hits", hits)
    misses = trials - hits
    lower = betaincinv(np.maximum(hits, 1), misses + 1, failure)
    upper = betaincinv(hits + 1, np.maximum(misses, 1), 1.0 - failure)
    return np.where(hits == 0, 0.0, lower), np.where(misses == 0, 1.0, upper)


class Votes(NamedTuple):
    """Predicted classes of noisy copies of an input.

    ``chosen``, shape ``()``, is the class with the most votes in a first sample, used only for
    this. ``counts``, shape ``(classes,)``, are the votes of a second sample; ``spoiled``,
    shape ``()``, is its number of invalid copies. ``sigma``, shape ``()``, is the noise in the
    dtype of the input.
    """

    chosen: Array
    counts: Array
    spoiled: Array
    sigma: Array


@checked
def noisy_votes(
    scores: Callable[[Array], Array],
    x: Array,
    sigma: float | Array,
    key: Array,
    *,
    samples: int,
    choosing: int = 100,
    chunk: int = 128,
) -> Votes:
    """Return the classes with the largest score on ``samples`` copies ``x + N(0, sigma^2 I)``.

    Parameters
    ----------
    scores : callable
        Function of one input that returns scores, shape ``(classes,)``. Ties are won by the first
        class. A copy with a NaN score is invalid.
    x : Array
        One input, of any shape; ``jax.vmap`` for many.
    sigma : float or Array
        Standard deviation of the noise, in the units of ``x``.
    key : Array
        Typed key from ``jax.random.key``.
    samples, choosing : int
        Number of counted copies, and of further copies that select the class.
    chunk : int
        Number of copies in memory. The votes do not depend on it.

    Examples
    --------
    >>> def scores(x):
    ...     return jnp.stack([x.sum(), -x.sum()])
    >>> votes = noisy_votes(scores, jnp.ones(4), 1.0, jax.random.key(0), samples=1000)
    >>> int(votes.chosen), 950 < int(votes.counts[0]) < 1000  # P(N(4, 4) > 0) = .977
    (0, True)
    """
    check_floating(x.dtype, "x")
    choosing, chunk = count("choosing", choosing), count("chunk", chunk)
    copies = choosing + count("samples", samples)
    classes, sigma = jax.eval_shape(scores, x).size, jnp.asarray(sigma, x.dtype)

    def vote(number: Array) -> Array:
        noise = random.normal(random.fold_in(key, number), x.shape, x.dtype)
        values = scores(x + sigma * noise)
        return jnp.where(jnp.isnan(values).any(), classes, jnp.argmax(values))

    padded = chunk * math.ceil(copies / chunk)  # a smaller last chunk would compile separately
    called = jax.lax.map(vote, jnp.arange(padded, dtype=jnp.uint32), batch_size=chunk)
    winner = jnp.argmax(jnp.bincount(called[:choosing], length=classes + 1)[:-1])
    counts = jnp.bincount(called[choosing:copies], length=classes + 1)
    return Votes(winner, counts[:-1], counts[-1], sigma)


@dataclass(frozen=True)
class Certificate:
    """Predicted class of an input and the radius within which the prediction is constant.

    Parameters
    ----------
    predicted : int or None
        None if it abstains, because no class is certainly the most likely one.
    lower, upper : float
        Lower bound of the probability of the class, and upper bound of that of every other class.
    sigma : float
        Standard deviation of the noise, in the units of inputs.

    Formal guarantee
    ----------------
    With probability ``1 - failure`` over the votes, ``predicted`` is the most likely class of noisy
    copies of every input closer than ``radius``, and hence than ``radius_by_epsilon``. A vote is
    ``r/sigma``-Gaussian DP for inputs at l2 distance ``r``
    (:ref:`Mechanisms, Theorem 12 <theory-mechanisms-12>`). The ``relation`` is not a
    :class:`privopt.Relation`, which compares data sets. The noise is assumed to be exact; that of
    ``draws`` differs by rounding.

    References
    ----------
    Lecuyer, Atlidakis, Geambasu, Hsu and Jana, "Certified robustness to adversarial
    examples with differential privacy", 2019, Proposition 1; Cohen, Rosenfeld and Kolter,
    "Certified adversarial robustness via randomized smoothing", 2019, Theorem 1. The latter bound
    one class at ``failure`` and use ``upper = 1 - lower``. The same is done here for two classes;
    for more classes each is bounded at ``failure/classes``.

    Examples
    --------
    >>> certificate = Certificate(predicted=3, lower=0.9, upper=0.05, sigma=0.5)
    >>> round(certificate.radius, 3), round(certificate.radius_by_epsilon, 3)
    (0.732, 0.566)
    >>> certificate.at(0.7), certificate.at(0.8)
    (3, None)
    """

    predicted: int | None
    lower: float
    upper: float
    sigma: float
    relation: ClassVar[str] = "inputs_at_l2_distance"

    @classmethod
    def of(cls, votes: Votes, *, failure: float = 1e-3) -> Certificate:
        """Return the certificate of the votes on one input, valid with probability ``1 - failure``.

        The selected class has a lower bound and every other class an upper bound (Clopper and
        Pearson), from counts that are independent of the selection.

        Examples
        --------
        >>> votes = Votes(jnp.array(1), jnp.array([10, 990]), jnp.array(0), jnp.array(0.5))
        >>> certificate = Certificate.of(votes)
        >>> certificate.predicted, round(certificate.lower, 3), round(certificate.radius, 3)
        (1, 0.976, 0.989)
        """
        sigma = positive_number("sigma", float(votes.sigma))
        if not 0.0 < real("failure", failure) < 1.0:
            raise ValueError(f"failure must be above 0 and below 1, got {shown(failure)}")
        counts, winner = np.asarray(votes.counts), int(votes.chosen)
        if counts.ndim != 1 or counts.size < 2:
            raise ValueError(
                f"votes must be on one input and at least two classes, got shape {counts.shape}"
            )
        samples, share = int(counts.sum() + votes.spoiled), failure
        if counts.size > 2:
            share /= counts.size
        least = 1 + math.floor(-math.log2(share))
        if samples < least:
            raise ValueError(
                f"samples must be at least {least} for any certificate at failure {failure:g}, "
                f"got {samples}"
            )
        lowers, uppers = clopper_pearson(counts, samples, share)
        lower = float(lowers[winner])
        upper = 1.0 - lower
        if counts.size > 2:
            upper = min(upper, float(np.delete(uppers, winner).max()))
        return cls(winner if lower > upper else None, lower, upper, sigma)

    @property
    def radius(self) -> float:
        """Certified radius ``sigma/2 (Phi^-1(lower) - Phi^-1(upper))``; 0 if it abstains."""
        if self.predicted is None:
            return 0.0
        low, high = float(ndtri(self.lower)), float(ndtri(self.upper))
        round_off = 2.0**-49 * (1.0 + abs(low) + abs(high))
        return self.sigma * max(0.0, 0.5 * (low - high) - round_off)

    @property
    def radius_by_epsilon(self) -> float:
        """Largest ``r`` with ``lower > e^(2 epsilon) upper + (1 + e^epsilon) delta``.

        ``delta`` is that of the noise at sensitivity ``r``. Every ``epsilon`` gives a valid radius,
        and a search returns nearly the largest. It is at most ``radius``, which uses all epsilons.
        """
        if self.predicted is None:
            return 0.0

        def radius(epsilon: float) -> float:
            gap = self.lower - math.exp(2.0 * epsilon) * self.upper - 2.0**-48  # round-off
            return gaussian_mu(epsilon, max(0.0, gap / (1.0 + math.exp(epsilon))))

        limit = 0.5 * (math.log(self.lower) - math.log(self.upper))
        result = minimize_scalar(
            lambda epsilon: -radius(epsilon), bounds=(0.0, limit), options={"xatol": 1e-3 * limit}
        )
        return self.sigma * -float(result.fun)

    def at(self, radius: float) -> int | None:
        """Return the class if it is certified within ``radius``, which is below ``self.radius``."""
        if not real("radius", radius) >= 0.0:
            raise ValueError(f"radius must be non-negative, got {shown(radius)}")
        return self.predicted if radius < self.radius else None
