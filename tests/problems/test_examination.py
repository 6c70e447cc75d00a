"""``check``: silent where the declared class is true, and the first culprit by name elsewhere."""

from __future__ import annotations

import dataclasses
import math
import re

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from boxes import Box

from privopt import problems
from privopt.convex import DenseFeatures, L1Ball, L2Ball, Separable, Sine, WholeSpace
from privopt.problems import Problem
from privopt.spec import ProblemClass

N, DIM, CULPRIT = 12, 3, 7
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(N, DIM))
FEATURES /= 1.25 * np.linalg.norm(FEATURES, axis=1, keepdims=True)
SIGNS = np.where(RNG.random(N) < 0.5, -1.0, 1.0)


def declared(**changes):
    return ProblemClass(**{"n": N, "dim": DIM, "lipschitz": 0.8, "radius": 2.0, **changes})


def longer(factor, features=FEATURES):
    longer = features.copy()
    longer[CULPRIT] *= factor
    return longer


def quadratic(w, record):
    """Curvatures ``record["a"]`` along the axes."""
    return 0.5 * jnp.sum(record["a"] * (w - record["x"]) ** 2)


def custom(loss=quadratic, curvatures=None, **changes):
    curvatures = np.tile([0.5, 1.0, 2.0], (N, 1)) if curvatures is None else curvatures
    data = {"x": FEATURES, "a": curvatures}
    class_ = declared(**{"lipschitz": 8.0, "smoothness": 2.0, "strong_convexity": 0.5, **changes})
    return Problem(loss=loss, data=data, problem_class=class_)


def model(make, features=FEATURES, labels=SIGNS, constraint=None, **changes):
    options = {"width": changes.pop("width")} if "width" in changes else {}
    return make(
        features, labels, problem_class=declared(**changes), constraint=constraint, **options
    )


TRUE = {
    "linear": lambda: model(problems.linear, smoothness=0.0),
    "linear, unbounded": lambda: model(
        problems.linear, labels=2.0 * SIGNS, lipschitz=1.6, radius=math.inf
    ),
    "logistic": lambda: model(problems.logistic, smoothness=0.16),
    "logistic, null": lambda: model(problems.logistic, 0.0 * FEATURES, lipschitz=1e-9),
    "huber": lambda: model(problems.huber, smoothness=0.64, width=1.0),
    "hinge": lambda: model(problems.hinge),
    "hinge, smooth": lambda: model(problems.hinge, smoothness=0.64, width=1.0),
    "absolute": lambda: model(problems.absolute),
    "absolute, unbounded": lambda: model(problems.absolute, radius=math.inf),
    "squared": lambda: model(
        problems.squared, lipschitz=0.8 * (0.8 * 2.0 + 1.0), smoothness=0.64
    ),
    "squared, smaller set": lambda: model(
        problems.squared, lipschitz=0.8 * (0.8 * 0.5 + 1.0), constraint=L1Ball(0.5)
    ),
    "distance": lambda: problems.distance(FEATURES, problem_class=declared(lipschitz=1.0)),
    "custom": custom,
    "custom, unbounded": lambda: custom(
        radius=math.inf, lipschitz=1e3, strong_convexity=0.0
    ),
}  # fmt: skip


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", TRUE)
def test_a_true_class_passes(name):
    TRUE[name]().check()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("leaf", [0, 1])
def test_values_that_are_not_finite_are_found(bad, leaf):
    features, labels = FEATURES.copy(), 0.3 * SIGNS
    (features[:, 1] if leaf == 0 else labels)[CULPRIT] = bad
    problem = problems.absolute(features, labels, problem_class=declared())
    with pytest.raises(ValueError, match=rf"data must be finite, got .* record 7, leaf \[{leaf}\]"):
        problem.check()


def test_values_that_are_not_finite_are_found_in_any_pytree():
    problem = custom(curvatures=longer(math.inf, np.ones((N, DIM))))
    with pytest.raises(ValueError, match=r"data must be finite, .* record 7, leaf \['a'\]"):
        problem.check()


