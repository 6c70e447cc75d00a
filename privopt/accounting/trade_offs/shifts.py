"""Trade-off functions of noise and the same noise shifted, known in closed form.

Noise with a log-concave density gives ``f(alpha) = F(F^{-1}(1 - alpha) - mu)``, where ``F`` is its
distribution function. Such an ``f`` is its own inverse if the noise is symmetric, and shifting
``k`` times by ``mu`` is shifting once by ``k mu``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privopt.accounting.trade_offs.trade_off import TradeOff
from privopt.privacy.arguments import check_alpha, check_mu, real
from privopt.privacy.gaussian import gaussian_delta, gaussian_trade_off

__all__ = ["Gaussian", "Laplace", "Shift", "gaussian", "laplace"]

_U = 2.0**-53


@dataclass(frozen=True)
class Shift(TradeOff):
    """Symmetric log-concave noise against itself shifted by ``mu`` units of its scale."""

    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", check_mu(self.mu))

    def delta_reversed(self, epsilon: float) -> float:
        """The same as ``delta``."""
        return self.delta(epsilon)

    def inverse(self) -> Shift:
        """The function itself."""
        return self


@dataclass(frozen=True)
class Gaussian(Shift):
    """``G_mu = T(N(0, 1), N(mu, 1))``; made by ``gaussian``."""

    def __call__(self, alpha: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """``Phi(Phi^{-1}(1 - alpha) - mu)``."""
        return gaussian_trade_off(alpha, self.mu)

    def delta(self, epsilon: float) -> float:
        """``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``."""
        return gaussian_delta(epsilon, self.mu).upper


@dataclass(frozen=True)
class Laplace(Shift):
    """``T(Lap(0, 1), Lap(mu, 1))``; made by ``laplace``."""

    def __call__(self, alpha: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """``1 - e^mu alpha``, ``e^-mu / (4 alpha)`` or ``e^-mu (1 - alpha)``: least, middle, most.

        The pieces meet at ``alpha = e^-mu / 2`` and ``1 / 2``.
        """
        alpha = check_alpha(alpha)
        few = math.exp(-self.mu)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            grown = np.where(alpha > 0.0, np.exp(self.mu) * alpha, 0.0)
            steep = 1.0 - grown - 8 * _U * (1.0 + grown)
            middle = few / (4.0 * alpha)
        flat = few * (1.0 - alpha)
        curve = np.where(grown <= 0.5, steep, np.where(alpha <= 0.5, middle * (1.0 - 8 * _U), flat))
        curve = np.nextafter(curve * (1.0 - 8 * _U), -1.0)
        return np.where(alpha == 0.0, float(self.mu < math.inf), np.maximum(curve, 0.0))

    def delta(self, epsilon: float) -> float:
        """``1 - e^((epsilon - mu)/2)``; from ``mu`` on zero, below ``-mu`` ``1 - e^epsilon``."""
        epsilon = real("epsilon", epsilon)
        if math.isinf(self.mu):
            return 1.0
        if epsilon >= self.mu:
            return 0.0
        loss = epsilon if epsilon <= -self.mu else 0.5 * (epsilon - self.mu)
        return min(1.0, -math.expm1(loss) * (1.0 + 8 * _U))


def gaussian(mu: float) -> Gaussian:
    """``G_mu(alpha) = Phi(Phi^{-1}(1 - alpha) - mu)``.

    Parameters
    ----------
    mu : float
        In ``[0, inf]``: sensitivity over noise standard deviation.

    Raises
    ------
    ValueError
        If ``mu`` is NaN or negative.
    """
    return Gaussian(mu)


def laplace(mu: float) -> Laplace:
    """The trade-off function of a scalar query with Laplace noise.

    Parameters
    ----------
    mu : float
        In ``[0, inf]``: sensitivity over noise scale, so that the release is ``mu``-DP.

    Raises
    ------
    ValueError
        If ``mu`` is NaN or negative.
    """
    return Laplace(mu)
