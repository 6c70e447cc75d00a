"""Norms of noise vectors: of all, of the largest entry, and of what is above a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtr, psi

from privopt.arguments import Names, positive_number
from privopt.theory.rate import Powers

__all__ = ["NoiseKind", "NoiseVector"]


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

    Parameters
    ----------
    kind : NoiseKind or its name
    scale : float
        ``sigma`` of Gaussian noise, ``b`` of Laplace noise.
    dim : int

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

    def beyond(self, threshold: float) -> float:
        """``sqrt(E |S_t(xi)|_2^2)``, ``S_t`` moving every entry towards 0 by ``t`` at most.

        With ``u = t/scale``: ``2 d sigma^2 ((1 + u^2) Q(u) - u phi(u))``, ``Q`` the upper tail of
        the normal law, or ``2 d b^2 exp(-u)``.

        Examples
        --------
        >>> round(NoiseVector("laplace", 1.0, 50).beyond(2.0), 3)
        3.679
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
