"""Regressors: least squares and quantile regression."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from privopt.arguments import positive_number, real, shown
from privopt.estimators.private_model import PrivateModel
from privopt.problems import Problem, quantile, squared
from privopt.records import as_column
from privopt.spec import ProblemClass

_EXTREME = 1e30  # largest bound; all computed numbers are finite in float32


@dataclass(kw_only=True, eq=False, repr=False)
class _Regressor(RegressorMixin, PrivateModel):  # type: ignore[misc]
    """Regressor for targets between public bounds, which are mapped to [-1, 1] for the loss."""

    bounds_y: tuple[float, float]

    def predict(self, X: Any) -> np.ndarray:
        """Return ``<x, w> + b`` of each row, clipped to ``bounds_y``.

        A row that is not finite raises ``ValueError``.
        """
        return np.clip(self._scores(X), *self._bounds)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # for the few records of its checks
        return tags

    @property
    def _bounds(self) -> tuple[float, float]:
        bounds = self.bounds_y
        pair = isinstance(bounds, tuple | list) and len(bounds) == 2
        if not (pair and all(isinstance(bound, Real) for bound in bounds)):
            raise ValueError(f"bounds_y must be a pair of public numbers, got {shown(bounds)}")
        lower, upper = (real("bounds_y", bound) for bound in bounds)
        if not -_EXTREME <= lower < upper <= _EXTREME:
            raise ValueError(
                "bounds_y must be finite, the lower first, and at most 1e30 in size, got "
                f"{shown(self.bounds_y)}"
            )
        return lower, upper

    def _targets(self, y: Any) -> np.ndarray:
        lower, upper = self._bounds
        targets = np.clip(as_column(y, "y"), lower, upper)
        return 2.0 * (targets - lower) / (upper - lower) - 1.0

    def _rescaled(self, coefficients: np.ndarray, intercept: Any) -> tuple[np.ndarray, Any]:
        lower, upper = self._bounds
        half = (upper - lower) / 2.0
        return half * coefficients, half * intercept + (lower + upper) / 2.0


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegression(_Regressor):
    """Private least squares.

    Parameters
    ----------
    **parameters
        Parameters of :class:`PrivateModel`: ``budget`` (or ``epsilon``, ``delta`` and
        ``relation``), ``data_norm``, ``key``, ``radius``, ``n``, ``fit_intercept``, ``algorithm``
        and ``options``.
    bounds_y : tuple of float
        Public bounds of the targets, the lower one first. Targets and predictions are clipped to
        them.

    Examples
    --------
    >>> import jax, privopt
    >>> budget = privopt.Budget(epsilon=3.0, delta=1e-6, relation="replace_one")
    >>> model = LinearRegression(
    ...     budget=budget, data_norm=1.0, key=jax.random.key(0), bounds_y=(-10, 10)
    ... )
    >>> X = np.linspace(-1.0, 1.0, 5000)[:, None]
    >>> bool(model.fit(X, 6.0 * X[:, 0]).score(X, 6.0 * X[:, 0]) > 0.9)
    True
    """

    default_radius: ClassVar[float] = 10.0
    preferred: ClassVar[str] = "sufficient_statistics"

    def _problem_class(self, n: int, columns: int) -> ProblemClass:
        radius = self._radius
        return ProblemClass(n=n, dim=columns, lipschitz=radius + 1.0, smoothness=1.0, radius=radius)

    def _problem(self, features: Any, targets: np.ndarray, facts: ProblemClass) -> Problem:
        return squared(features, targets, problem_class=facts)

    def _constant_risk(self) -> float:
        return 0.5


@dataclass(kw_only=True, eq=False, repr=False)
class QuantileRegression(_Regressor):
    """Private quantile regression: a share ``quantile`` of the targets is below the prediction.

    The loss is smoothed, because objective perturbation needs a smooth loss; noisy descent on the
    unsmoothed loss has a much larger error. Smoothing shifts the predictions towards the median.
    For example, on house prices in California the share below the prediction is .14 for quantile .1
    and .86 for .9. For quantile 1/2 the effect is small. A smaller width reduces it and needs more
    noise.

    Parameters
    ----------
    **parameters
        Parameters of :class:`LinearRegression`.
    quantile : float
        Quantile, in (0, 1).
    width : float
        Public width of the interval in which the kink of the loss is smoothed, in units in which
        ``bounds_y`` are -1 and 1.

    Examples
    --------
    >>> import jax, privopt
    >>> budget = privopt.Budget(epsilon=3.0, delta=1e-6, relation="replace_one")
    >>> model = QuantileRegression(
    ...     quantile=0.5, budget=budget, data_norm=1.0, key=jax.random.key(0), bounds_y=(-10, 10)
    ... )
    >>> X = np.linspace(-1.0, 1.0, 5000)[:, None]
    >>> bool(model.fit(X, 6.0 * X[:, 0]).score(X, 6.0 * X[:, 0]) > 0.9)
    True
    """

    default_radius: ClassVar[float] = 10.0
    preferred: ClassVar[str] = "objective_perturbation"

    quantile: float = 0.5
    width: float = 0.1

    def _problem_class(self, n: int, columns: int) -> ProblemClass:
        slope, curvature = max(self._quantile, 1.0 - self._quantile), 1.0 / self._width
        return ProblemClass(
            n=n, dim=columns, lipschitz=slope, smoothness=curvature, radius=self._radius
        )

    def _problem(self, features: Any, targets: np.ndarray, facts: ProblemClass) -> Problem:
        return quantile(
            features, targets, level=self._quantile, width=self._width, problem_class=facts
        )

    @property
    def _width(self) -> float:
        return positive_number("width", self.width)

    def _constant_risk(self) -> float:
        return max(self._quantile, 1.0 - self._quantile)

    @property
    def _quantile(self) -> float:
        level = real("quantile", self.quantile)
        if not 0.0 < level < 1.0:
            raise ValueError(f"quantile must be between 0 and 1, got {shown(level)}")
        return level
