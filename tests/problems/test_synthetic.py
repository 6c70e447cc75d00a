"""Synthetic families: what they declare holds, and their knobs do what they say."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import numpy as np
import pytest

from privopt.problems import (
    KINDS,
    Quantile,
    one_way_marginals,
    sphere_classification,
    sphere_regression,
    synthetic,
)

SIZES = {"n": 300, "dim": 8, "noise_ratio": 0.1}
KNOBS = [{}, {"sparsity": 3}, {"noise": 1.0}, {"conditioning": 100.0, "tails": 3.0, "radius": 3.0}]
CASES = [
    (kind, knobs)
    for kind, (_, _, known) in KINDS.items()
    for knobs in KNOBS
    if knobs.keys() <= {"sparsity", *known}
]


def built(kind, strength=0.0, knobs=(), **sizes):
    return synthetic(kind, **dict(knobs)).build(**(SIZES | sizes), strength=strength)


def rows(problem):
    features = problem.data[0] if isinstance(problem.data, tuple) else problem.data
    return np.asarray(features.to_dense() if hasattr(features, "to_dense") else features)


@pytest.mark.parametrize(("kind", "knobs"), CASES)
def test_what_is_declared_holds_for_every_record(kind, knobs):
    problem = built(kind, knobs=knobs)
    problem.check()
    assert problem.certifiable
    assert problem.measures == "empirical"
    if "sparsity" in knobs:
        blocks = 4 if kind == "softmax" else 1
        width = min(3, problem.problem_class.dim // blocks)
        assert problem.problem_class.sparsity == blocks * width


@pytest.mark.parametrize("kind", KINDS)
def test_a_smaller_problem_has_the_first_records_and_another_number_has_others(kind):
    small, large, other = built(kind, n=100), built(kind), built(kind, strength=1.0)
    point = np.linspace(-0.2, 0.3, 8).reshape(small.shape or 8)
    assert small.risk(point) == pytest.approx(large.first(100).risk(point), rel=1e-12)
    assert large.risk(point) != other.risk(point)


def test_signs_follow_the_planted_vector_as_often_as_said():
    """``P(y = 1 | x) = sigmoid(score / noise)``: a chi-square test; false alarms: 1e-4."""
    problem = built("logistic", n=20_000)
    features, labels = (np.asarray(leaf) for leaf in problem.data)
    planted = np.random.default_rng([8, 0, 3]).normal(size=(1, 8))[0]
    scores = math.sqrt(8) * features @ planted / np.linalg.norm(planted)
    chance = 1.0 / (1.0 + np.exp(-scores / 0.2))
    surprise = ((labels > 0) - chance).sum() / math.sqrt((chance * (1.0 - chance)).sum())
    assert abs(surprise) < 3.9
    assert 0.8 < scores.std() < 1.2


def test_conditioning_is_the_ratio_of_eigenvalues_and_tails_shorten_rows():
    plain, stretched = (
        np.asarray(built("hinge", n=4000, knobs=k).data[0]) for k in ({}, {"conditioning": 25.0})
    )
    ratios = [np.var(x, axis=0)[0] / np.var(x, axis=0)[-1] for x in (plain, stretched)]
    assert 0.8 < ratios[0] < 1.25
    assert 10.0 < ratios[1] < 25.0  # long rows are shortened along their long axis
    lengths = np.linalg.norm(
        np.asarray(built("hinge", n=4000, knobs={"tails": 2.0}).data[0]), axis=1
    )
    assert lengths.max() <= 1.0
    assert np.median(lengths) < 0.45
    assert (lengths > 0.99).mean() > 0.02


def test_the_minimiser_of_the_quantile_loss_is_a_quantile():
    """Of constant rows: the reference lies between the order statistics at the level."""
    problem = built("quantile")
    constant = replace(
        problem, data=(np.full((300, 1), 1.0), problem.data[1]), loss=problem.loss,
        problem_class=replace(problem.problem_class, dim=1),
    )  # fmt: skip
    ordered = np.sort(np.asarray(problem.data[1]))
    found = float(np.squeeze(constant.reference.minimiser))
    assert ordered[222] - 0.01 <= found <= ordered[227] + 0.01
    assert problem.loss.scalar == Quantile(0.75)


@pytest.mark.parametrize(
    ("kind", "knobs", "words"),
    [
        ("logit", {}, "kind must be one of .*got 'logit'; did you mean logistic"),
        ("logistic", {"condition": 2.0}, "knob of logistic must be .*did you mean conditioning"),
        ("sparse_mean", {"tails": 2.0}, "knob of sparse_mean must be one of noise"),
        ("logistic", {"noise": 0.0}, "noise must be positive and finite, got 0.0"),
        ("logistic", {"conditioning": 0.5}, "conditioning must be at least 1, got 0.5"),
        ("logistic", {"sparsity": 0}, "sparsity must be a positive integer, got 0"),
    ],
)  # fmt: skip
def test_a_wrong_knob_is_named(kind, knobs, words):
    with pytest.raises(ValueError, match=words):
        synthetic(kind, **knobs)


@pytest.mark.parametrize(
    ("kind", "sizes", "words"),
    [
        ("softmax", {"dim": 7}, "dim must be a multiple of 4, the classes, got 7"),
        ("sparse_mean", {"sparsity": 9}, "sparsity must not exceed dim, got 9 > 8"),
    ],
)
def test_a_size_that_a_kind_has_not_is_refused(kind, sizes, words):
    with pytest.raises(ValueError, match=words):
        built(kind, **sizes)


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
