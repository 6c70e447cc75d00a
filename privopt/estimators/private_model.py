"""What every private model has in common: from arguments and records to coefficients."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from jax import Array
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from privopt.arguments import instance, positive_number, shown
from privopt.core import Algorithm, Plan, run
from privopt.estimators.recommended import planned
from privopt.estimators.secret import Secret
from privopt.estimators.unit_rows import UnitRows, features_of
from privopt.privacy import Guarantee
from privopt.problems import Problem
from privopt.spec import Budget, ProblemClass, Relation


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateModel(BaseEstimator):  # type: ignore[misc]
    """A linear model that is fitted privately; the models of this room are its kinds.

    Parameters
    ----------
    budget : Budget
        What one ``fit`` may spend. Required.
    data_norm : float
        A public bound on the Euclidean norm of every row of ``X``, never measured on the data;
        ``Table.norm`` is one. Longer rows are scaled down to it. Required.
    key : Array
        A key of JAX, such as ``jax.random.key(0)``, from which the noise comes. Required. Two fits
        with one key share their noise: on equal data they release the same, and on different data
        what both release together is **not private**. Who knows the key can take the noise off, so
        a model is printed without it, and pickled without it once fitted.
    n : int, optional
        The public number of records by which sums are divided; default the number of rows. Under
        ``add_or_remove_one`` the number of rows is private, so it must be given.
    fit_intercept : bool
        Whether there is an intercept: a constant column, as long as ``data_norm``.
    radius : float, optional
        Of the ball that holds the parameter, in units in which rows, with the constant column,
        have norm at most 1; public. Default: the class's ``default_radius``, 50 of classifiers, 20
        of ``LinearSVC`` and 10 of regressions, chosen by held-out accuracies on public sets at
        epsilon .1 to 10. A larger one lets the model follow the data closer, for more noise.
    algorithm : str or Algorithm
        One of ``ALGORITHMS``, or an algorithm of your own. By default the class's ``preferred``, of
        at most 300 steps; where ``delta = 0``, a pure method in the place of ``dp_gd``.
    options : dict, optional
        Choices for the plan, such as ``{"steps": 200}``.

    Attributes
    ----------
    coef_, intercept_ : array
        In the units of ``X``.
    plan_ : Plan
        What was run.
    guarantee_ : Guarantee
        Of all that ``fit`` leaves behind: ``plan_.guarantee``.

    Notes
    -----
    A row with a number that is missing or not finite makes its record null. No error and no
    warning depends on a value of the data; types and, but under ``add_or_remove_one``, the number
    of rows are public. A table without rows is refused. Predictions read ``X`` as it is.
    """

    default_radius: ClassVar[float]
    preferred: ClassVar[str]

    budget: Budget
    data_norm: float
    key: Array | Secret
    n: int | None = None
    fit_intercept: bool = True
    radius: float | None = None
    algorithm: Algorithm | str = "recommended"
    options: Mapping[str, Any] | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to rows ``X`` of shape ``(records, columns)`` and answers ``y``."""
        budget = instance("budget", self.budget, Budget)
        if y is None:
            raise ValueError(
                f"y must be given: {type(self).__name__} requires y to be passed, but the target y "
                "is None"
            )
        table, answers = features_of(X), self._answers(y)
        validate_data(self, X, skip_check_array=True)  # names and number of the columns
        rows = UnitRows(self.data_norm, self.fit_intercept)
        features = rows.of(table)
        if features.shape[0] != len(answers):
            raise ValueError(
                f"X and y must have equally many records, got {features.shape[0]} and "
                f"{len(answers)}"
            )
        facts = self._facts(self._records(features.shape[0]), features.shape[1])
        plan = planned(self.algorithm, self.options, facts, budget, self.preferred)
        _remark(plan, self._constant_risk())
        problem = self._problem(features, answers, replace(facts, n=features.shape[0]))
        key = self.key.key if isinstance(self.key, Secret) else self.key
        released = np.asarray(run(plan, problem, key).released)
        self.coef_, self.intercept_ = self._in_units(*rows.coefficients(released))
        self.plan_: Plan = plan
        return self

    @property
    def guarantee_(self) -> Guarantee:
        """Of the fitted model."""
        check_is_fitted(self)
        return self.plan_.guarantee

    @abstractmethod
    def _answers(self, y: Any) -> np.ndarray:
        """``y`` as the loss reads it; NaN, or no class, makes a record null."""

    @abstractmethod
    def _facts(self, n: int, columns: int) -> ProblemClass:
        """The class of the problem, for rows of norm at most 1."""

    @abstractmethod
    def _problem(self, features: Any, answers: np.ndarray, facts: ProblemClass) -> Problem:
        """The problem of unit rows."""

    @abstractmethod
    def _constant_risk(self) -> float:
        """The most that the risk of the parameter 0 can be above the least."""

    def _in_units(self, coefficients: np.ndarray, intercept: Any) -> tuple[np.ndarray, Any]:
        """Coefficients and intercept in the units of the answers."""
        return coefficients, intercept

    @property
    def _radius(self) -> float:
        given = self.default_radius if self.radius is None else self.radius
        return positive_number("radius", given)

    def _records(self, rows: int) -> int:
        """The public ``n``."""
        if self.n is not None:
            if self.budget.relation is not Relation.ADD_OR_REMOVE_ONE and self.n != rows:
                raise ValueError(
                    f"n must be the number of rows, {rows}, under {self.budget.relation}, got "
                    f"{shown(self.n)}"
                )
            return self.n
        if self.budget.relation is Relation.ADD_OR_REMOVE_ONE:
            raise ValueError(
                "n must be given under add_or_remove_one, where the number of rows is private: a "
                "public number to divide sums by, at least as large; got None"
            )
        return rows

    def _scores(self, X: Any) -> np.ndarray:
        """``X w + b``, shape ``(records,)`` or ``(records, classes)``."""
        check_is_fitted(self)
        features = features_of(X)
        validate_data(self, X, skip_check_array=True, reset=False)
        return np.asarray(features @ self.coef_.T + self.intercept_)

    def __setattr__(self, name: str, value: Any) -> None:
        secret = name == "key" and isinstance(value, Array)
        super().__setattr__(name, Secret(value) if secret else value)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "plan_")  # a refused fit leaves attributes as well

    def __getstate__(self) -> dict[str, Any]:
        """Without the key once there is something to take the noise off."""
        state: dict[str, Any] = super().__getstate__()
        return state | {"key": None} if "plan_" in state else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags


def _remark(plan: Plan, constant: float) -> None:
    """Say where nothing better than a public constant is promised; public numbers alone."""
    bound = plan.rate.upper
    if math.isfinite(bound) and bound > constant:
        warnings.warn(
            f"the bound on the mean excess risk of {plan.algorithm.name} is {bound:.3g}, above "
            f"{constant:.3g}, the most that a public constant can have: nothing better is promised "
            "at this budget, radius, and number of records and steps",
            stacklevel=3,
        )
