"""Classifiers: logistic regression, linear support vector machine and softmax regression."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin

from privopt.arguments import shown
from privopt.estimators.private_model import PrivateModel
from privopt.problems import Problem, hinge, logistic, multinomial
from privopt.records import BOOLEANS, column_type, places_of, public_values
from privopt.spec import ProblemClass


@dataclass(kw_only=True, eq=False, repr=False)
class _Classifier(ClassifierMixin, PrivateModel):  # type: ignore[misc]
    """Classifier with public classes; a label that is not one of them makes its record null."""

    classes: Sequence[Hashable] | None = None

    def _targets(self, y: Any) -> np.ndarray:
        classes = self._classes_of(y)
        places = places_of(y, classes, "y")
        self.classes_ = np.array(classes)
        return np.where((places >= 0) & (places < len(classes)), places, math.nan)

    def _classes_of(self, y: Any) -> tuple[Hashable, ...]:
        """Return the public classes, in order; False and True for ``y`` of a boolean type."""
        if self.classes is None:
            if column_type(y) == BOOLEANS:
                return False, True
            raise ValueError(
                "classes must be given, as they are public and not read from y, such as (0, 1) or "
                "('no', 'yes'); got None, which is allowed for y of a boolean type only"
            )
        return public_values("classes", self.classes, least=2)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row; ``ValueError`` if a row is not finite."""
        scores = self.decision_function(X)
        places = np.argmax(scores, axis=1) if scores.ndim == 2 else (scores > 0.0).astype(int)
        return np.asarray(self.classes_[places])

    def decision_function(self, X: Any) -> np.ndarray:
        """Return ``<x, w> + b`` of each row; ``ValueError`` if a row is not finite.

        The score is positive for the second of two classes; for more there is one per class.
        """
        scores = self._scores(X)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # for the few records of its checks
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class _Binary(_Classifier):
    """Classifier with two classes; ``coef_`` has shape ``(1, columns)``."""

    def _classes_of(self, y: Any) -> tuple[Hashable, ...]:
        classes = super()._classes_of(y)
        if len(classes) != 2:
            raise ValueError(
                f"classes must be two for {type(self).__name__}, got {shown(classes)}. Only binary "
                "classification is supported; MultinomialRegression supports more classes"
            )
        return classes

    def _rescaled(self, coefficients: np.ndarray, intercept: Any) -> tuple[np.ndarray, Any]:
        return coefficients[None], np.atleast_1d(intercept)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class LogisticRegression(_Binary):
    """Private logistic regression for two public classes.

    Parameters
    ----------
    **parameters
        Parameters of :class:`PrivateModel`: ``budget`` (or ``epsilon``, ``delta`` and
        ``relation``), ``data_norm``, ``key``, ``radius``, ``n``, ``fit_intercept``, ``algorithm``
        and ``options``.
    classes : sequence, optional
        The two labels, the negative one first. They are public and never read from ``y``. They may
        be omitted if ``y`` is an array or a column of a boolean type.

    Examples
    --------
    >>> import jax, privopt
    >>> budget = privopt.Budget(epsilon=3.0, delta=1e-6, relation="replace_one")
    >>> model = LogisticRegression(
    ...     budget=budget, data_norm=1.0, key=jax.random.key(0), classes=("no", "yes")
    ... )
    >>> X = np.linspace(-1.0, 1.0, 5000)[:, None]
    >>> model.fit(X, np.where(X[:, 0] > 0.0, "yes", "no")).predict([[-0.8], [0.8]]).tolist()
    ['no', 'yes']
    """

    default_radius: ClassVar[float] = 50.0
    preferred: ClassVar[str] = "objective_perturbation"

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, shape ``(records, 2)``."""
        scores = self.decision_function(X)
        return np.asarray(expit(np.stack([-scores, scores], axis=1)))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of each probability."""
        scores = self.decision_function(X)
        return -np.logaddexp(0.0, np.stack([scores, -scores], axis=1))

    def _problem_class(self, n: int, columns: int) -> ProblemClass:
        return ProblemClass(n=n, dim=columns, lipschitz=1.0, smoothness=0.25, radius=self._radius)

    def _problem(self, features: Any, targets: np.ndarray, facts: ProblemClass) -> Problem:
        return logistic(features, 2.0 * targets - 1.0, problem_class=facts)

    def _constant_risk(self) -> float:
        return math.log(2.0)


@dataclass(kw_only=True, eq=False, repr=False)
class LinearSVC(_Binary):
    """Private linear support vector machine for two public classes.

    The loss is the smoothed hinge: 0 for margins ``m >= 1``, ``(1 - m)^2/2`` for ``0 <= m <= 1``,
    and ``1/2 - m`` for ``m <= 0``. Objective perturbation needs a smooth loss; noisy descent on the
    hinge loss has by default a larger error than a constant.

    Parameters
    ----------
    **parameters
        Parameters of :class:`LogisticRegression`.

    Examples
    --------
    >>> import jax
    >>> model = LinearSVC(
    ...     epsilon=3.0, delta=1e-6, relation="replace_one", data_norm=1.0, key=jax.random.key(0)
    ... )
    >>> X = np.linspace(-1.0, 1.0, 5000)[:, None]
    >>> model.fit(X, X[:, 0] > 0.0).predict([[-0.8], [0.8]]).tolist()
    [False, True]
    """

    default_radius: ClassVar[float] = 20.0
    preferred: ClassVar[str] = "objective_perturbation"

    def _problem_class(self, n: int, columns: int) -> ProblemClass:
        return ProblemClass(n=n, dim=columns, lipschitz=1.0, smoothness=1.0, radius=self._radius)

    def _problem(self, features: Any, targets: np.ndarray, facts: ProblemClass) -> Problem:
        return hinge(features, 2.0 * targets - 1.0, problem_class=facts, width=1.0)

    def _constant_risk(self) -> float:
        return 0.5


@dataclass(kw_only=True, eq=False, repr=False)
class MultinomialRegression(_Classifier):
    """Private softmax regression for any number of public classes.

    Parameters
    ----------
    **parameters
        Parameters of :class:`PrivateModel`: ``budget`` (or ``epsilon``, ``delta`` and
        ``relation``), ``data_norm``, ``key``, ``radius``, ``n``, ``fit_intercept``, ``algorithm``
        and ``options``.
    classes : sequence
        The labels, which are public and never read from ``y``.

    Examples
    --------
    >>> import jax, privopt
    >>> budget = privopt.Budget(epsilon=3.0, delta=1e-6, relation="replace_one")
    >>> model = MultinomialRegression(
    ...     budget=budget, data_norm=1.0, key=jax.random.key(0), classes=range(3),
    ...     radius=5.0, options={"steps": 50},
    ... )
    >>> X = np.eye(3)[np.arange(6000) % 3]
    >>> model.fit(X, np.arange(6000) % 3).predict(np.eye(3)).tolist()
    [0, 1, 2]
    """

    default_radius: ClassVar[float] = 50.0
    preferred: ClassVar[str] = "dp_gd"

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class, shape ``(records, classes)``."""
        return np.asarray(softmax(self._scores(X), axis=1))

    def _problem_class(self, n: int, columns: int) -> ProblemClass:
        return ProblemClass(
            n=n,
            dim=columns * len(self.classes_),
            lipschitz=math.sqrt(2.0),
            smoothness=0.5,
            radius=self._radius,
        )

    def _problem(self, features: Any, targets: np.ndarray, facts: ProblemClass) -> Problem:
        places = range(len(self.classes_))
        return multinomial(features, targets, classes=places, problem_class=facts)

    def _constant_risk(self) -> float:
        return math.log(len(self.classes_))
