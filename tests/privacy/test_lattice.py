"""Lattice losses: above is above and below is below, at every order and however coarse."""

import math

import numpy as np
import pytest

from privopt.privacy.fourier.lattice import discretise_above, discretise_below
from privopt.privacy.mechanisms.laplace import LaplacePair
from privopt.privacy.mechanisms.pure import response_pair
from privopt.privacy.mechanisms.sampling import Sampled, SampledWithoutReplacement
from privopt.privacy.pairs import Bins, DiscretePair, GaussianPair, ReplacedGaussian, Reversed

PAIRS = [
    GaussianPair(0.05),
    GaussianPair(1.0),
    GaussianPair(12.0),
    LaplacePair(1.5),
    Sampled(GaussianPair(1.0), 0.01),
    Reversed(Sampled(GaussianPair(1.0), 0.01)),
    Sampled(GaussianPair(20.0), 0.5),
    Reversed(Sampled(GaussianPair(20.0), 0.5)),
    Sampled(GaussianPair(0.2), 1.0 - 1e-9),
    Reversed(Sampled(LaplacePair(1.5), 0.3)),
    ReplacedGaussian(0.01, 1.0),
    ReplacedGaussian(0.9, 0.2),
    SampledWithoutReplacement(Sampled(GaussianPair(0.5), 0.1)),
    Reversed(Sampled(response_pair(0.3, 4), 0.2)),
    Sampled(DiscretePair((0.0, 1.0), (1.0, 0.0)), 0.2),
]


def true_curve(pair, epsilons):
    """Return ``P(L > eps) - e^eps Q(L > eps)`` from single masses, and a rounding error bound.

    The bound covers outcomes within the blur of epsilon, which contribute little.
    """
    bins = [pair.bins(np.array([epsilon])) for epsilon in epsilons.tolist()]
    gamma = np.exp(epsilons)
    p, q = (np.array([getattr(b, name)[1] for b in bins]) for name in "pq")
    p += pair.infinite()[0]
    p_error, q_error = (np.array([getattr(b, f"{name}_error")[1] for b in bins]) for name in "pq")
    blur = np.array([b.blur for b in bins])
    return p - gamma * q, p_error + gamma * q_error + (blur + 1e-15) * (p + gamma * q)


def curve_of(lattice, epsilons):
    with np.errstate(over="ignore"):
        gains = -np.expm1(np.minimum(epsilons[:, None] - lattice.losses, 0.0))
    return gains @ lattice.mass + lattice.infinite


