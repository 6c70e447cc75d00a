"""Prediction that provably stays where it is: a vote on noisy inputs, and how far it holds.

The mathematics of differential privacy, with *inputs* in the place of data sets: what is seen is
an input with Gaussian noise, and two inputs are neighbours if they are close. It protects no
record, and does not ask how a classifier was trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy.optimize import minimize_scalar
from scipy.special import ndtri

from privopt import draws
from privopt.arguments import checked, count, positive_number, real, shown
from privopt.privacy import gaussian_mu
from privopt.records import check_floating
from privopt.statistics.proportion import clopper_pearson


class Votes(NamedTuple):
    """What noisy copies of an input were called.

    ``chosen``, shape ``()``, is the class that won a first vote, which decides nothing else.
    ``counts``, shape ``(classes,)``, are of a fresh vote; ``spoiled``, shape ``()``, its copies of
    no class; ``sigma``, shape ``()``, the noise as it was, in the type of the input.
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
    """Which class has the largest score on ``samples`` copies ``x + N(0, sigma^2 I)``.

    Parameters
    ----------
    scores : callable
        From one input to its scores, shape ``(classes,)``. The first of equal ones is the largest;
        where one is NaN the copy is spoiled.
    x : Array
        One input, of any shape; ``jax.vmap`` for many.
    sigma : float or Array
        In the units of ``x``.
    key : Array
        Typed key from ``jax.random.key``.
    samples, choosing : int
        Copies that are counted, and other ones that only choose.
    chunk : int
        Copies that are in memory at a time. The votes do not depend on it.

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
        noise = draws.normal(jax.random.fold_in(key, number), x.shape, x.dtype)
        found = scores(x + sigma * noise)
        return jnp.where(jnp.isnan(found).any(), classes, jnp.argmax(found))

    whole = chunk * math.ceil(copies / chunk)  # without a smaller last chunk, a program of its own
    called = jax.lax.map(vote, jnp.arange(whole, dtype=jnp.uint32), batch_size=chunk)
    chosen = jnp.argmax(jnp.bincount(called[:choosing], length=classes + 1)[:-1])
    counts = jnp.bincount(called[choosing:copies], length=classes + 1)
    return Votes(chosen, counts[:-1], counts[-1], sigma)


@dataclass(frozen=True)
class Certificate:
    """The class of an input, and a radius within which the vote of all noisy copies keeps it.

    Parameters
    ----------
    predicted : int or None
        None where it abstains: no class is certainly ahead.
    lower, upper : float
        At most the probability that a noisy copy gets the class, and at least that of each other.
    sigma : float
        Standard deviation of the noise, in the units of inputs.

    Formal guarantee
    ----------------
    With probability ``1 - failure`` over the votes, ``predicted`` is the most likely class of noisy
    copies of every input closer than ``radius``, and so than ``radius_by_epsilon``: two inputs at
    l2 distance ``r`` with noise are as hard to tell apart as ``N(0, 1)`` from ``N(r/sigma, 1)``, so
    a vote is ``r/sigma``-Gaussian DP. Its ``relation`` is none of :class:`privopt.Relation`, which
    are of data sets: it has a radius, and neither records nor samplers. The noise is taken to be
    exact; that of ``draws`` differs by rounding.

    Source: Lecuyer, Atlidakis, Geambasu, Hsu and Jana, "Certified robustness to adversarial
    examples with differential privacy", 2019, Proposition 1; Cohen, Rosenfeld and Kolter,
    "Certified adversarial robustness via randomized smoothing", 2019, Theorem 1. The latter bound
    one class at ``failure`` and put ``upper = 1 - lower``; we do of two classes, and of more bound
    each at ``failure/classes``.

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
        """What the votes on one input prove, with probability ``1 - failure``.

        Counts that are bounded are not those that chose, so one class is bounded from below and
        each other from above, by Clopper and Pearson.

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
        counts, chosen = np.asarray(votes.counts), int(votes.chosen)
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
        lower = float(lowers[chosen])
        upper = 1.0 - lower
        if counts.size > 2:
            upper = min(upper, float(np.delete(uppers, chosen).max()))
        return cls(chosen if lower > upper else None, lower, upper, sigma)

    @property
    def radius(self) -> float:
        """``sigma/2 (Phi^-1(lower) - Phi^-1(upper))``; 0 where it abstains.

        Of a class at ``r/sigma``-Gaussian DP, the probability falls to ``Phi(Phi^-1(lower) -
        r/sigma)`` at least, and that of another rises to ``Phi(Phi^-1(upper) + r/sigma)`` at most.
        """
        if self.predicted is None:
            return 0.0
        ends = float(ndtri(self.lower)), float(ndtri(self.upper))
        rounded = 2.0**-49 * (1.0 + abs(ends[0]) + abs(ends[1]))
        return self.sigma * max(0.0, 0.5 * (ends[0] - ends[1]) - rounded)

    @property
    def radius_by_epsilon(self) -> float:
        """The largest ``r`` of ``lower > e^(2 epsilon) upper + (1 + e^epsilon) delta``.

        For any one ``epsilon``, ``delta`` being that of the noise at sensitivity ``r``; every
        ``epsilon`` tried gives a true radius, and a search finds nearly the best. Never above
        ``radius``, which uses all of them together.
        """
        if self.predicted is None:
            return 0.0

        def of(epsilon: float) -> float:
            gap = self.lower - math.exp(2.0 * epsilon) * self.upper - 2.0**-48  # what it rounds
            return gaussian_mu(epsilon, max(0.0, gap / (1.0 + math.exp(epsilon))))

        most = 0.5 * (math.log(self.lower) - math.log(self.upper))
        found = minimize_scalar(
            lambda epsilon: -of(epsilon), bounds=(0.0, most), options={"xatol": 1e-3 * most}
        )
        return self.sigma * -float(found.fun)

    def at(self, radius: float) -> int | None:
        """The class, if no input within ``radius`` has another one for certain; else None.

        No certificate is at a radius of ``self.radius`` or beyond: it abstains.
        """
        if not real("radius", radius) >= 0.0:
            raise ValueError(f"radius must be non-negative, got {shown(radius)}")
        return self.predicted if radius < self.radius else None
