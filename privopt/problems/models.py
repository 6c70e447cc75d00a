"""Problems from arrays: one function for each loss.

``features`` have shape ``(records, dim)``: an array, a matrix of ``scipy.sparse``, or
:class:`privopt.convex.Features`. ``labels`` have shape ``(records,)``. ``options`` are the other
arguments of :class:`privopt.problems.Problem`: ``constraint``, ``counts``, ``name`` and so on.
Values are not checked, because an error about a value would release it; ``problem.check()`` reports
invalid values.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Unpack

import numpy as np
from jax.typing import ArrayLike

from privopt.arguments import instance, positive_number, real, shown
from privopt.convex import (
    Distance,
    FeaturesLike,
    GeneralisedLinear,
    Hinge,
    Huber,
    Linear,
    Logistic,
    Loss,
    Pytree,
    Quantile,
    ScalarLoss,
    Squared,
    SquaredDistance,
)
from privopt.problems.declaration import ProblemOptions, class_places
from privopt.problems.losses import Multinomial, RegularisedDistance
from privopt.problems.problem import Problem
from privopt.records import as_floats, public_values
from privopt.spec import ProblemClass

_SIGNS = (-1, 1)


def linear(
    features: FeaturesLike,
    labels: ArrayLike | None = None,
    *,
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Return the problem of the linear loss ``-y <x, w>``; labels default to 1.

    ``L = max |y| |x|``, ``H = 0``.
    """
    table = as_floats(features, "features", ndim=2)
    labels = np.ones(table.shape[0]) if labels is None else labels
    return _linear_model(Linear(), "linear", table, labels, problem_class, options)