def orders(edges, spacing):
    """On the lattice, between its points, and beyond both ends."""
    first, last = edges[0] * spacing, edges[-1] * spacing
    span = last - first
    between = np.linspace(first - 0.1 * span, last + 0.1 * span, 150)
    return np.unique(np.concatenate([between, (edges[:: max(1, edges.size // 40)]) * spacing]))


def regular(pair, points, tail=1e-13):
    losses = pair.losses(tail, 50)
    spacing = float(losses[-1] - losses[0]) / points
    return spacing, np.arange(
        math.floor(losses[0] / spacing) - 1, math.ceil(losses[-1] / spacing) + 2
    )


def irregular(pair, points, seed=0):
    spacing, edges = regular(pair, points)
    keep = np.random.default_rng(seed).random(edges.size) < 0.3
    keep[[0, -1]] = True
    return spacing, edges[keep]


MESHES = [
    *((regular, points) for points in (2, 7, 64, 1000)),
    *((irregular, points) for points in (20, 500)),
]


@pytest.mark.cases(8)
@pytest.mark.parametrize(("mesh", "points"), MESHES)
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(pair)[:50])
def test_above_dominates_and_below_is_dominated_at_every_order(pair, mesh, points):
    spacing, edges = mesh(pair, points)
    bins = pair.bins(spacing * edges)
    epsilons = orders(edges, spacing)
    exact, rounding = true_curve(pair, epsilons)
    upper = discretise_above(bins, edges, spacing, pair.infinite()[0])
    assert np.all(curve_of(upper, epsilons) >= exact - rounding)
    assert upper.mass.sum() + upper.infinite >= 1.0 - 1e-15  # order zero
    other = upper.mass @ np.exp(-upper.losses)  # E_P e^-L, the mass of Q that meets P
    assert other <= 1.0 + 1e-8
    for tilt in (0.0, 3.0, -2.0, 50.0):
        lower = discretise_below(bins, edges, spacing, pair.infinite()[0], tilt, 0.5)
        assert np.all(curve_of(lower, epsilons) <= exact + rounding)
        assert lower.mass.min() >= 0.0
        assert lower.mass.sum() + lower.infinite <= 1.0 + 1e-15


@pytest.mark.parametrize("pair", PAIRS[:12], ids=lambda pair: str(pair)[:50])
def test_the_gap_falls_faster_than_the_mesh(pair):
    """Over a mesh 15 times finer, as at single steps an atom may meet the lattice by luck.

    A smooth pair gains 225; one with an atom at its lowest loss 50 or more. A loss that is flat in
    the middle (both centres of a frequent replaced sample) has an atom there, and gains 20.
    """
    gaps = []
    for points in (400, 6000):
        spacing, edges = regular(pair, points)
        bins, epsilons = pair.bins(spacing * edges), np.linspace(0.0, 0.3 * edges[-1] * spacing, 9)
        upper = discretise_above(bins, edges, spacing)
        lower = discretise_below(bins, edges, spacing, offset=0.5)
        gaps.append(np.sum(curve_of(upper, epsilons) - curve_of(lower, epsilons)))
    least = 15 if pair == ReplacedGaussian(0.9, 0.2) else 50
    assert gaps[1] < gaps[0] / least or gaps[1] < 1e-10


@pytest.mark.parametrize(
    "pair", [GaussianPair(1.0), Sampled(GaussianPair(1.0), 0.1)], ids=lambda pair: str(pair)[:50]
)
def test_below_wastes_nothing_before_its_last_point(pair):
    spacing, edges = regular(pair, 300)
    bins = pair.bins(spacing * edges)
    lower = discretise_below(bins, edges, spacing, offset=0.5)
    p, q = bins.p[1:-1].sum(), bins.q[1:-1].sum()
    assert lower.mass.sum() == pytest.approx(p, abs=1e-12)
    assert lower.mass @ np.exp(-lower.losses) == pytest.approx(q, abs=1e-11)


def outcomes_in_bins(losses, p, edges, spacing):
    """Bins of finitely many outcomes, without errors."""
    where = np.searchsorted(edges * spacing, losses, side="left")
    of_p, of_q = (np.bincount(where, w, edges.size + 1) for w in (p, p * np.exp(-losses)))
    none = np.zeros(edges.size + 1)
    return Bins(of_p, of_q, none, none)


def exact_curve(losses, p, epsilons):
    return -np.expm1(np.minimum(epsilons[:, None] - losses, 0.0)) @ p


@pytest.mark.parametrize("spacing", [0.01, 0.3, 5.0, 800.0])
@pytest.mark.parametrize("seed", range(12))
def test_random_outcomes_with_gaps_stay_between(seed, spacing):
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 30))
    clusters = random.uniform(-50.0, 50.0, 3)
    losses = spacing * (random.choice(clusters, count) + random.normal(0.0, 2.0, count))
    p = random.exponential(size=count) ** 3
    p *= random.uniform(0.2, 1.0) / p.sum()
    losses += max(0.0, math.log(float(p @ np.exp(-np.clip(losses, -600.0, 600.0)))))
    losses = np.maximum(losses, -600.0)
    edges = np.unique(random.integers(-60, 70, 60))
    edges = edges[edges * spacing > -650.0]
    bins = outcomes_in_bins(losses, p, edges, spacing)
    epsilons = np.minimum(orders(edges, spacing), 600.0)
    exact = exact_curve(losses, p, epsilons)
    assert np.all(curve_of(discretise_above(bins, edges, spacing), epsilons) >= exact - 1e-13)
    if bins.p[1:-1].sum() > 0.0:
        for tilt in (0.0, 1.0 / spacing, -1.0 / spacing):
            lower = discretise_below(bins, edges, spacing, 0.0, tilt)
            assert np.all(curve_of(lower, epsilons) <= exact + 1e-13)


def test_a_far_mode_is_not_spent_on_lifting_a_near_one():
    losses, p = np.array([-0.7, 50.3, 50.8]), np.array([0.5, 0.25, 0.25])
    edges = np.arange(-2, 60)
    lower = discretise_below(outcomes_in_bins(losses, p, edges, 1.0), edges, 1.0)
    assert lower.mass[lower.losses > 49.0].sum() > 0.49


def single(p, q, p_error=0.0, q_error=0.0, blur=0.0):
    def around(x):
        return np.array([0.0, x, 0.0])

    return Bins(around(p), around(q), around(p_error), around(q_error), blur)


ONE = np.array([0, 1])


@pytest.mark.parametrize(
    ("p", "q", "p_error", "q_error", "width", "truth"),
    [  # the truth: P of the bin, and its loss, anywhere within the errors
        (0.5, 0.05, 0.45, 0.0, 5.0, (0.0501, 0.002)),
        (0.5, 0.5, 0.0, 0.49, 5.0, (0.5, math.log(0.5 / 0.0101))),
        (0.3, 0.0, 0.0, 1e-3, 9.0, (0.3, math.log(300.0))),
        (0.3, 0.0, 0.0, 0.3, 9.0, (0.3, 0.0)),
        (0.0, 0.1, 0.2, 0.0, 2.0, (0.2, 1.9)),
        (0.1, 0.0999, 1e-3, 1e-3, 0.5, (0.101, math.log(0.101 / 0.0989))),
        (0.1, 0.0999, 1e-3, 1e-3, 0.5, (0.1009, 0.0)),
    ],
)
def test_errors_are_taken_at_the_unfavourable_end(p, q, p_error, q_error, width, truth):
    bins = single(p, q, p_error, q_error)
    epsilons = np.linspace(-0.2 * width, 1.2 * width, 200)
    exact = exact_curve(np.array([truth[1]]), np.array([truth[0]]), epsilons)
    assert np.all(curve_of(discretise_above(bins, ONE, width), epsilons) >= exact - 1e-15)
    if p > p_error:
        assert np.all(curve_of(discretise_below(bins, ONE, width), epsilons) <= exact + 1e-15)


@pytest.mark.parametrize("share", [1e-3, 0.1, 0.9])
def test_outcomes_of_the_next_bin_cost_no_more_than_the_blur(share):
    """Most of the mass is one blur below its bin and hides the loss of the rest."""
    blur, width = 1e-3, 0.1
    losses, p = np.array([-blur, width]), np.array([1.0 - share, share])
    bins = single(1.0, float(p @ np.exp(-losses)), blur=blur)
    epsilons = np.linspace(-0.05, 0.12, 300)
    exact = exact_curve(losses, p, epsilons)
    assert np.all(curve_of(discretise_above(bins, ONE, width), epsilons - blur) >= exact - 1e-15)
    assert np.all(curve_of(discretise_below(bins, ONE, width), epsilons + blur) <= exact + 1e-15)


def test_mass_beyond_the_edges():
    """Pessimistic bins are infinite above the lattice and move up to it below.

    Optimistic bins lose the mass.
    """
    bins = Bins(*np.array([[0.2, 0.3, 0.5], [0.3, 0.25, 0.1], [0.0] * 3, [0.0] * 3]))
    upper = discretise_above(bins, ONE, 0.5, 0.125)
    assert upper.infinite == pytest.approx(0.625)
    assert upper.mass[0] >= 0.2
    assert upper.mass.sum() == pytest.approx(0.5)
    lower = discretise_below(bins, ONE, 0.5, 0.125)
    assert lower.mass.sum() == pytest.approx(0.3)
    assert lower.losses.max() <= 0.5
    assert lower.infinite == pytest.approx(0.125)


def test_tails_that_underflow_are_unknown_and_still_on_their_side():
    pair = GaussianPair(1.0)
    edges = np.arange(-60, 61)
    bins = pair.bins(edges * 0.8)  # masses and their quotients end near 38 deviations
    assert bins.q[-2] == 0.0
    epsilons = np.linspace(-47.0, 47.0, 300)
    exact, rounding = true_curve(pair, epsilons)
    assert np.all(curve_of(discretise_above(bins, edges, 0.8), epsilons) >= exact - rounding)
    assert np.all(curve_of(discretise_below(bins, edges, 0.8), epsilons) <= exact + rounding)
