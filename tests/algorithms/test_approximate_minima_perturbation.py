"""Approximate minima perturbation: published noise, corrected sensitivity, no second try."""

import dataclasses
import math

import dp_accounting as dp
import numpy as np
import pytest

import privopt
from privopt.privacy import gaussian_delta

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
FACTS = privopt.ProblemClass(n=200, dim=3, lipschitz=1.0, radius=2.0, smoothness=0.25)
plan_of = privopt.ALGORITHMS["approximate_minima_perturbation"].plan


def classification():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 3))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features, np.where(rng.random(200) < 0.5, -1.0, 1.0)


@pytest.mark.parametrize(("relation", "moved"), [("replace_one", 2), ("zero_out", 1)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_published_noise(relation, moved, epsilon):
    """``(2L/n)(1 + sqrt(2 ln 1/d1))/e3`` and ``lambda n >= 2 H/(e1 - e3)``, by hand.

    By default at that ``lambda`` the noise is less, and the budget is spent.
    """
    budget = dataclasses.replace(BUDGET, relation=relation, epsilon=epsilon)
    planned = plan_of(FACTS, budget, analysis="iyengar")
    e1, d1 = 0.99 * epsilon, 0.99e-5
    e3 = e1 - 0.5 * min(e1, 1.0)
    exact = moved / 200 * (1 + math.sqrt(2 * math.log(1 / d1))) / e3
    assert planned.params.mechanism.tilt.scale == pytest.approx(exact, rel=1e-5)
    assert planned.params.mechanism.tilt.scale >= exact
    least = 2 * 0.25 / (200 * (e1 - e3))
    strength = planned.params.mechanism.tilt.query.regularisation
    assert strength >= least
    with pytest.raises(ValueError, match="regularisation must exceed"):
        plan_of(FACTS, budget, regularisation=0.999 * least, analysis="iyengar")
    tight = plan_of(FACTS, budget, regularisation=float(strength))
    assert tight.params.mechanism.tilt.scale < exact
    published, spent = (each.guarantee.epsilon(1e-5).upper for each in (planned, tight))
    assert published < 0.9 * epsilon < 0.99 * epsilon < spent <= epsilon


def test_second_noise_is_for_twice_the_distance():
    """Both neighbours may be off by ``tau``: what hides ``tau`` alone breaks its share."""
    planned = plan_of(FACTS, BUDGET, relative_error=0.1)
    error, scale = planned.params.mechanism.tilt.query.error, planned.params.mechanism.finish_scale
    assert error == pytest.approx(0.1 / (planned.params.mechanism.tilt.query.regularisation * 200))
    assert gaussian_delta(0.01, 2 * error / scale).upper <= 1e-7
    assert gaussian_delta(0.01, 2 * error / (0.5 * scale)).lower > 1e-7
    finish = planned.guarantee.event.events[1]
    assert isinstance(finish, dp.GaussianDpEvent)
    assert finish.noise_multiplier <= 2 * scale / (2 * error)


def test_a_coarser_solver_means_more_noise_never_another_try():
    errors = (1e-4, 1e-2, 1.0)
    plans = [plan_of(FACTS, BUDGET, relative_error=e, regularisation=0.2) for e in errors]
    scales = [p.params.mechanism.finish_scale for p in plans]
    np.testing.assert_allclose(np.array(scales) / scales[0], [1, 1e2, 1e4], rtol=1e-5)
    assert plans[0].params.mechanism.tilt.scale == plans[2].params.mechanism.tilt.scale
    assert plans[0].params.mechanism.tilt.query.steps > plans[2].params.mechanism.tilt.query.steps
    assert len({p.static for p in plans}) == 1
