"""Families: hard ones have the strength they claim, real ones keep their class."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from privopt.problems import DATASETS, FAMILIES, datasets, family
from privopt.problems.datasets import available

LARGE = {"sector_logistic"}  # of the kind of rcv1_logistic, and seconds to read
REAL = [
    name for name in FAMILIES if name.removesuffix("_logistic") in available() and name not in LARGE
]
SIZES = {"n": 100, "noise_ratio": 0.05, "strength": 1.0}


def built(name, **changes):
    found = family(name)
    return found.build(**{"dim": found.dim or 5, **SIZES, **changes})


def test_sphere_family_is_the_same_stream_of_records_at_every_size():
    """A planted direction that the labels follow, seen by a few standard errors."""
    small, large = (built("sphere_logistic", n=n, dim=7) for n in (500, 8192))
    small.check()
    large.check()
    for one, other in zip(small.data, large.data, strict=True):
        np.testing.assert_array_equal(one, other)
    assert int(np.sum(small.counts)) == 500
    features, labels = (np.asarray(leaf) for leaf in large.data)
    assert abs(labels.mean()) < 0.05
    pull = np.linalg.norm(labels @ features / labels.size) * math.sqrt(7)
    assert pull > 0.5  # 1 / sqrt(8192 / 7) = .03 without a direction
    assert large.excess_risk(np.zeros(7)) > 0.1


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", REAL)
def test_real_families_keep_their_class_at_every_size(name):
    found = family(name)
    assert not found.hard
    for n in (2, found.max_n):
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


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", REAL)
def test_real_families_are_the_first_records_of_the_public_order(name):
    """The shape is the same for every size. Smaller problems are nested in larger ones."""
    n = 100
    data = datasets.load(name.removesuffix("_logistic")).subset(n)
    problem = built(name, n=n)
    point = np.linspace(-1.0, 1.0, family(name).dim)
    expected = np.logaddexp(0.0, -data.labels * (data.features @ point)).mean()
    assert problem.risk(point) == pytest.approx(expected, rel=1e-13)
    largest = built(name, n=family(name).max_n)
    assert jax.tree.map(np.shape, problem.objective) == jax.tree.map(np.shape, largest.objective)


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
    """A name is loaded again if ``PRIVOPT_DATA`` changes."""
    calls, found = [], DATASETS["breast_cancer"]()
    monkeypatch.setattr(datasets, "load", lambda name: calls.append(name) or found)
    for folder in (tmp_path, tmp_path / "other", tmp_path):
        monkeypatch.setenv(datasets.VARIABLE, str(folder))
        family("breast_cancer_logistic")
    assert calls == ["breast_cancer"] * 2
