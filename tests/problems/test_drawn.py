"""Synthetic problems: shapes, true constants, and the law they say they are drawn from."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from privopt.problems import one_way_marginals, sphere_classification, sphere_regression

KEY = jax.random.key(0)
MAKE = {
    "sphere_classification": lambda key: sphere_classification(key, n=200, dim=6),
    "sphere_regression": lambda key: sphere_regression(key, n=200, dim=6),
    "one_way_marginals": lambda key: one_way_marginals(key, n=200, dim=6, informative=30),
}
every = pytest.mark.parametrize("name", MAKE)


@pytest.mark.parametrize(("name", "x64"), [*((name, False) for name in MAKE), (min(MAKE), True)])
def test_the_declared_class_is_true(name, x64):
    """In float32 too, where a unit vector may be a little longer than 1."""
    with jax.enable_x64(x64):
        problem = MAKE[name](KEY)
        assert problem.objective.dtype == (np.float64 if x64 else np.float32)
        problem.check()
    assert (problem.problem_class.n, problem.problem_class.dim) == (200, 6)
    assert problem.problem_class.lipschitz == pytest.approx(1.0, rel=1e-5)
    assert problem.name == name


@every
def test_the_key_is_all_there_is_to_chance(name):
    point = np.linspace(-0.2, 0.3, 6)
    one, again, other = (MAKE[name](k).risk(point) for k in (KEY, KEY, jax.random.key(1)))
    assert one == again != other


@pytest.mark.parametrize("make", [sphere_classification, sphere_regression])
def test_features_are_uniform_on_the_sphere(make):
    """Six standard errors of mean and second moment, level 1e-8."""
    features = np.asarray(make(KEY, n=20_000, dim=6).objective.data[0])
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0, rtol=1e-12)
    error = 6.0 / math.sqrt(20_000)
    np.testing.assert_allclose(features.mean(axis=0), 0.0, atol=error / math.sqrt(6))
    np.testing.assert_allclose(features.T @ features / 20_000, np.eye(6) / 6, atol=error / 6)


def test_classification_follows_its_planted_direction():
    """Labels lean on the scores: for large sharpness the planted sign is learnt perfectly."""
    problem = sphere_classification(KEY, n=200, dim=4, sharpness=1e6, radius=20.0)
    features, labels = problem.objective.data
    assert set(np.unique(labels)) == {-1.0, 1.0}
    agreement = np.sign(np.asarray(features) @ problem.reference.minimiser) == labels
    assert agreement.mean() >= 0.98
    coin = np.asarray(sphere_classification(KEY, n=20_000, dim=4, sharpness=0.0).objective.data[1])
    assert abs(coin.mean()) <= 6.0 / math.sqrt(20_000)


def test_regression_has_a_planted_signal_and_laplace_noise():
    """Mean absolute noise is its scale; the fit finds ``|u| = radius``."""
    problem = sphere_regression(KEY, n=20_000, dim=4, radius=0.7, noise=0.1)
    features, labels = map(np.asarray, problem.objective.data)
    fitted = np.linalg.lstsq(features, labels)[0]
    assert np.linalg.norm(fitted) == pytest.approx(0.7, abs=0.02)
    residual = np.abs(labels - features @ fitted)
    assert residual.mean() == pytest.approx(0.1, rel=6.0 / math.sqrt(20_000))
    assert np.mean(residual > 0.1) == pytest.approx(math.exp(-1.0), abs=6 * 0.5 / math.sqrt(20_000))


def test_marginals_are_signs_of_unknown_means_and_null_records():
    problem = one_way_marginals(KEY, n=50_000, dim=6, informative=20_000)
    features = np.asarray(problem.objective.data[0])
    counts = np.asarray(problem.counts)
    np.testing.assert_allclose(np.abs(features[:-1]) * math.sqrt(6), 1.0, rtol=1e-12)
    np.testing.assert_array_equal(features[-1], 0.0)
    assert counts.sum() == 50_000
    assert counts[-1] == 30_000
    np.testing.assert_array_equal(counts[:-1], 1)
    means = features[:-1].mean(axis=0) * math.sqrt(6)
    assert np.abs(means).max() < 1.0
    assert np.ptp(means) > 0.5
    assert problem.excess_risk(np.zeros(6)) == pytest.approx(
        np.linalg.norm(means) / math.sqrt(6) * 0.4, rel=1e-6
    )


def test_means_of_marginals_are_uniform_over_keys():
    """Over 60 keys and 6 coordinates, to six standard errors."""
    means = np.concatenate(
        [
            np.asarray(
                one_way_marginals(key, n=400, dim=6, informative=400).objective.data[0]
            )[:-1].mean(axis=0) * math.sqrt(6)
            for key in jax.random.split(KEY, 60)
        ]
    )  # fmt: skip
    assert means.mean() == pytest.approx(0.0, abs=6.0 / math.sqrt(3 * 360))
    assert np.mean(means**2) == pytest.approx(1.0 / 3.0, abs=6.0 * 0.3 / math.sqrt(360))


@pytest.mark.parametrize("informative", [0, 201, -1])
def test_the_informative_must_be_some_of_the_records(informative):
    message = rf"informative must lie in \[1, n = 200\], got {informative}"
    with pytest.raises(ValueError, match=message):
        one_way_marginals(KEY, n=200, dim=6, informative=informative)
