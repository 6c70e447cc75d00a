"""Noise for real releases: its law, its sensitivity after rounding, and its lattice.

The draws cannot be repeated: an assertion fails by chance once in a million runs or less.
"""

import importlib
import math

import numpy as np
import pytest
from scipy.stats import chisquare

import privopt
from privopt.audit import finding
from privopt.discrete import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from privopt.privacy import Guarantee
from privopt.spec import Relation
from privopt.statistics import BoundedMean, Histogram

REPLACE = Relation.REPLACE_ONE
APPROXIMATE = privopt.Budget(epsilon=1.0, delta=1e-6, relation=REPLACE)
PURE = privopt.Budget(epsilon=1.0, delta=0.0, relation=REPLACE)
MEAN = BoundedMean.of(-1.0, 1.0, size=10)
KINDS = {DiscreteGaussianMechanism: APPROXIMATE, DiscreteLaplaceMechanism: PURE}
DENSITIES = {
    DiscreteGaussianMechanism: lambda z, scale: np.exp(-0.5 * (z / scale) ** 2),
    DiscreteLaplaceMechanism: lambda z, scale: np.exp(-np.abs(z) / scale),
}


@pytest.mark.parametrize("kind", KINDS)
def test_noise_has_its_law_and_no_other(kind):
    """Test 100,000 integers; noise that is 6 % larger is rejected."""
    runs, scale, end, wide = 100_000, 1.7, 6, np.arange(-400, 401)
    drawn = kind(MEAN, scale, 0.5, runs).release(np.full(runs, 3.2)) / 0.5 - 6.0
    assert (drawn == np.rint(drawn)).all()
    counts = np.bincount(np.clip(drawn, -end, end).astype(int) + end)

    def p_value(scale):
        mass = DENSITIES[kind](wide, scale)
        expected = np.bincount(np.clip(wide, -end, end) + end, mass / mass.sum())
        return chisquare(counts, runs * expected).pvalue

    assert p_value(scale) > 1e-6
    assert p_value(1.06 * scale) < 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dim", [1, 7])
@pytest.mark.parametrize("spacing", [None, 0.25, 4.0])
def test_a_release_stays_within_its_budget(kind, dim, spacing):
    mechanism = kind.calibrated(MEAN, KINDS[kind], dim=dim, spacing=spacing)
    spent = Guarantee(mechanism.event(REPLACE), REPLACE)
    assert spent.meets(KINDS[kind])
    less = mechanism._replace(scale=0.999 * mechanism.scale)
    assert not Guarantee(less.event(REPLACE), REPLACE).meets(KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e12])
def test_rounding_stays_within_the_lattice_sensitivity(kind, size):
    """Test answers in the middle between two points of the lattice, and elsewhere."""
    query = BoundedMean.of(-size, size, size=10)
    rng, dim = np.random.default_rng(0), 3
    order = 1 if kind is DiscreteLaplaceMechanism else 2
    sensitivity = getattr(query, "l1_sensitivity" if order == 1 else "sensitivity")(REPLACE)
    mechanism = kind.calibrated(
        query, KINDS[kind], dim=dim, spacing=2.0 ** math.frexp(sensitivity)[1]
    )
    bound = mechanism._lattice_sensitivity(REPLACE)
    quiet = mechanism._replace(scale=0.0)
    furthest = 0.0
    for _ in range(300):
        step = rng.choice([rng.normal(size=dim), np.ones(dim)])
        step *= sensitivity / np.linalg.norm(step, order)
        base = mechanism.spacing * rng.choice([0.5 - 1e-9, 0.5, 0.3, -0.5], dim)
        one, two = (quiet.release(each) / quiet.spacing for each in (base, base + step))
        furthest = max(furthest, float(np.linalg.norm(one - two, order)))
    assert 0.5 * bound < furthest <= bound


