"""Descent over several passes with correlated noise: bounds of its empirical risk.

``w_{t+1} = Proj(w_t - eta_t (grad f_t(w_t) + sigma z_t))`` for ``t = 1..T``, where ``f_t`` is the
mean loss of batch ``t mod k`` and the noise ``z = D xi`` consists of the increments of ``B xi``.
Proofs: :ref:`Regret, Theorems 3 <theory-regret-3>` and :ref:`4 <theory-regret-4>`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.signal import fftconvolve

from privopt.arguments import checked, count
from privopt.spec import ProblemClass
from privopt.theory.rate import (
    FIXED,
    Exponents,
    Quantity,
    Rate,
    Term,
    largest_excess,
    no_rate_if,
    unmet_assumptions,
)
from privopt.theory.steps import batch_moments

_Floats = npt.NDArray[np.float64]

_FLATTEST, _VALUES = 1e-4, 48  # least eigenvalue relative to H, and number of eigenvalues
_WEIGHTS = np.geomspace(0.01, 10.0, 31)  # of the inequality for sampling


class Gains(NamedTuple):
    """Largest contributions to the last iterate over the eigenvalues, for ``H = 1``.

    Attributes
    ----------
    start, noise, sampling : float
        Maxima of ``h a(h)^2``, ``h v(h)`` and ``h p(h)`` over eigenvalues ``h`` of the Hessian:
        the decay ``a`` of the start, the variance ``v`` of unit noise, and the variance ``p`` of
        unit deviations of the batch gradients from their mean.
    """

    start: float
    noise: float
    sampling: float

    def risk(
        self, problem_class: ProblemClass, *, noise_std: float, batch_size: float
    ) -> QuadraticRisk:
        """Return the bound for ``sigma`` and batches of ``b`` records in a random order."""
        facts, curvature = problem_class, problem_class.smoothness
        if not curvature:
            raise ValueError(f"smoothness must be declared and positive, got {curvature}")
        moments = batch_moments("without_replacement", n=facts.n, batch_size=batch_size)
        assert moments is not None
        spread = moments.variance * facts.lipschitz**2 if moments.variance > 0.0 else 0.0
        return QuadraticRisk(
            start=0.5 * curvature * facts.radius**2 * self.start,
            noise=0.5 * facts.dim * noise_std**2 / curvature * self.noise,
            sampling=0.5 * spread / curvature * self.sampling,
        )


class QuadraticRisk(NamedTuple):
    """Parts of a bound on the excess risk of the last iterate on quadratic losses."""

    start: float
    noise: float
    sampling: float

    @property
    def total(self) -> float:
        """The bound, the sum of its parts."""
        return math.fsum(self)


@checked
def quadratic_gains(
    sizes: _Floats, increments: _Floats, *, batches: int, modulus: float = 0.0
) -> Gains:
    """Return the gains of steps ``sizes``, in units of ``1/H``, over passes of ``batches`` steps.

    For quadratic losses whose Hessian is the same for all records, a minimiser within ``R`` of the
    start, and no constraint, the last iterate has::

        E F(w) - F* <= H R^2 max h a^2/2 + d sigma^2 max h v/(2 H) + V max h p/(2 H)

    with the variance ``V`` of a batch gradient at the minimiser. The maxima are over 48 eigenvalues
    from ``1e-4`` or ``m/H`` to 1, in units of ``H``; between them they differ by less than 2 %.
    Each part is attained by a Hessian with one eigenvalue.

    Parameters
    ----------
    sizes : array
        ``H eta_1 .. H eta_T``, at most 1.
    increments : array
        ``D``, of shape ``(T, columns)``, or the coefficients of a Toeplitz ``D = C^-1``.
    batches : int
        ``k``, the number of batches of a pass, which divides ``T``.
    modulus : float
        Strong convexity relative to ``H``.

    Examples
    --------
    >>> gains = quadratic_gains(np.full(50, 0.5), np.ones(1), batches=1)
    >>> [round(value, 4) for value in gains]
    [0.0073, 0.3333, 0.0]
    """
    steps = len(sizes)
    passes, rest = divmod(steps, count("batches", batches))
    if rest:
        raise ValueError(f"batches must divide the number of steps {steps}, got {batches}")
    eigenvalues = np.geomspace(min(1.0, max(_FLATTEST, modulus)), 1.0, _VALUES)
    factors = 1.0 - np.multiply.outer(sizes, eigenvalues)
    later = np.cumprod(factors[:0:-1], axis=0)[::-1]  # products over the steps after t
    responses = sizes[:, None] * np.vstack([later, np.ones((1, _VALUES))])
    if increments.ndim == 1:
        reversed_time = fftconvolve(responses[::-1], increments[:steps, None], axes=0)[:steps]
        variance = np.square(reversed_time).sum(axis=0)
    else:
        variance = np.square(increments.T @ responses).sum(axis=0)
    of_batch = responses.reshape(passes, batches, _VALUES).sum(axis=0)
    deviations = np.square(of_batch - of_batch.mean(axis=0)).sum(axis=0)
    start = np.square(np.prod(factors, axis=0))
    return Gains(
        *(
            float((eigenvalues * each).max())
            for each in (start, variance, deviations * batches / max(1, batches - 1))
        )
    )


class PrefixVariance(NamedTuple):
    """Mean variances of the noisy prefix sums, split as in :class:`privopt.theory.PrefixError`.

    Attributes
    ----------
    remainder, increment : float
        Means over ``t`` of the variances of ``Y_t`` and of ``X_t - X_{t-1}``, for ``sigma = 1``.
    """

    remainder: float
    increment: float = 0.0

    @classmethod
    def of_toeplitz(cls, decoded: _Floats) -> PrefixVariance:
        """Return the split ``X_t = alpha (xi_1 + .. + xi_t)`` for the coefficients ``b`` of ``B``.

        The sum of ``increment`` and twice ``remainder`` is least.
        """
        shares = 1.0 - np.arange(len(decoded)) / len(decoded)
        alpha = 2.0 * float(shares @ decoded) / (1.0 + 2.0 * float(shares.sum()))
        return cls(float(shares @ (decoded - alpha) ** 2), alpha**2)


@checked
def passes_rate(
    problem_class: ProblemClass,
    *,
    epochs: int,
    batch_size: int,
    step_size: float,
    noise_std: float,
    variance: PrefixVariance,
    clipped: bool = False,
    plain: bool = True,
) -> Rate:
    """Return the empirical risk of the average of ``w_2..w_{T+1}`` after ``E`` passes.

    Convex, ``L``-Lipschitz losses that are ``H``-smooth everywhere, a constant step ``eta`` with
    ``s = eta H < 1``, and ``k`` batches of ``b`` records in one random order, the last of ``c b``.
    For every weight ``a > 0`` with ``s (1 + a) < 1``::

        c (E F(w) - F*) <= R^2/(2 eta T) + (eta/2) d sigma^2 (x^2 + y^2 (1 - s a)/(1 - s - s a))
                           + (eta/2) (1 + 1/a) V + eta L^2 (2 E - 1) (n^2 - q)/(b^2 n k)

    with the mean variances ``x^2`` and ``y^2`` of :class:`PrefixVariance`, the mean variance ``V``
    of a batch gradient at the minimiser, at most ``L^2/b``, and the sum ``q`` of the squared batch
    sizes. The last term is for records that are seen again. Proof: :ref:`Regret, Theorem 4
    <theory-regret-4>`, derived here.

    Parameters
    ----------
    problem_class : ProblemClass
        Public facts.
    epochs, batch_size : int
        ``E`` and ``b``.
    step_size, noise_std : float
        ``eta`` and ``sigma``.
    variance : PrefixVariance
        Mean variances of the prefix sums.
    clipped, plain : bool
        See :func:`privopt.theory.descent_rate`.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=4, lipschitz=1.0, radius=1.0, smoothness=0.5)
    >>> rate = passes_rate(facts, epochs=8, batch_size=250, step_size=1.0, noise_std=0.01,
    ...                    variance=PrefixVariance(1.5))
    >>> round(rate.upper, 4), [term.name for term in rate.terms]
    (0.0656, ['noise', 'sampling', 'reuse', 'start'])
    """
    facts, eta = problem_class, step_size
    curvature = eta * (facts.smoothness or 0.0)
    reasons = {
        "smoothness is not declared": facts.smoothness is None,
        "the steps are not below 1/smoothness": not curvature * (1.0 + _WEIGHTS[0]) < 1.0,
        **unmet_assumptions(facts, clipped=clipped, plain=plain),
    }
    refusal = no_rate_if(reasons)
    if refusal is not None:
        return refusal
    batches = -(-facts.n // batch_size)
    sizes = np.full(batches, float(batch_size))
    sizes[-1] = facts.n - (batches - 1) * batch_size
    shares = sizes / batch_size
    spread = float(np.mean(shares * (facts.n - sizes) / max(facts.n - 1, 1) / batch_size))
    spread = facts.lipschitz**2 * (spread + (1.0 - shares[-1]) ** 2 / batches)
    weights = _WEIGHTS[curvature * (1.0 + _WEIGHTS) < 1.0] if spread > 0.0 else np.zeros(1)
    growth = (1.0 - curvature * weights) / (1.0 - curvature - curvature * weights)
    noise = facts.dim * noise_std**2 * (variance.increment + variance.remainder * growth)
    sampling = (1.0 + 1.0 / weights) * spread if spread > 0.0 else np.zeros(1)
    best = int(np.argmin(noise + sampling))
    pairs = facts.n**2 - float(sizes @ sizes)
    reuse = facts.lipschitz**2 * (2 * epochs - 1) * pairs / (batch_size**2 * facts.n * batches)
    by_sampling = Exponents(n=-1.0)
    terms = [
        Term("noise", 0.5 * eta * float(noise[best]), Exponents(n=-2.0, dim=1.0, epsilon=-2.0)),
        Term("sampling", 0.5 * eta * float(sampling[best]), by_sampling),
        Term("reuse", eta * reuse, by_sampling),
        Term("start", facts.radius**2 / (2.0 * eta * batches * epochs), FIXED),
    ]
    return Rate(
        quantity=Quantity.EMPIRICAL_RISK,
        theorem="E F(w) - F* <= R^2/(2 eta T) + (eta/2) d sigma^2 (x^2 + y^2 (1 - s a)/(1 - s - s "
        "a)) + (eta/2) (1 + 1/a) V + eta L^2 (2 E - 1)/b, s = eta H",
        source="derived here, with the stability of Hardt, Recht and Singer 2016 "
        "(arXiv:1509.01240)",
        terms=tuple(term.times(1.0 / shares[-1]) for term in terms if term.value > 0.0),
        cap=largest_excess(facts),
        regime="noise leading, at fixed passes, batches and step sizes",
    )
