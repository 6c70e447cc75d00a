"""Norms of noise vectors: of all, of the largest entry, and of what is above a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.optimize import minimize_scalar
from scipy.special import ndtr, ndtri, psi

from privopt.arguments import Names, positive_number
from privopt.theory.rate import Powers


class NoiseKind(Names):
    """The law of each entry.

    ``gaussian``
        Normal of standard deviation ``scale``.
    ``laplace``
        Of density in proportion to ``exp(-|x|/scale)``.
    """

    GAUSSIAN = "gaussian"
    LAPLACE = "laplace"


@dataclass(frozen=True)
class NoiseVector:
    """``xi``: ``dim`` independent entries of one law.

    ``scale`` is ``sigma`` of Gaussian noise, ``b`` of Laplace noise.

    Examples
    --------
    >>> noise = NoiseVector("laplace", 0.5, 1000)
    >>> noise.square, round(noise.largest, 3)
    (500.0, 3.743)
    """

    kind: NoiseKind
    scale: float
    dim: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", NoiseKind.named("noise", self.kind))
        object.__setattr__(self, "scale", positive_number("scale", self.scale))

    @property
    def gaussian(self) -> bool:
        """Whether the entries are normal."""
        return self.kind is NoiseKind.GAUSSIAN

    @property
    def powers(self) -> Powers:
        """Exponents of the scale; that of Laplace noise moves with ``2 L sqrt(s)/n``."""
        return Powers(n=-1.0, epsilon=-1.0, sparsity=0.0 if self.gaussian else 0.5)

    @property
    def square(self) -> float:
        """``E |xi|_2^2``: ``d sigma^2``, or ``2 d b^2``."""
        return (1.0 if self.gaussian else 2.0) * self.dim * self.scale**2

    @property
    def largest(self) -> float:
        """``E |xi|_inf``: at most ``sigma sqrt(2 ln 2d)``; of Laplace noise it is ``b H_d``.

        ``H_d = 1 + 1/2 + ... + 1/d``, the mean largest of ``d`` exponentials. Of Gaussian noise
        ``exp(t E max) <= E sum exp(t |x_j|) <= 2 d exp(t^2 sigma^2/2)``.
        """
        if self.gaussian:
            return self.scale * math.sqrt(2.0 * math.log(2.0 * self.dim))
        return self.scale * _harmonic(self.dim)

    def largest_few(self, count: int) -> float:
        """At least ``E |xi|_(k)``, the norm of the ``k`` largest entries; Gaussian noise alone.

        ``|xi|_(k)^2 <= k t^2 + sum_j (xi_j^2 - t^2)_+`` for every ``t``; here the one that ``k`` of
        ``d`` entries exceed on average.
        """
        if count >= self.dim:
            return math.sqrt(self.square)
        u = -float(ndtri(0.5 * count / self.dim))
        above = 2.0 * (u * math.exp(-0.5 * u**2) / math.sqrt(2.0 * math.pi) + float(ndtr(-u)))
        return self.scale * math.sqrt(self.dim * above)

    def ball_threshold(self, radius: float) -> float:
        """At least ``E tau``, where ``S_tau(w + xi)`` is back in the ball that holds ``w``.

        ``p = S_tau(w + xi)``, ``tau`` the least such that ``|p|_2 <= R``, where ``|w|_2 <= R``::

            E tau <= t + A/(2 sqrt(d)) + A^2/(2 R)    for every t,  A^2 = E |S_t(xi)|^2,

        of order ``sigma sqrt(2 ln(d sigma/R))``. For where ``tau > 0``, ``|p|_2 = R`` and ``tau
        |p|_1 = <w + xi - p, p>``. With ``u = p - w``, ``<u, p> >= |u|^2/2``, and ``<xi, p> <= t
        |p|_1 + <S_t(xi), w> + <S_t(xi), u>``. So ``(tau - t) R`` is at most ``<S_t(xi), w> +
        |S_t(xi)|^2/2``; the first part is symmetric about 0, of variance ``|w|^2 A^2/d``. Gaussian
        noise alone.
        """
        root = 2.0 * math.sqrt(self.dim)

        def bound(threshold: float) -> float:
            above = self.beyond(threshold)
            return threshold + above / root + above**2 / (2.0 * radius)

        found = minimize_scalar(
            bound, bounds=(0.0, self.largest), method="bounded", options={"xatol": 1e-9}
        )
        return min(bound(float(found.x)), bound(0.0), self.largest)

    def beyond(self, threshold: float) -> float:
        """``sqrt(E |S_t(xi)|_2^2)``, ``S_t`` moving every entry towards 0 by ``t`` at most.

        With ``u = t/scale``: ``2 d sigma^2 ((1 + u^2) Q(u) - u phi(u))``, ``Q`` the upper tail of
        the normal law, or ``2 d b^2 exp(-u)``.
        """
        u = threshold / self.scale
        if self.gaussian:
            density = math.exp(-0.5 * u**2) / math.sqrt(2.0 * math.pi)
            share = max(0.0, (1.0 + u**2) * float(ndtr(-u)) - u * density)
        else:
            share = math.exp(-u)
        return self.scale * math.sqrt(2.0 * self.dim * share)

    def largest_quantile(self, failure: float) -> float:
        """``|xi|_inf`` exceeds it with probability at most ``failure``, by the union bound."""
        if self.gaussian:
            return self.scale * math.sqrt(2.0 * math.log(2.0 * self.dim / failure))
        return self.scale * math.log(self.dim / failure)


def _harmonic(count: int) -> float:
    return float(psi(count + 1.0) - psi(1.0))
