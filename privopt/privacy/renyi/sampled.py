"""Rényi divergences of a Gaussian release from a random sample, certified.

In units of the noise, one sampled record shifts the output by ``s``. Poisson sampling at rate
``q`` compares

    mixture and N(0, 1),     mixture = (1 - q) N(0, 1) + q N(s, 1)     (a record against nothing),
    mixture and its mirror image, of mean ``-q s``                     (a record replaced).

Both moments are integrals over the line, computed in ``quadrature``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from privopt.privacy.renyi.quadrature import (
    Method,
    half_line,
    mirrored,
    one_sided,
    upper_log_moments,
)

Array = npt.NDArray[np.float64]

_UP = 1.0 + 2.0**-51


@lru_cache(maxsize=512)
def poisson_gaussian(q: float, s: float, orders: tuple[float, ...], *, replace: bool) -> Array:
    """``D_alpha`` of the pair above, from above; read-only.

    Parameters
    ----------
    q : float
        Sampling rate, in ``[0, 1]``.
    s : float
        Shift over noise standard deviation, in ``[0, inf]``: the inverse noise multiplier.
    orders : tuple of float
        Above one.
    replace : bool
        Whether a record is replaced, or added, removed or zeroed out.

    Formal guarantee
    ----------------
    No Poisson-sampled Gaussian release has a larger Rényi divergence between neighbours, in
    either order; for a replaced record the mirrored pair dominates (``ReplacedGaussian``).
    Relative slack: 1e-8 in the worst case, where orders reach a million; 1e-12 below a hundred.

    Source: Mironov, Talwar and Zhang, "Rényi differential privacy of the sampled Gaussian
    mechanism", 2019 (arXiv:1908.10530), for the reduction to one dimension and the worse order
    of the first pair.
    """
    alphas = np.asarray(orders)
    whole = _whole((2.0 if replace else 1.0) * s, alphas)
    return _divergence(mirrored if replace else one_sided, q, s, alphas, whole)


@lru_cache(maxsize=512)
def fixed_size_gaussian(q: float, s: float, orders: tuple[float, ...]) -> Array:
    """``D_alpha`` of a Gaussian release from ``m = q n`` of ``n`` records, from above; read-only.

    ``s`` is the distance between the sums of *neighbouring* samples over the noise standard
    deviation: two over the noise multiplier.

    Formal guarantee
    ----------------
    Holds under ``replace_one``, samples without replacement. The hockey-stick curve of such a
    release is at most ``q H_g(N(s, 1), N(0, 1))`` at ``1 + q (g - 1)``, ``g >= 1``, in either order
    (Balle, Barthe and Gaboardi, "Privacy amplification by subsampling", NeurIPS 2018, Theorem 9),
    which for orders above one is the curve of ``r N(0, 1)`` against ``N(0, 1)``, with the ``r``
    above. A Rényi divergence integrates ``alpha (alpha - 1) gamma^(alpha - 2)`` times the curve;
    orders below one are reached by duality, so that with ``g_a(r) = r^a - 1 - a (r - 1)``

        moment <= 1 + E[(g_alpha(r) + g_(1 - alpha)(r)) 1{r > 1}] <= 1 + 2 E[g_alpha(r) 1{r > 1}]

    for ``N(0, 1)``. This holds at real orders, and is below the bound of Wang, Balle and
    Kasiviswanathan, "Subsampled Rényi differential privacy and analytical moments accountant",
    AISTATS 2019, by a factor up to four. The half-line is integrated by Gauss-Legendre panels
    whose error is bounded on Bernstein ellipses (Trefethen, "Approximation theory and
    approximation practice", Theorem 19.3).
    """
    alphas = np.asarray(orders)
    whole = _whole(s, alphas)
    divergence = np.minimum(_divergence(half_line, q, s, alphas, whole), whole)
    divergence.setflags(write=False)
    return divergence


def _divergence(method: Method, q: float, s: float, alphas: Array, whole: Array) -> Array:
    """By a quadrature between the rates at which there is none, or the ``whole``; read-only."""
    if q == 0.0 or s == 0.0:
        divergence = np.zeros_like(alphas)
    elif q == 1.0 or s > 1e6:
        divergence = whole
    else:
        divergence = upper_log_moments(method, q, s, alphas) * (_UP / (alphas - 1.0))
    divergence.setflags(write=False)
    return divergence


def _whole(s: float, alphas: Array) -> Array:
    """The divergence without sampling: a bound at any rate, as divergences are quasi-convex."""
    return alphas * (0.5 * s * s) * _UP
