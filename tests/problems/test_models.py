"""Problems from arrays: the loss each name stands for, its dtype, and what is refused."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from privopt import problems
from privopt.spec import ProblemClass

CLASS = ProblemClass(n=4, dim=2, lipschitz=3.0, radius=1.0)
FEATURES = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 0.5]])
SIGNS = np.array([1.0, -1.0, -1.0, 1.0])
POINT = np.array([0.4, -0.3])
MARGIN, RESIDUAL = SIGNS * (FEATURES @ POINT), np.abs(FEATURES @ POINT - SIGNS)
EXPECTED = {
    "linear": ({}, -MARGIN),
    "logistic": ({}, np.log1p(np.exp(-MARGIN))),
    "hinge": ({}, np.maximum(0.0, 1.0 - MARGIN)),
    "absolute": ({}, RESIDUAL),
    "huber": ({"width": 0.5}, np.where(RESIDUAL > 0.5, RESIDUAL - 0.25, RESIDUAL**2)),
    "squared": ({}, RESIDUAL**2 / 2.0),
}


def test_hinge_takes_a_width_and_distance_no_labels():
    smooth = problems.hinge(FEATURES, SIGNS, problem_class=CLASS, width=10.0)
    violation = np.maximum(0.0, 1.0 - MARGIN)
    assert smooth.risk(POINT) == pytest.approx(np.mean(violation**2 / 20.0))
    distance = problems.distance(FEATURES, problem_class=CLASS)
    assert distance.risk(POINT) == pytest.approx(np.linalg.norm(POINT - FEATURES, axis=1).mean())
    assert distance.name == "distance"


def test_labels_of_a_linear_loss_default_to_one():
    problem = problems.linear(FEATURES, problem_class=CLASS)
    assert problem.risk(POINT) == pytest.approx(-np.mean(FEATURES @ POINT))


@pytest.mark.parametrize("name", [*EXPECTED, "distance"])
def test_dtype_follows_the_features_and_integers_become_floating(name):
    options, _ = EXPECTED.get(name, ({}, None))
    for features, dtype in (
        (FEATURES.astype(np.float32), jnp.float32),
        (FEATURES, jnp.float64),
        (np.eye(4, 2, dtype=int), jnp.float64),
        ([[1, 0], [0, 1], [1, 1], [1, 0]], jnp.float64),
    ):
        labels = [] if name == "distance" else [SIGNS.astype(int)]
        problem = getattr(problems, name)(features, *labels, problem_class=CLASS, **options)
        assert problem.objective.dtype == dtype


@pytest.mark.parametrize("width", [-1.0, math.nan, math.inf])
def test_widths_must_be_sensible(width):
    with pytest.raises(ValueError, match=r"width must be (positive|non-negative)"):
        problems.huber(FEATURES, SIGNS, problem_class=CLASS, width=width)
    with pytest.raises(ValueError, match="width must be non-negative and finite, got"):
        problems.hinge(FEATURES, SIGNS, problem_class=CLASS, width=width)
    with pytest.raises(ValueError, match=r"width must be positive .*, got 0"):
        problems.huber(FEATURES, SIGNS, problem_class=CLASS, width=0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda **c: problems.logistic(FEATURES[:, 0], SIGNS, **c), r"features must have 2 axes"),
        (lambda **c: problems.squared(FEATURES, SIGNS[:, None], **c), r"labels must have 1 axes"),
        (lambda **c: problems.squared(FEATURES[:, :1], SIGNS, **c), r"features .* dim = 2"),
        (lambda **c: problems.absolute(FEATURES, SIGNS[:3], **c), r"one leading axis of records"),
        (lambda **c: problems.distance(FEATURES[0], **c), r"points must have 2 axes"),
        (lambda **c: problems.distance(FEATURES[:, :1], **c), r"points .* dim = 2\), got \(4, 1\)"),
    ],
)
def test_wrong_shapes_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make(problem_class=CLASS)
