"""Regressors: least squares, and a quantile."""

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

_EXTREME = 1e30  # largest bound: float32 can represent what is computed from it


@dataclass(kw_only=True, eq=False, repr=False)
class _Regressor(RegressorMixin, PrivateModel):  # type: ignore[misc]
    """Regressor of targets between public bounds, which are mapped to [-1, 1] for the loss."""

    target_bounds: tuple[float, float]

    def predict(self, X: Any) -> np.ndarray:
        """Return ``<x, w> + b`` of each row, clamped to the bounds of the targets.

        A row that is not finite raises ``ValueError``.
        """
        return np.clip(self._scores(X), *self._bounds)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # of few records, at which its checks look
        return tags

    @property
    def _bounds(self) -> tuple[float, float]:
        bounds = self.target_bounds
        pair = isinstance(bounds, tuple | list) and len(bounds) == 2
        if not (pair and all(isinstance(bound, Real) for bound in bounds)):
            raise ValueError(f"target_bounds must be a pair of public numbers, got {shown(bounds)}")
        lower, upper = (real("target_bounds", bound) for bound in bounds)
        if not -_EXTREME <= lower < upper <= _EXTREME:
            raise ValueError(
                "target_bounds must be finite, the lower first, and within 1e30 of 0, got "
                f"{shown(self.target_bounds)}"
            )
        return lower, upper

    def _answers(self, y: Any) -> np.ndarray:
        lower, upper = self._bounds
        targets = np.clip(as_column(y, "y"), lower, upper)
        return 2.0 * (targets - lower) / (upper - lower) - 1.0

    def _in_units(self, coefficients: np.ndarray, intercept: Any) -> tuple[np.ndarray, Any]:
        lower, upper = self._bounds
        half = (upper - lower) / 2.0
        return half * coefficients, half * intercept + (lower + upper) / 2.0


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegression(_Regressor):
    """Private least squares.

    The parameters are those of :class:`PrivateModel`, and ``target_bounds``: the public smallest
    and largest target. Targets and predictions are clamped to them.

    Examples
    --------
    >>> import jax, privopt
    >>> budget = privopt.Budget(epsilon=3.0, delta=1e-6, relation="replace_one")
    >>> model = LinearRegression(
    ...     budget=budget, data_norm=1.0, key=jax.random.key(0), target_bounds=(-10, 10)
    ... )
    >>> X = np.linspace(-1.0, 1.0, 5000)[:, None]
    >>> bool(model.fit(X, 6.0 * X[:, 0]).score(X, 6.0 * X[:, 0]) > 0.9)
    True
    """

    default_radius: ClassVar[float] = 10.0
    preferred: ClassVar[str] = "sufficient_statistics"

    def _facts(self, n: int, columns: int) -> ProblemClass:
        radius = self._radius
        return ProblemClass(n=n, dim=columns, lipschitz=radius + 1.0, smoothness=1.0, radius=radius)

    def _problem(self, features: Any, answers: np.ndarray, facts: ProblemClass) -> Problem:
        return squared(features, answers, problem_class=facts)

    def _constant_risk(self) -> float:
        return 0.5


@dataclass(kw_only=True, eq=False, repr=False)
class QuantileRegression(_Regressor):
    """Private quantile regression: a share ``level`` of the targets is below the prediction.

    The loss is smoothed, because objective perturbation needs a smooth loss; noisy descent on the
    plain loss has a much larger error. At level 1/2 smoothing changes the prediction little, and at
    other levels it moves it towards the median: of houses in California a share .14 is below at
    level .1, and .86 at .9. A smaller width reduces this effect and needs more noise.

    The parameters are those of :class:`LinearRegression`, ``level``, between 0 and 1, and the
    public ``width`` of the interval in which the kink is smoothed, in units in which
    ``target_bounds`` are -1 and 1.

    Examples
    --------
    >>> import jax, privopt
    >>> budget = privopt.Budget(epsilon=3.0, delta=1e-6, relation="replace_one")
    >>> model = QuantileRegression(
    ...     level=0.5, budget=budget, data_norm=1.0, key=jax.random.key(0), target_bounds=(-10, 10)
    ... )
    >>> X = np.linspace(-1.0, 1.0, 5000)[:, None]
    >>> bool(model.fit(X, 6.0 * X[:, 0]).score(X, 6.0 * X[:, 0]) > 0.9)
    True
    """

    default_radius: ClassVar[float] = 10.0
    preferred: ClassVar[str] = "objective_perturbation"

    level: float = 0.5
    width: float = 0.1

    def _facts(self, n: int, columns: int) -> ProblemClass:
        slope, curvature = max(self._level, 1.0 - self._level), 1.0 / self._width
        return ProblemClass(
            n=n, dim=columns, lipschitz=slope, smoothness=curvature, radius=self._radius
        )

    def _problem(self, features: Any, answers: np.ndarray, facts: ProblemClass) -> Problem:
        return quantile(
            features, answers, level=self._level, width=self._width, problem_class=facts
        )

    @property
    def _width(self) -> float:
        return positive_number("width", self.width)

    def _constant_risk(self) -> float:
        return max(self._level, 1.0 - self._level)

    @property
    def _level(self) -> float:
        level = real("level", self.level)
        if not 0.0 < level < 1.0:
            raise ValueError(f"level must lie between 0 and 1, got {shown(level)}")
        return level
