"""Regressions: least squares, and a quantile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from privopt.arguments import positive_number, real, shown
from privopt.estimators.private_model import PrivateModel
from privopt.problems import Problem, quantile, squared
from privopt.records import as_array as numbers
from privopt.spec import ProblemClass

_EXTREME = 1e30  # of a bound: numbers of float32 hold what follows from it


@dataclass(kw_only=True, eq=False, repr=False)
class _Regressor(RegressorMixin, PrivateModel):  # type: ignore[misc]
    """Of answers between public bounds, which the loss sees as numbers from -1 to 1."""

    target_bounds: tuple[float, float]

    def predict(self, X: Any) -> np.ndarray:
        """``<x, w> + b`` of each row, clamped to the bounds of the answers."""
        return np.clip(self._scores(X), *self._bounds)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # of few records, at which its checks look
        return tags

    @property
    def _bounds(self) -> tuple[float, float]:
        if not (isinstance(self.target_bounds, tuple | list) and len(self.target_bounds) == 2):
            raise ValueError(
                f"target_bounds must be a pair of public numbers, got {shown(self.target_bounds)}"
            )
        lower, upper = (real("target_bounds", bound) for bound in self.target_bounds)
        if not -_EXTREME <= lower < upper <= _EXTREME:
            raise ValueError(
                "target_bounds must be finite, the lower first, and within 1e30 of 0, got "
                f"{shown(self.target_bounds)}"
            )
        return lower, upper

    def _answers(self, y: Any) -> np.ndarray:
        lower, upper = self._bounds
        found = np.asarray(numbers(y, "y"), np.float64)
        if found.ndim != 1:
            raise ValueError(f"y must have 1 axes, got shape {found.shape}")
        return 2.0 * (np.clip(found, lower, upper) - lower) / (upper - lower) - 1.0

    def _in_units(self, coefficients: np.ndarray, intercept: Any) -> tuple[np.ndarray, Any]:
        lower, upper = self._bounds
        half = (upper - lower) / 2.0
        return half * coefficients, half * intercept + (lower + upper) / 2.0


@dataclass(kw_only=True, eq=False, repr=False)
class LinearRegression(_Regressor):
    """Private least squares.

    The arguments are those of :class:`PrivateModel`, and ``target_bounds``: the public least and
    largest answer. Answers are clamped to them, and so are predictions.

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
    """Private regression of a quantile: ``level`` of the answers lie below the prediction.

    Its loss is rounded, which a perturbed objective needs; the plain one has noisy descent, of far
    larger error. At level 1/2 that moves the prediction little, and elsewhere towards the middle:
    of houses in California .14 lie below at level .1, and .86 at .9. A smaller width moves it less,
    for more noise.

    The arguments are those of :class:`LinearRegression`, ``level``, between 0 and 1, and ``width``,
    public: over what distance the kink is rounded, with 2 for that of ``target_bounds``.

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