BROKEN = {
    "logistic": lambda x: model(problems.logistic, x),
    "hinge": lambda x: model(problems.hinge, x),
    "absolute": lambda x: model(problems.absolute, x),
    "absolute, unbounded": lambda x: model(problems.absolute, x, radius=math.inf),
    "linear": lambda x: model(problems.linear, x),
    "custom": lambda x: Problem(
        loss=lambda w, x: x @ w, data=x, problem_class=declared(smoothness=0.0)
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_lipschitz_constant_is_found_at_the_offending_record(name):
    BROKEN[name](FEATURES).check()
    broken = BROKEN[name](longer(1.01))
    if name == "logistic":  # steepest within |w| <= 2, which is below |x| itself
        broken = BROKEN[name](longer(2.0))
    with pytest.raises(ValueError, match=r"lipschitz 0\.8 must bound every record, but record 7"):
        broken.check()


def test_the_steepest_slope_is_that_within_the_set():
    """Squared loss: ``max_w |<x, w> - y| |x|``, exact over the ball and over the box."""
    radius, labels = 2.0, 0.3 * SIGNS
    norms = np.linalg.norm(FEATURES, axis=1)
    for constraint, reach in (
        (L2Ball(radius), radius * norms),
        (Box(-1.0, 0.5), None),
        (Box(-0.5, 1.0), None),
    ):
        if reach is None:
            corners = np.stack(np.meshgrid(*[[constraint.lower, constraint.upper]] * DIM), -1)
            residuals = FEATURES @ corners.reshape(-1, DIM).T - labels[:, None]
            steepest = np.abs(residuals).max(axis=1)
        else:
            steepest = reach + np.abs(labels)
        exact = float((steepest * norms).max())
        for lipschitz, holds in ((exact * 1.00001, True), (exact * 0.9999, False)):
            problem = model(problems.squared, FEATURES, labels, constraint, lipschitz=lipschitz)
            if holds:
                problem.check()
            else:
                with pytest.raises(ValueError, match=r"lipschitz .* has a gradient") as broken:
                    problem.check()
                row = int(re.search(r"record (\d+)", str(broken.value))[1])
                assert (steepest * norms)[row] >= (1.0 - 1e-12) * exact


@pytest.mark.parametrize("make", [problems.linear, problems.squared])
def test_on_the_whole_space_labels_count_and_unbounded_slopes_are_refused(make):
    labels = SIGNS.copy()
    labels[CULPRIT] *= 5.0
    problem = model(make, FEATURES, labels, WholeSpace(), radius=math.inf)
    with pytest.raises(ValueError, match=r"lipschitz 0\.8 must bound every record"):
        problem.check()


@pytest.mark.parametrize(("width", "smoothness"), [(1.0, 0.63), (0.1, 6.3)])
def test_a_broken_smoothness_is_found(width, smoothness):
    problem = model(problems.huber, smoothness=smoothness, width=width)
    with pytest.raises(ValueError, match=r"smoothness .* must bound .* has curvature"):
        problem.check()


def test_kinks_are_not_smooth():
    problem = model(problems.absolute, smoothness=1e6)
    with pytest.raises(ValueError, match=r"smoothness .* has curvature inf"):
        problem.check()


def test_a_linear_model_is_never_strongly_convex_beyond_one_dimension():
    problem = model(problems.squared, lipschitz=10.0, smoothness=1.0, strong_convexity=1e-3)
    with pytest.raises(ValueError, match=r"strong_convexity 0\.001 must hold for every record"):
        problem.check()


@pytest.mark.parametrize(
    ("factor", "changes", "message"),
    [
        (8.0, {"smoothness": 100.0}, r"lipschitz 8\.0 .* record 7 has a gradient"),
        (1.6, {}, r"smoothness 2\.0 .* record 7 has curvature"),
        (0.5, {}, r"strong_convexity 0\.5 .* record 7 has curvature"),
        (-0.1, {"strong_convexity": 0.0}, "loss must be convex.* record 7 has curvature -"),
    ],
)
def test_a_search_finds_what_a_custom_loss_breaks(factor, changes, message):
    """The last is not even convex."""
    broken = custom(curvatures=longer(factor, np.tile([0.5, 1.0, 2.0], (N, 1))), **changes)
    with pytest.raises(ValueError, match=message):
        broken.check()


def one_denser():
    """Rows of a single number, but for the culprit's."""
    rows = np.eye(DIM)[np.arange(N) % DIM] * 0.5
    rows[CULPRIT] = 0.3
    return rows


SPARSE = {
    "linear model": lambda rows, facts: problems.linear(rows, problem_class=facts),
    "sparse features": lambda rows, facts: problems.linear(
        scipy.sparse.csr_array(rows), problem_class=facts
    ),
    "points": lambda rows, facts: problems.squared_distance(
        rows, problem_class=dataclasses.replace(facts, lipschitz=4.0)
    ),
    "single coordinates": lambda rows, facts: Problem(
        loss=Separable(Sine()),
        data=DenseFeatures(jnp.asarray(rows)),
        problem_class=dataclasses.replace(facts, convex=False),
    ),
    "any loss": lambda rows, facts: Problem(
        loss=lambda w, x: jnp.sum(w * x), data=rows, problem_class=facts
    ),
}


@pytest.mark.parametrize("name", SPARSE)
def test_a_record_denser_than_declared_is_found(name):
    rows = one_denser()
    SPARSE[name](rows, declared(sparsity=DIM)).check()
    message = rf"sparsity 1 .* record {CULPRIT} has a number of nonzeros of {DIM} \(1 of {N} "
    with pytest.raises(ValueError, match=message):
        SPARSE[name](rows, declared(sparsity=1)).check()


def test_a_gradient_that_is_not_finite_breaks_the_lipschitz_constant():
    problem = custom(lambda w, record: jnp.sqrt(jnp.sum((w - record["x"]) * 0.0)))
    with pytest.raises(ValueError, match=r"lipschitz 8\.0 .* record 0 has a gradient of norm inf"):
        problem.check()
