"""Descent over several passes with correlated noise: its risk on quadratic losses.

``w_{t+1} = w_t - eta_t (grad f_t(w_t) + sigma z_t)`` for ``t = 1..T``, where ``f_t`` is the mean
loss of batch ``t mod k`` and the noise ``z = D xi`` consists of the increments of ``B xi``. Proof:
:ref:`Regret, Theorem 3 <theory-regret-3>`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.signal import fftconvolve

from privopt.arguments import checked, count
from privopt.spec import ProblemClass
from privopt.theory.steps import batch_moments

_Floats = npt.NDArray[np.float64]

_FLATTEST, _VALUES = 1e-4, 48  # least eigenvalue relative to H, and number of eigenvalues


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
