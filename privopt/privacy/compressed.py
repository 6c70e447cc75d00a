"""Noise on random measurements of a vector: four calibrations, the loosest as it was published."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import chdtri, gammaincc

from privopt.arguments import count, instance, member
from privopt.privacy.calibration import calibrate
from privopt.privacy.events import CompressedGaussianDpEvent
from privopt.privacy.gaussian import gaussian_mu
from privopt.privacy.guarantee import Guarantee
from privopt.spec import Budget

__all__ = ["CALIBRATIONS", "compressed_noise_multiplier"]

CALIBRATIONS = ("mixture", "renyi", "split", "published")

_ROUNDING = 1e-9  # relative, of quantiles and of what follows from them
_SHARES = np.geomspace(1e-3, 0.999, 200)


def compressed_noise_multiplier(
    budget: Budget, measurements: int, calibration: str = "mixture"
) -> float:
    """A noise multiplier with which ``CompressedGaussianDpEvent`` meets ``budget``.

    With ``m`` measurements, ``k`` contributions of a record (``budget.relation.multiple``) and
    ``kappa(delta)`` the exact Gaussian multiplier at ``budget.epsilon``:

    ``"mixture"``
        The smallest: by the whole law of the distance.
    ``"renyi"``
        By its divergences, which compose over calls with fresh matrices.
    ``"split"``
        ``k sqrt(x / m) kappa(delta - t)`` where ``P(chi^2_m > x) = t``: with probability ``t`` the
        measurements are too long, and everything may be told. The best of 200 public ``t``.
    ``"published"``
        ``k (3/2) sqrt(2 ln(2.5 / delta)) / epsilon``: the classical Gaussian mechanism at
        ``delta / 2``, measurements at most 3/2 as long as the vector. Its proof holds if
        ``epsilon <= 1`` and ``P(chi^2_m > 2.25 m) <= delta / 2``, for which
        ``m >= 4.56 ln(2 / delta)`` suffices. At fewer measurements the exact law decides.

    No calibration depends on the sparsity or the dimension: the difference of two neighbours is
    fixed before the matrix is drawn, and no uniform isometry is needed.

    Parameters
    ----------
    budget : Budget
        With ``delta > 0``.
    measurements : int
        Rows of the matrix, at least one.
    calibration : str
        One of the four.

    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi, "Differentially private optimization with
    sparse gradients", NeurIPS 2024 (arXiv:2404.10881), for the published one; the others are
    derived here.

    Raises
    ------
    ValueError
        If an argument is out of its range; and for the published multiplier if
        ``budget.epsilon > 1``, or where it is not private, which the message quantifies.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="zero_out")
    >>> [round(compressed_noise_multiplier(budget, 100, each), 2) for each in CALIBRATIONS]
    [4.39, 4.77, 5.87, 8.14]
    """
    instance("budget", budget, Budget)
    count("measurements", measurements)
    member("calibration", calibration, CALIBRATIONS)
    if budget.delta == 0.0:
        raise ValueError(f"delta must be positive for Gaussian noise, got {budget.delta!r}")
    if calibration == "split":
        return _split(budget, measurements)
    if calibration == "published":
        return _published(budget, measurements)
    accountant = "renyi" if calibration == "renyi" else None
    return calibrate(
        lambda noise: CompressedGaussianDpEvent(noise, measurements), budget, accountant=accountant
    )


def _split(budget: Budget, measurements: int) -> float:
    """The least over ``t`` of a quantile that has been checked, times ``kappa(delta - t)``."""
    best = math.inf
    for too_long in (budget.delta * _SHARES).tolist():
        x = float(chdtri(measurements, too_long))
        while gammaincc(0.5 * measurements, 0.5 * x) * (1.0 + _ROUNDING) > too_long:
            x *= 1.0 + _ROUNDING
        mu = gaussian_mu(budget.epsilon, (budget.delta - too_long) * (1.0 - _ROUNDING))
        best = min(best, math.sqrt(x / measurements) / mu)
    return budget.relation.multiple * best * (1.0 + _ROUNDING)


def _published(budget: Budget, measurements: int) -> float:
    if budget.epsilon > 1.0:
        raise ValueError(
            "epsilon must be at most 1 for the published multiplier, whose classical Gaussian "
            f"mechanism is proved there alone, got {budget.epsilon!r}"
        )
    classical = math.sqrt(2.0 * math.log(2.5 / budget.delta)) / budget.epsilon
    noise = 1.5 * budget.relation.multiple * classical * (1.0 + _ROUNDING)
    event = CompressedGaussianDpEvent(noise, measurements)
    spent = Guarantee(event, budget.relation).delta(budget.epsilon)
    if spent.upper > budget.delta:
        raise ValueError(
            f"measurements must be more for the published multiplier {noise:.6g}, which is private "
            f"at delta = {spent.upper:.3g} and not at {budget.delta!r}, got {measurements!r}"
        )
    return noise
