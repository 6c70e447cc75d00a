"""Synthetic families: declared constants hold, and the parameters have their documented effect."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from privopt.problems import KINDS, Quantile, synthetic

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


@pytest.mark.cases(6)
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


@pytest.mark.cases(3)
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
    """The reference for constant rows is between the order statistics at the level."""
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
