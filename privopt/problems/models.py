"""Problems from arrays: one function a loss of one prediction, or of one distance."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Unpack

import numpy as np
from jax.typing import ArrayLike

from privopt.arguments import instance, positive_number, real
from privopt.convex import (
    Distance,
    FeaturesLike,
    GeneralisedLinear,
    Hinge,
    Huber,
    Linear,
    Logistic,
    Loss,
    ScalarLoss,
    Squared,
    SquaredDistance,
)
from privopt.problems.declaration import ProblemOptions
from privopt.problems.distances import RegularisedDistance
from privopt.problems.problem import Problem
from privopt.problems.records import floating, labelled
from privopt.spec import ProblemClass

__all__ = [
    "absolute",
    "distance",
    "hinge",
    "huber",
    "linear",
    "logistic",
    "regularised_distance",
    "squared",
    "squared_distance",
]

_SIGNS = (-1, 1)


def linear(
    features: FeaturesLike,
    labels: ArrayLike | None = None,
    *,
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """``loss(w; (x, y)) = -y <x, w>``; ``L = max |y| |x|``, ``H = 0``. Labels default to 1.

    Here and below: ``features`` of shape ``(records, dim)``, an array, a matrix of ``scipy.sparse``
    or :class:`privopt.convex.Features`; ``labels`` of shape ``(records,)``; ``options`` are
    ``constraint``, ``counts`` and ``name`` of :class:`Problem`, errors are its
    errors: shapes and dtypes are refused, values never, since a message about them would release
    them. ``problem.check()`` tells of values that the loss is not declared for.

    Examples
    --------
    >>> facts = ProblemClass(n=2, dim=2, lipschitz=1.0, radius=1.0)
    >>> problem = linear(np.eye(2), np.array([1.0, -1.0]), problem_class=facts)
    >>> problem.risk(np.array([1.0, 0.0]))
    -0.5
    """
    table = floating(features, "features", ndim=2)
    labels = np.ones(table.shape[0]) if labels is None else labels
    return _generalised_linear(Linear(), table, labels, problem_class, options)


def logistic(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    problem_class: ProblemClass,
    classes: Sequence[Hashable] = _SIGNS,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """``log(1 + exp(-y <x, w>))``, labels -1 and 1; ``L = max |x|``, ``H = max |x|^2 / 4``.

    Labels 0 and 1, or False and True, are taken for -1 and 1. Where they are others, ``classes``
    are the two, in this order, public and not read off the data; a label that is neither makes its
    record a null one.

    Examples
    --------
    >>> facts = ProblemClass(n=2, dim=2, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> problem = logistic(np.eye(2), np.array([1.0, -1.0]), problem_class=facts)
    >>> round(problem.risk(np.zeros(2)), 4)
    0.6931
    """
    signs = _signed(labels, classes)
    return _generalised_linear(Logistic(), features, signs, problem_class, options)


def hinge(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    problem_class: ProblemClass,
    width: float = 0.0,
    classes: Sequence[Hashable] = _SIGNS,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """``max(0, 1 - y <x, w>)``, labels -1 and 1; ``L = max |x|``, ``H = max |x|^2 / width``.

    Labels are read as by :func:`logistic`.

    Examples
    --------
    >>> facts = ProblemClass(n=2, dim=2, lipschitz=1.0, radius=1.0)
    >>> problem = hinge(np.eye(2), np.array([1.0, -1.0]), problem_class=facts)
    >>> round(problem.risk(np.zeros(2)), 4)
    1.0
    """
    scalar = Hinge(_width(width))
    return _generalised_linear(scalar, features, _signed(labels, classes), problem_class, options)


def absolute(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """``|<x, w> - y|``, median regression; ``L = max |x|``, not smooth.

    Examples
    --------
    >>> facts = ProblemClass(n=2, dim=2, lipschitz=1.0, radius=1.0)
    >>> problem = absolute(np.eye(2), np.array([1.0, -1.0]), problem_class=facts)
    >>> round(problem.risk(np.zeros(2)), 4)
    1.0
    """
    options = {"name": "absolute", **options}
    return _generalised_linear(Huber(0.0), features, labels, problem_class, options)


def huber(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    problem_class: ProblemClass,
    width: float,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """``r^2/(2 width)`` for ``|r| <= width``, ``|r| - width/2`` beyond, ``r = <x, w> - y``.

    Normalised to slope 1: ``L = max |x|``, ``H = max |x|^2 / width``.

    Examples
    --------
    >>> facts = ProblemClass(n=2, dim=2, lipschitz=1.0, radius=1.0, smoothness=2.0)
    >>> problem = huber(np.eye(2), np.array([1.0, -1.0]), width=0.5, problem_class=facts)
    >>> round(problem.risk(np.zeros(2)), 4)
    0.75
    """
    if not real("width", width) > 0.0:
        raise ValueError(f"width must be positive (absolute is width 0), got {width!r}")
    return _generalised_linear(Huber(_width(width)), features, labels, problem_class, options)


def squared(
    features: FeaturesLike,
    labels: ArrayLike,
    *,
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """``(<x, w> - y)^2 / 2`` on a bounded set; ``L = max |x| (R |x| + |y|)``, ``H = max |x|^2``.

    Examples
    --------
    >>> facts = ProblemClass(n=2, dim=2, lipschitz=2.0, radius=1.0, smoothness=1.0)
    >>> problem = squared(np.eye(2), np.array([1.0, -1.0]), problem_class=facts)
    >>> round(problem.risk(np.zeros(2)), 4)
    0.5
    """
    return _generalised_linear(Squared(), features, labels, problem_class, options)


def distance(
    points: ArrayLike, *, problem_class: ProblemClass, **options: Unpack[ProblemOptions]
) -> Problem:
    """``|w - x|_2`` for records ``x`` of shape ``(records, dim)``; ``L = 1``, not smooth.

    Examples
    --------
    >>> facts = ProblemClass(n=2, dim=2, lipschitz=1.0, radius=1.0)
    >>> problem = distance(np.eye(2), problem_class=facts)
    >>> round(problem.risk(np.zeros(2)), 4)
    1.0
    """
    return _between(Distance(), points, problem_class, {"name": "distance", **options})


def regularised_distance(
    points: ArrayLike,
    *,
    modulus: float,
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """``|w - x|_2 + (modulus/2) |w|_2^2``; ``L = 1 + modulus R``, ``m = modulus``, not smooth.

    Examples
    --------
    >>> facts = ProblemClass(n=2, dim=2, lipschitz=1.5, radius=1.0)
    >>> problem = regularised_distance(np.eye(2), modulus=0.5, problem_class=facts)
    >>> round(problem.risk(np.zeros(2)), 4)
    1.0
    """
    loss = RegularisedDistance(_modulus(modulus))
    return _between(loss, points, problem_class, {"name": "regularised_distance", **options})


def squared_distance(
    points: FeaturesLike,
    *,
    modulus: float = 1.0,
    problem_class: ProblemClass,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """``(modulus/2) |w - x|_2^2``; ``L = modulus (R + max |x|)``, ``H = m = modulus``.

    Records without their zeros, a matrix of ``scipy.sparse`` or
    :class:`privopt.convex.Features`, stay so: no work is of order records times ``dim``. The
    optimum is the projection of their mean, and an excess risk of ``1e-14 |mean|^2`` is seen.

    Examples
    --------
    >>> facts = ProblemClass(n=2, dim=2, lipschitz=2.0, radius=1.0, smoothness=1.0)
    >>> problem = squared_distance(np.eye(2), problem_class=facts)
    >>> round(problem.risk(np.zeros(2)), 4)
    0.5
    """
    loss = SquaredDistance(_modulus(modulus))
    return _between(loss, points, problem_class, {"name": "squared_distance", **options})


def _between(
    loss: Loss, points: FeaturesLike, problem_class: ProblemClass, options: ProblemOptions
) -> Problem:
    data = floating(points, "points", ndim=2)
    instance("problem_class", problem_class, ProblemClass)
    if data.shape[1] != problem_class.dim:
        raise ValueError(
            f"points must have shape (records, dim = {problem_class.dim}), got {data.shape}"
        )
    return Problem(loss=loss, data=data, problem_class=problem_class, **options)


def _generalised_linear(
    scalar: ScalarLoss,
    features: FeaturesLike,
    labels: ArrayLike,
    problem_class: ProblemClass,
    options: ProblemOptions,
) -> Problem:
    table = floating(features, "features", ndim=2)
    data = table, floating(labels, "labels", ndim=1).astype(table.dtype)
    options = {"name": type(scalar).__name__.lower(), **options}
    loss = GeneralisedLinear(scalar)
    return Problem(loss=loss, data=data, problem_class=problem_class, **options)


def _signed(labels: ArrayLike, classes: Sequence[Hashable]) -> ArrayLike:
    """-1 and 1 for the two classes; as they are where no others are named."""
    if classes == _SIGNS:
        return labels
    places = labelled(labels, classes)
    if len(classes) != 2:
        raise ValueError(f"classes must be two for this loss, got {classes!r}")
    return np.where(places < 0.0, math.nan, 2.0 * places - 1.0)


def _modulus(modulus: float) -> float:
    return positive_number("modulus", modulus)


def _width(width: float) -> float:
    if not 0.0 <= real("width", width) < math.inf:
        raise ValueError(f"width must be non-negative and finite, got {width!r}")
    return float(width)