@pytest.mark.thorough  # sensitivity and noise are tested above
@pytest.mark.parametrize("kind", KINDS)
def test_a_worst_pair_is_told_apart_no_better_than_claimed(kind):
    """Attack 100,000 releases of neighbours that rounding separates; 0.4 of the noise is refuted.

    The curve of zCDP is much larger than that of discrete Gaussian noise.
    """
    runs = 100_000
    mechanism = kind.calibrated(MEAN, KINDS[kind], dim=1, spacing=2.0**-4)
    claimed = Guarantee(mechanism.event(REPLACE), REPLACE)
    place = 0.5 * mechanism.spacing  # its neighbour lies a little above 3 1/2 spacings from here
    pair = (place, place + mechanism.query.sensitivity(REPLACE))

    def ratio(share):
        many = mechanism._replace(scale=share * mechanism.scale, dim=runs)
        one, two = (many.release(np.full(runs, each))[:, None] for each in reversed(pair))
        return finding(one, two, claimed, 1e-6).ratio

    assert 0.35 < ratio(1.0) <= 1.0
    assert ratio(0.4) > 1.0


def test_strange_answers_are_released_like_any():
    mechanism = DiscreteLaplaceMechanism.calibrated(MEAN, PURE, dim=4)
    strange = np.array([math.nan, math.inf, -math.inf, 1.7e308])
    assert np.isfinite(mechanism.release(strange)).all()
    assert mechanism.release(np.zeros((2, 2), np.float32)).shape == (2, 2)


def test_a_mean_is_restored_about_its_centre():
    """Test noise of scale .08, which exceeds 4 with probability e^-50."""
    mean = BoundedMean.of(0.0, 80.0, size=1000)
    mechanism = DiscreteLaplaceMechanism.calibrated(mean, PURE, dim=1)
    told = mean.restore(mechanism.release(mean.answer(np.linspace(20.0, 60.0, 1000))))
    assert abs(told - 40.0) < 4.0


def test_two_releases_differ():
    mechanism = DiscreteGaussianMechanism.calibrated(MEAN, APPROXIMATE, dim=20)
    assert (mechanism.release(np.zeros(20)) != mechanism.release(np.zeros(20))).any()


def test_what_no_record_moves_needs_no_noise():
    bins = Histogram((-1.0, 0.0, 1.0))
    relation = Relation.REPLACE_ONE
    still = BoundedMean.of(1.0, 1.0, size=10)
    mechanism = DiscreteLaplaceMechanism.calibrated(still, PURE, dim=1)
    assert Guarantee(mechanism.event(relation), relation).epsilon(0.0).upper == 0.0
    counted = DiscreteLaplaceMechanism.calibrated(bins, PURE, dim=2, spacing=1.0)
    assert counted._lattice_sensitivity(relation) == pytest.approx(
        bins.l1_sensitivity(relation) + 2.0
    )


@pytest.mark.parametrize(
    ("message", "wrong"),
    [
        ("delta must be positive for Gaussian noise, got 0.0", {"budget": PURE}),
        ("spacing must be a power of two, got 0.3", {"spacing": 0.3}),
        ("spacing must be at least the noise over 2\\^52, got 7.8886", {"spacing": 2.0**-100}),
        ("dim must be a positive integer, got 0", {"dim": 0}),
    ],
)
def test_refusals(message, wrong):
    given = {"query": MEAN, "budget": APPROXIMATE, "dim": 2, **wrong}
    with pytest.raises(ValueError, match=message):
        DiscreteGaussianMechanism.calibrated(**given)


def test_an_answer_of_another_size_is_refused():
    mechanism = DiscreteLaplaceMechanism.calibrated(MEAN, PURE, dim=2)
    with pytest.raises(ValueError, match="answer must have dim = 2 numbers, got 3"):
        mechanism.release(np.zeros(3))


def test_without_opendp_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "opendp.prelude", None)
    mechanism = DiscreteLaplaceMechanism.calibrated(MEAN, PURE, dim=1)
    with pytest.raises(ImportError, match=r"privopt\[release\]"):
        mechanism.release(0.0)
    assert importlib.import_module("privopt.discrete")
