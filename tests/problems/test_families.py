"""Families: hard ones have the strength they claim, real ones keep their class."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from privopt.problems import FAMILIES, datasets, family
from privopt.problems.datasets import available

REAL = [name for name in FAMILIES if name.removesuffix("_logistic") in available()]
SIZES = {"n": 100, "noise_ratio": 0.05, "strength": 1.0}


def built(name, **changes):
    found = family(name)
    return found.build(**{"dim": found.dim or 5, **SIZES, **changes})


@pytest.mark.parametrize("strength", FAMILIES["linear"].strengths)
@pytest.mark.parametrize(("n", "noise_ratio"), [(10, 0.3), (1000, 0.01), (999, 0.07), (10**6, 2.0)])
def test_linear_family_pulls_by_the_stated_strength(strength, n, noise_ratio):
    """The optimum is minus the mean of the data, reached at ``e_1``."""
    problem = built("linear", n=n, noise_ratio=noise_ratio, strength=strength)
    wanted = min(1.0, strength * noise_ratio)
    assert -problem.reference.value == pytest.approx(wanted, abs=1.0 / n + 1e-9)
    assert problem.excess_risk(np.zeros(5)) == pytest.approx(wanted, abs=1.0 / n + 1e-9)
    np.testing.assert_allclose(problem.reference.minimiser, np.eye(5)[0], atol=1e-6)
    assert np.sum(problem.counts) == n
    assert problem.problem_class.n == n
    problem.check()


def test_distance_family_keeps_its_minimiser_at_the_kink():
    problem = built("distance", n=1000, dim=7)
    assert np.sum(problem.counts) == problem.problem_class.n == 1000
    assert problem.reference.value == pytest.approx(0.0, abs=problem.reference.gap + 1e-15)
    assert problem.excess_risk(np.full(7, 0.1)) == pytest.approx(0.1 * math.sqrt(7), abs=2e-6)
    problem.check()


@pytest.mark.parametrize("strength", FAMILIES["huber"].strengths)
@pytest.mark.parametrize(
    ("n", "dim", "noise_ratio"), [(1000, 5, 0.01), (640, 64, 0.3), (997, 3, 0.02)]
)
def test_huber_family_pulls_every_coordinate_alike(n, dim, noise_ratio, strength):
    """A naive twin: record ``i`` in coordinate ``i mod d``; the minimiser touches the ball."""
    problem = built("huber", n=n, dim=dim, noise_ratio=noise_ratio, strength=strength)
    problem.check()
    counts = np.asarray(problem.counts)
    assert counts.sum() == n
    sizes = np.bincount(np.arange(n) % dim, minlength=dim)
    np.testing.assert_array_equal(counts[:dim] + counts[dim:], sizes)
    wanted = min(1.0, strength * noise_ratio * math.sqrt(dim))
    assert np.all(np.abs((counts[:dim] - counts[dim:]) / sizes - wanted) <= 1.0 / sizes)
    h, point = 1.0 / math.sqrt(dim), np.linspace(-2.0, 2.5, dim) / math.sqrt(dim)
    total = 0.0
    for i in range(n):
        j = i % dim
        positive = i // dim < counts[j]
        residual = abs(point[j] - (2 * h if positive else -2 * h))
        total += residual**2 / (2 * h) if residual <= h else residual - h / 2
    assert problem.risk(point) == pytest.approx(total / n, rel=1e-12)
    assert problem.reference.gap <= 1e-9
    if n % dim == 0:
        np.testing.assert_allclose(problem.reference.minimiser, np.full(dim, h), atol=1e-6)


@pytest.mark.parametrize("name", ["linear", "distance", "huber"])
def test_hard_families_are_free_in_size(name):
    found = family(name)
    assert found.hard
    assert found.dim is found.max_n is None
    for n, dim in ((1, 1), (10**6, 200)):
        problem = built(name, n=n, dim=dim)
        assert (problem.problem_class.n, problem.problem_class.dim) == (n, dim)


@pytest.mark.parametrize("name", REAL)
def test_real_families_keep_their_class_at_every_size(name):
    found = family(name)
    assert not found.hard
    for n in (2, 100, found.max_n):
        problem = built(name, n=n)
        problem.check()
        assert problem.problem_class.n == n
        assert problem.name == name
    data = datasets.load(name.removesuffix("_logistic"))
    assert data.features.shape == (found.max_n, found.dim)


@pytest.mark.parametrize("name", REAL)
def test_real_families_refuse_more_records_than_there_are_and_other_dimensions(name):
    found = family(name)
    with pytest.raises(
        ValueError, match=rf"n must be at most {found.max_n} .*, got {found.max_n + 1}"
    ):
        built(name, n=found.max_n + 1)
    with pytest.raises(ValueError, match=rf"dim must be {found.dim} .*, got {found.dim + 1}"):
        built(name, dim=found.dim + 1)


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("n", [10, 100])
def test_real_families_are_the_first_records_of_the_public_order(name, n):
    """In one shape for every size; smaller problems nest in larger ones."""
    data = datasets.load(name.removesuffix("_logistic")).subset(n)
    problem = built(name, n=n)
    point = np.linspace(-1.0, 1.0, family(name).dim)
    expected = np.logaddexp(0.0, -data.labels * (data.features @ point)).mean()
    assert problem.risk(point) == pytest.approx(expected, rel=1e-13)
    largest = built(name, n=family(name).max_n)
    assert jax.tree.map(np.shape, problem.objective) == jax.tree.map(np.shape, largest.objective)


@pytest.mark.parametrize("name", ["linear", "distance", "huber", *REAL])
def test_families_are_deterministic(name):
    one, two = built(name), built(name)
    point = np.linspace(-0.1, 0.1, one.problem_class.dim)
    assert one.risk(point) == two.risk(point)


def test_unknown_families_are_refused_with_the_names_there_are():
    with pytest.raises(ValueError, match=r"family must be one of linear, .*, got 'nonsense'"):
        family("nonsense")


def test_a_family_without_its_data_says_where_it_looked(monkeypatch):
    monkeypatch.delenv("PRIVOPT_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match="PRIVOPT_DATA"):
        family("a9a_logistic")


@pytest.mark.parametrize("name", FAMILIES)
def test_families_are_listed_under_their_names_with_a_summary(name):
    found = FAMILIES[name]
    assert found.name == name
    assert found.summary
    assert all(strength > 0.0 for strength in found.strengths)


def test_data_loaded_from_a_folder_are_not_there_without_it(monkeypatch, tmp_path):
    """The same name with another ``PRIVOPT_DATA`` is looked for anew."""
    calls, found = [], datasets.breast_cancer()
    monkeypatch.setattr(datasets, "load", lambda name: calls.append(name) or found)
    for folder in (tmp_path, tmp_path / "other", tmp_path):
        monkeypatch.setenv(datasets.VARIABLE, str(folder))
        family("breast_cancer_logistic")
    assert calls == ["breast_cancer"] * 2
