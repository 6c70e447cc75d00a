"""Base class of private models: from parameters and records to coefficients."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from jax import Array
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from privopt.arguments import instance, positive_integer, positive_number
from privopt.core import Algorithm, Plan, run
from privopt.core.running import check_problem
from privopt.estimators.recommended import planned
from privopt.estimators.spendable_key import SpendableKey
from privopt.estimators.unit_rows import UnitRows, features_of
from privopt.privacy import Guarantee
from privopt.problems import Problem
from privopt.spec import Budget, ProblemClass, Relation


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateModel(BaseEstimator):  # type: ignore[misc]
    """Linear model that is fitted privately; base class of the models of this package.

    Parameters
    ----------
    budget : Budget
        Privacy budget of one ``fit``. Required.
    data_norm : float
        Public bound on the Euclidean norm of every row of ``X``, never computed from the data;
        ``Table.norm`` is one. Longer rows are scaled down to it. Required.
    key : Array, optional
        Typed key of JAX, such as ``jax.random.key(0)``, from which the noise is drawn. By default
        it is drawn from the entropy of the operating system. Keep it secret: the key removes the
        noise.
    n : int, optional
        Public number of records by which sums are divided; default the number of rows. Required
        under ``add_or_remove_one``, where the number of rows is private.
    fit_intercept : bool
        If True, there is an intercept: a constant column, as long as ``data_norm``.
    radius : float, optional
        Public radius of the ball of parameters, in units in which rows, with the constant column,
        have norm at most 1. Default: ``default_radius`` of the class, which is 50 for classifiers,
        20 for ``LinearSVC`` and 10 for regressors, chosen by held-out accuracies on public sets at
        epsilon .1 to 10. A larger radius allows a closer fit and needs more noise.
    algorithm : str or Algorithm
        Name in ``ALGORITHMS``, or an algorithm. Default: ``preferred`` of the class, with at most
        300 steps; if ``delta = 0``, a pure method instead of ``dp_gd``.
    options : dict, optional
        Choices of the plan, such as ``{"steps": 200}``.

    Attributes
    ----------
    coef_, intercept_ : array
        Coefficients and intercept, in the units of ``X``.
    plan_ : Plan
        Plan of the last fit.
    guarantee_ : Guarantee
        Guarantee of the last fit alone: ``plan_.guarantee``.

    Notes
    -----
    **Data.** A row with a number that is missing or not finite makes its record null, as does a
    target that is missing. No error and no warning of ``fit`` depends on a value of the data; types
    of columns and, except under ``add_or_remove_one``, the number of rows are public. A table
    without rows is refused. The rows of a *prediction* are read as they are: they are not covered
    by the guarantee, and a row that is not finite raises ``ValueError``.

    **Keys.** The first fit uses ``key`` itself, with the same result each time. After it the model
    holds the child of the key (stream 1 of :func:`privopt.run`) for the next fit, and so on. Clones
    and copies of a model share the sequence, so the fits inside ``GridSearchCV``,
    ``OneVsRestClassifier`` or ``MultiOutputRegressor`` have independent noise. Every fit after the
    first one warns with the guarantee of all fits so far, as for the same data. Two models that are
    constructed from one JAX key share their noise: on different data their difference is **not
    private**.

    **Pickles.** No pickle contains a key. A fitted model from a pickle predicts, and needs a new
    ``key`` to be fitted again. A model that is pickled before its first fit draws a new key
    wherever it is unpickled, so worker processes (``n_jobs=2``) have independent noise, are not
    reproducible, and are not counted by the warning of the original.

    **scikit-learn.** Only ``fit`` of this model is private. See :mod:`privopt.estimators` for
    scaling, scores, cross-validation and ensembles.
    """

    default_radius: ClassVar[float]
    preferred: ClassVar[str]

    budget: Budget
    data_norm: float
    key: Array | SpendableKey | None = None
    n: int | None = None
    fit_intercept: bool = True
    radius: float | None = None
    algorithm: Algorithm | str = "recommended"
    options: Mapping[str, Any] | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to rows ``X`` of shape ``(records, columns)`` and targets ``y``."""
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
        check_problem(plan, problem)  # before a key is spent
        released = np.asarray(run(plan, problem, self._keys.take(plan)).released)
        self.coef_, self.intercept_ = self._in_units(*rows.coefficients(released))
        self.plan_: Plan = plan
        return self

    @property
    def guarantee_(self) -> Guarantee:
        """Guarantee of the last fit alone."""
        check_is_fitted(self)
        return self.plan_.guarantee

    @abstractmethod
    def _answers(self, y: Any) -> np.ndarray:
        """Return ``y`` in the form of the loss; NaN makes a record null."""

    @abstractmethod
    def _facts(self, n: int, columns: int) -> ProblemClass:
        """Return the class of the problem, for rows of norm at most 1."""

    @abstractmethod
    def _problem(self, features: Any, answers: np.ndarray, facts: ProblemClass) -> Problem:
        """Return the problem of unit rows."""

    @abstractmethod
    def _constant_risk(self) -> float:
        """Return an upper bound on the excess risk of the parameter 0."""

    def _in_units(self, coefficients: np.ndarray, intercept: Any) -> tuple[np.ndarray, Any]:
        """Return coefficients and intercept in the units of the targets."""
        return coefficients, intercept

    @property
    def _radius(self) -> float:
        radius = self.default_radius if self.radius is None else self.radius
        return positive_number("radius", radius)

    def _records(self, rows: int) -> int:
        """Return the public ``n``."""
        if self.n is not None:
            n = positive_integer("n", self.n)
            if self.budget.relation is not Relation.ADD_OR_REMOVE_ONE and n != rows:
                raise ValueError(
                    f"n must be the number of rows, {rows}, under {self.budget.relation}, got {n}"
                )
            return n
        if self.budget.relation is Relation.ADD_OR_REMOVE_ONE:
            raise ValueError(
                "n must be given under add_or_remove_one, where the number of rows is private: a "
                "public number to divide sums by, at least as large; got None"
            )
        return rows

    def _scores(self, X: Any) -> np.ndarray:
        """Return ``X w + b``, shape ``(records,)`` or ``(records, classes)``."""
        check_is_fitted(self)
        features = features_of(X)
        if not np.isfinite(features.data if scipy.sparse.issparse(X) else features).all():
            raise ValueError("X must be finite in a prediction, got NaN or infinity")
        validate_data(self, X, skip_check_array=True, reset=False)
        return np.asarray(features @ self.coef_.T + self.intercept_)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "key":
            self._keys = value if isinstance(value, SpendableKey) else SpendableKey(value)
            # scikit-learn requires that defaults, and numbers that it tries, are stored unchanged.
            value = value if value is None or isinstance(value, float) else self._keys
        super().__setattr__(name, value)

    def __sklearn_clone__(self) -> Self:
        clone = super().__sklearn_clone__()
        clone._keys = self._keys  # of None as well: a clone spends from the same sequence
        return clone

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "plan_")  # a refused fit sets other attributes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True  # allow_nan is False, since predictions refuse NaN
        tags.target_tags.required = True
        return tags


def _remark(plan: Plan, constant: float) -> None:
    """Warn if the bound is not below that of a public constant; it contains public numbers only."""
    bound = plan.rate.upper
    if math.isfinite(bound) and bound > constant:
        warnings.warn(
            f"the bound on the mean excess risk of {plan.algorithm.name} is {bound:.3g}, above "
            f"{constant:.3g}, the most that a public constant can have: nothing better is promised "
            "at this budget, radius, and number of records and steps",
            stacklevel=3,
        )
