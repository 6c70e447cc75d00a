"""Base class of the private models."""

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

from privopt.algorithms import ALGORITHMS
from privopt.arguments import described, instance, member, positive_integer, positive_number
from privopt.core import Algorithm, Plan, run
from privopt.core.running import check_problem
from privopt.estimators.spendable_key import SpendableKey
from privopt.estimators.unit_rows import UnitRows, features_of
from privopt.privacy import Guarantee
from privopt.problems import Problem
from privopt.spec import Budget, ProblemClass, Relation, RelationName

_MAX_STEPS = 300  # limit of the default methods; more steps take minutes and change little
_PURE = {"dp_gd": "output_perturbation"}  # replacement of a default method if delta = 0


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateModel(BaseEstimator):  # type: ignore[misc]
    """Linear model that is fitted privately; base class of the models of this package.

    Parameters
    ----------
    budget : Budget, optional
        Privacy budget of one ``fit``.
    epsilon, delta, relation : optional
        Arguments of :class:`privopt.Budget`. All three are required if ``budget`` is omitted.
    data_norm : float
        Public bound on the Euclidean norm of the rows of ``X``, such as ``Table.norm``; it must
        not be computed from the data. Longer rows are scaled down to it. Required.
    key : Array, optional
        Typed key of JAX, such as ``jax.random.key(0)``, from which the noise is drawn. By default
        it is drawn from the entropy of the operating system. Keep it secret: the noise can be
        computed from it and removed.
    n : int, optional
        Public number of records by which sums are divided; default the number of rows. Required
        under ``add_or_remove_one``, where the number of rows is private.
    fit_intercept : bool
        If True, there is an intercept: a constant column with the value ``data_norm``.
    radius : float, optional
        Public radius of the ball of parameters, in units in which rows, with the constant column,
        have norm at most 1. Default: ``default_radius`` of the class, which is 50 for classifiers,
        20 for ``LinearSVC`` and 10 for regressors. These values were chosen by held-out accuracies
        on public data sets for epsilon from .1 to 10. A larger radius allows a closer fit and needs
        more noise.
    algorithm : str or Algorithm
        Name in ``ALGORITHMS``, or an algorithm. Default: ``preferred`` of the class, with at most
        300 steps; if ``delta = 0``, output perturbation instead of ``dp_gd``.
    options : dict, optional
        Arguments of the plan, such as ``{"steps": 200}``.

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
    **Data.** A row with a missing or infinite number makes its record null, as does a missing
    target. No error and no warning of ``fit`` depends on a value of the data. Types of columns are
    public, and so is the number of rows except under ``add_or_remove_one``. A table without rows is
    refused. The rows of a *prediction* are not covered by the guarantee, and a row that is not
    finite raises ``ValueError``.

    **Warning.** ``fit`` warns if the bound of the theorem is above the risk of a constant. The
    guarantee is not affected, and the model may still be accurate; measure the accuracy on public
    records.

    **Keys.** The first fit uses ``key`` itself, with the same result each time. After it the model
    holds the child of the key (stream 1 of :func:`privopt.run`) for the next fit, and so on. Clones
    and copies of a model share the sequence, so the fits inside ``GridSearchCV``,
    ``OneVsRestClassifier`` or ``MultiOutputRegressor`` have independent noise. Every fit after the
    first one warns with the guarantee of all fits so far, as for the same data. Two models that are
    constructed from one JAX key share their noise: on different data their difference is **not
    private**.

    **Pickles.** No pickle contains a key. An unpickled fitted model predicts, and needs a new
    ``key`` to be fitted again. A model that is pickled before its first fit draws a new key in
    every process. Worker processes (``n_jobs=2``) therefore have independent noise, are not
    reproducible, and are not counted by the warning of the original.

    **scikit-learn.** Only ``fit`` of this model is private. See :mod:`privopt.estimators` for
    scaling, scores, cross-validation and ensembles.
    """

    default_radius: ClassVar[float]
    preferred: ClassVar[str]

    budget: Budget | None = None
    epsilon: float | None = None
    delta: float | None = None
    relation: Relation | RelationName | None = None
    data_norm: float
    key: Array | SpendableKey | None = None
    n: int | None = None
    fit_intercept: bool = True
    radius: float | None = None
    algorithm: Algorithm | str = "recommended"
    options: Mapping[str, Any] | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to rows ``X`` of shape ``(records, columns)`` and targets ``y``."""
        budget = self._privacy_budget()
        if y is None:
            raise ValueError(
                f"y must be given: {type(self).__name__} requires y to be passed, but the target y "
                "is None"
            )
        table, targets = features_of(X), self._targets(y)
        validate_data(self, X, skip_check_array=True)  # names and number of the columns
        rows = UnitRows(self.data_norm, self.fit_intercept)
        features = rows.of(table)
        if features.shape[0] != len(targets):
            raise ValueError(
                f"X and y must have equally many records, got {features.shape[0]} and "
                f"{len(targets)}"
            )
        n = self._public_n(features.shape[0], budget.relation)
        facts = self._problem_class(n, features.shape[1])
        plan = self._plan(facts, budget)
        _warn_if_vacuous(plan, self._constant_risk())
        problem = self._problem(features, targets, replace(facts, n=features.shape[0]))
        check_problem(plan, problem)  # before a key is used
        released = np.asarray(run(plan, problem, self._keys.take(plan)).released)
        self.coef_, self.intercept_ = self._rescaled(*rows.coefficients(released))
        self.plan_: Plan = plan
        return self

    @property
    def guarantee_(self) -> Guarantee:
        """Guarantee of the last fit alone."""
        check_is_fitted(self)
        return self.plan_.guarantee

    @abstractmethod
    def _targets(self, y: Any) -> np.ndarray:
        """Return ``y`` as the labels of the loss; NaN makes a record null."""

    @abstractmethod
    def _problem_class(self, n: int, columns: int) -> ProblemClass:
        """Return the problem class for rows of norm at most 1."""

    @abstractmethod
    def _problem(self, features: Any, targets: np.ndarray, facts: ProblemClass) -> Problem:
        """Return the problem for rows of norm at most 1."""

    @abstractmethod
    def _constant_risk(self) -> float:
        """Return an upper bound on the excess risk of the parameter 0."""

    def _rescaled(self, coefficients: np.ndarray, intercept: Any) -> tuple[np.ndarray, Any]:
        """Return coefficients and intercept in the units of the targets."""
        return coefficients, intercept

    @property
    def _radius(self) -> float:
        radius = self.default_radius if self.radius is None else self.radius
        return positive_number("radius", radius)

    def _privacy_budget(self) -> Budget:
        parts = {"epsilon": self.epsilon, "delta": self.delta, "relation": self.relation}
        if self.budget is not None:
            for name, value in parts.items():
                if value is not None:
                    raise ValueError(f"{name} must be None if budget is given, got both")
            return instance("budget", self.budget, Budget)
        missing = [name for name, value in parts.items() if value is None]
        if missing:
            raise ValueError(
                "budget must be given, or epsilon, delta and relation, got None for budget and "
                f"{', '.join(missing)}"
            )
        return Budget(**parts)  # type: ignore[arg-type]

    def _public_n(self, rows: int, relation: Relation) -> int:
        """Return the public ``n``, which is private for ``add_or_remove_one`` unless given."""
        if self.n is not None:
            n = positive_integer("n", self.n)
            if relation is not Relation.ADD_OR_REMOVE_ONE and n != rows:
                raise ValueError(f"n must be the number of rows, {rows}, under {relation}, got {n}")
            return n
        if relation is Relation.ADD_OR_REMOVE_ONE:
            raise ValueError(
                "n must be given under add_or_remove_one, got None: the number of rows is private, "
                "and sums are divided by a public number that is at least as large"
            )
        return rows

    def _plan(self, problem_class: ProblemClass, budget: Budget) -> Plan:
        """Return the plan; the default methods have at most ``_MAX_STEPS`` steps."""
        if self.options is not None and not isinstance(self.options, Mapping):
            raise ValueError(
                f"options must be a dict of arguments of a plan, got {described(self.options)}"
            )
        options = dict(self.options or {})
        if isinstance(self.algorithm, Algorithm):
            return self.algorithm.plan(problem_class, budget, **options)
        member("algorithm", self.algorithm, ("recommended", *ALGORITHMS))
        if self.algorithm != "recommended":
            return ALGORITHMS[self.algorithm].plan(problem_class, budget, **options)
        pure = _PURE.get(self.preferred, self.preferred)
        algorithm = ALGORITHMS[pure if budget.delta == 0.0 else self.preferred]
        plan = algorithm.plan(problem_class, budget, **options)
        mechanism: Any = plan.params.mechanism
        if "steps" in options or getattr(mechanism, "steps", 0) <= _MAX_STEPS:
            return plan
        return algorithm.plan(problem_class, budget, **options, steps=_MAX_STEPS)

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
            # The checks of scikit-learn require that defaults and numbers are stored unchanged.
            value = value if value is None or isinstance(value, float) else self._keys
        super().__setattr__(name, value)

    def __sklearn_clone__(self) -> Self:
        clone = super().__sklearn_clone__()
        clone._keys = self._keys  # also for None: a clone uses the same sequence
        return clone

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "plan_")  # a fit that fails may set other attributes

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True  # allow_nan is False: predictions refuse NaN
        tags.target_tags.required = True
        return tags


def _warn_if_vacuous(plan: Plan, constant_risk: float) -> None:
    """Warn if the bound is above the risk of a constant; all numbers in it are public."""
    bound = plan.rate.upper
    if math.isfinite(bound) and bound > constant_risk:
        warnings.warn(
            f"the bound on the mean excess risk of {plan.algorithm.name}, {bound:.3g}, is above "
            f"that of a constant, {constant_risk:.3g}, so the theorem promises nothing at this "
            "size, but the model may still be good",
            stacklevel=3,
        )