def logistic(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    problem_class: ProblemClass,
    classes: Sequence[Hashable] = _SIGNS,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Return the problem of logistic regression, ``log(1 + exp(-y <x, w>))``.

    ``L = max |x|``, ``H = max |x|^2 / 4``. Labels are -1 and 1; 0 and 1, or False and True, mean
    -1 and 1. For other labels, ``classes`` lists the two in this order. They are public and are
    not read from the data. A record with any other label is null.

    Examples
    --------
    >>> facts = ProblemClass(n=2, dim=2, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> problem = logistic(np.eye(2), np.array([1.0, -1.0]), problem_class=facts)
    >>> round(problem.risk(np.zeros(2)), 4)
    0.6931
    """
    signs = _signed(labels, classes)
    return _linear_model(Logistic(), "logistic", features, signs, problem_class, options)


def hinge(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    problem_class: ProblemClass,
    width: float = 0.0,
    classes: Sequence[Hashable] = _SIGNS,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Return the problem of the hinge loss ``max(0, 1 - y <x, w>)``.

    ``L = max |x|``. A positive ``width`` rounds the kink, and ``H = max |x|^2 / width``. Labels and
    ``classes``: see :func:`logistic`.
    """
    loss, signs = Hinge(_width(width)), _signed(labels, classes)
    return _linear_model(loss, "hinge", features, signs, problem_class, options)


def absolute(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Return the problem of median regression, ``|<x, w> - y|``; ``L = max |x|``, not smooth."""
    return _linear_model(Huber(0.0), "absolute", features, labels, problem_class, options)


def quantile(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    problem_class: ProblemClass,
    level: float,
    width: float = 0.0,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Return the problem of quantile regression, ``max(level r, (level - 1) r)``.

    ``r = y - <x, w>`` and ``L = max(level, 1 - level) max |x|``. A positive ``width`` rounds the
    kink, and ``H = max |x|^2 / width``.
    """
    if not 0.0 < real("level", level) < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {shown(level)}")
    loss = Quantile(float(level), _width(width))
    return _linear_model(loss, "quantile", features, labels, problem_class, options)


def huber(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    problem_class: ProblemClass,
    width: float,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Return the problem of the Huber loss of ``r = <x, w> - y``, normalised to slope 1.

    The loss is ``r^2/(2 width)`` for ``|r| <= width`` and ``|r| - width/2`` for larger residuals.
    ``L = max |x|``, ``H = max |x|^2 / width``.
    """
    if not real("width", width) > 0.0:
        raise ValueError(f"width must be positive (use absolute for width 0), got {shown(width)}")
    return _linear_model(Huber(_width(width)), "huber", features, labels, problem_class, options)


def squared(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Return the problem of least squares, ``(<x, w> - y)^2 / 2``, on a bounded set.

    ``L = max |x| (R |x| + |y|)``, ``H = max |x|^2``.
    """
    return _linear_model(Squared(), "squared", features, labels, problem_class, options)


def multinomial(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    classes: Sequence[Hashable],
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Return the problem of softmax regression, ``log sum_k exp(<x, w_k>) - <x, w_y>``.

    ``classes`` are the labels in the order of the rows ``w_k``: ``range(10)``, ``(-1, 1)``,
    ``("no", "yes")``. They are public and are not read from the data. A record with any other label
    is null. The parameter is a matrix of shape ``(classes, features)``: ``problem_class.dim`` is
    the product, and norms and balls are Frobenius norms and balls. ``L = sqrt(2) max |x|``, ``H =
    max |x|^2 / 2``; see :class:`Multinomial`.
    """
    table, places = as_floats(features, "features", ndim=2), class_places(labels, classes)
    instance("problem_class", problem_class, ProblemClass)
    rows = len(classes)
    if rows * table.shape[1] != problem_class.dim:
        raise ValueError(
            f"features must have shape (records, dim / classes = {problem_class.dim} / {rows}), "
            f"got {table.shape}"
        )
    data = table, as_floats(places, "labels", ndim=1).astype(table.dtype)
    shape = rows, table.shape[1]
    return _problem(Multinomial(rows), data, "multinomial", problem_class, options, shape)


def distance(
    points: ArrayLike, *, problem_class: ProblemClass, **options: Unpack[ProblemOptions]
) -> Problem:
    """Return the problem of the distances ``|w - x|_2``; ``L = 1``, not smooth."""
    return _distance_model(Distance(), "distance", points, problem_class, options)


def regularised_distance(
    points: ArrayLike,
    *,
    modulus: float,
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Return the problem of the losses ``|w - x|_2 + (modulus/2) |w|_2^2``.

    ``L = 1 + modulus R``, ``m = modulus``, not smooth.
    """
    loss = RegularisedDistance(positive_number("modulus", modulus))
    return _distance_model(loss, "regularised_distance", points, problem_class, options)


def squared_distance(
    points: FeaturesLike,
    *,
    modulus: float = 1.0,
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Return the problem of the squared distances ``(modulus/2) |w - x|_2^2``.

    ``L = modulus (R + max |x|)``, ``H = m = modulus``. Sparse records stay sparse: no step has work
    of order records times ``dim``. The optimum is the projected mean, and an excess risk of ``1e-14
    |mean|^2`` can be measured.
    """
    loss = SquaredDistance(positive_number("modulus", modulus))
    return _distance_model(loss, "squared_distance", points, problem_class, options)


def _linear_model(
    scalar: ScalarLoss,
    name: str,
    features: FeaturesLike,
    labels: ArrayLike,
    problem_class: ProblemClass,
    options: ProblemOptions,
) -> Problem:
    table = as_floats(features, "features", ndim=2)
    targets = as_floats(labels, "labels", ndim=1).astype(table.dtype)
    if targets.shape[0] != table.shape[0]:
        raise ValueError(f"labels must have shape ({table.shape[0]},), got {targets.shape}")
    return _problem(GeneralisedLinear(scalar), (table, targets), name, problem_class, options)


def _distance_model(
    loss: Loss,
    name: str,
    points: FeaturesLike,
    problem_class: ProblemClass,
    options: ProblemOptions,
) -> Problem:
    data = as_floats(points, "points", ndim=2)
    dim = instance("problem_class", problem_class, ProblemClass).dim
    if data.shape[1] != dim:
        raise ValueError(f"points must have shape (records, dim = {dim}), got {data.shape}")
    return _problem(loss, data, name, problem_class, options)


def _problem(
    loss: Loss,
    data: Pytree,
    name: str,
    problem_class: ProblemClass,
    options: ProblemOptions,
    shape: tuple[int, ...] | None = None,
) -> Problem:
    arguments: ProblemOptions = {"name": name, **options}
    return Problem(loss=loss, data=data, problem_class=problem_class, shape=shape, **arguments)


def _signed(labels: ArrayLike, classes: Sequence[Hashable]) -> ArrayLike:
    """Map the two classes to -1 and 1 and other labels to NaN; ``_SIGNS`` are not mapped."""
    names = public_values("classes", classes, least=2)
    if names == _SIGNS:
        return labels
    if len(names) != 2:
        raise ValueError(f"classes must be two for this loss, got {len(names)}")
    places = class_places(labels, names)
    return np.where(places < 0.0, math.nan, 2.0 * places - 1.0)


def _width(width: float) -> float:
    if not 0.0 <= real("width", width) < math.inf:
        raise ValueError(f"width must be non-negative and finite, got {shown(width)}")
    return float(width)
