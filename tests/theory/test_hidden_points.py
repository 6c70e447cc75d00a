"""Hidden points and distances under (epsilon, delta)-DP, with the factor ``sqrt(ln 1/delta)``.

The lemma is compared with the best mechanism of all, a linear program. The bounds are compared with
the exact risk of known mechanisms.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize, sparse, special
from selection import choose, few

from privopt.privacy import gaussian_mu
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    ApproximateAdvantage,
    hard_data_bounds,
    lower_bound,
    projection_mechanism_rate,
)
from privopt.theory.hard_data import directions, distances, hidden_points, hidden_positions


def advantage(epsilon, delta, relation="replace_one"):
    return ApproximateAdvantage(Budget(epsilon=epsilon, delta=delta, relation=relation))


def empirical(facts, advantage):
    """Return the lower bound of the empirical risk."""
    return lower_bound(facts, advantage).value


def linear(n, dim, **more):
    """Return a class of linear losses on the unit ball."""
    return ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0, smoothness=0.0, **more)


def convex(n, dim):
    """Return the class of convex losses on the unit ball."""
    return ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0)


def squares(n, dim):
    """Return the class of squared distances to records of the unit ball."""
    return ProblemClass(n=n, dim=dim, lipschitz=2.0, radius=1.0, strong_convexity=1.0)


# --- the lemma, against the best mechanism ---


def best_mechanism(cost, pairs, z, delta):
    """Return the least ``sum_x P_x(w) cost(w, x)`` if ``P_x(A) <= e^z P_y(A) + delta`` on pairs."""
    points, outputs = cost.shape
    size, grow = points * outputs, math.exp(z)
    each, rows = sparse.eye_array(outputs), []
    for i, (x, y) in enumerate(pairs):
        ends = sparse.lil_array((1, points))
        ends[0, x], ends[0, y] = 1.0, -grow
        place = sparse.lil_array((1, len(pairs)))
        place[0, i] = -1.0
        rows.append(sparse.hstack([sparse.kron(ends, each), sparse.kron(place, each)]))
    slack = len(pairs) * outputs  # max(P_x(w) - e^z P_y(w), 0), with a sum of at most delta
    sums = sparse.kron(sparse.eye_array(len(pairs)), np.ones((1, outputs)))
    within = sparse.hstack([sparse.csr_array((len(pairs), size)), sums])
    total = sparse.kron(sparse.eye_array(points), np.ones((1, outputs)))
    solution = optimize.linprog(
        np.r_[cost.ravel(), np.zeros(slack)],
        sparse.vstack([*rows, within]).tocsr(),
        np.r_[np.zeros(slack), np.full(len(pairs), delta)],
        sparse.hstack([total, sparse.csr_array((points, slack))]).tocsr(),
        np.ones(points),
    )
    assert solution.success
    return solution.fun / points


@pytest.mark.parametrize("z", few([0.3, 1.0, 2.5], [1.0]))
def test_no_mechanism_finds_a_hidden_point(z):
    """Points and outputs on a regular 16-gon: the pure bound is attained, others are not exceeded.

    ``s`` and ``u`` are those of the polygon. They are within 3 per cent of the circle.
    """
    size = 16
    angles = 2.0 * np.pi * np.arange(size) / size
    t = np.cos(angles)
    s = optimize.brentq(
        lambda s: math.expm1(z) * np.maximum(t - s, 0.0).mean() - s, 0.0, 1.0, xtol=1e-14
    )
    leak = 0.5 / (s + np.maximum(t - s, 0.0).mean())
    found = directions(2)
    at = np.searchsorted(found.replaced, z)
    assert found.mean[at] == pytest.approx(s, rel=0.03)
    assert found.leak[at] == pytest.approx(leak, rel=0.05)
    cost = -np.cos(angles[:, None] - angles)
    pairs = [(x, y) for x, y in itertools.product(range(size), repeat=2) if x != y]
    for delta in choose((0.0, 0.01, 0.1), (0.0, 0.1)):
        mean = -best_mechanism(cost, pairs, z, delta)
        assert mean <= s + leak * delta + 1e-9
        assert delta > 0.0 or mean == pytest.approx(s, rel=1e-6)


@pytest.mark.cases(2)
@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize("z", [0.5, 2.0])
def test_no_mechanism_is_near_a_hidden_point(z, power):
    """Points and outputs on a grid of ``[-1, 1]``: the cost is at least ``c - leak delta``."""
    x = np.linspace(-1.0, 1.0, 13)
    r = np.abs(x) ** power
    c = optimize.brentq(
        lambda c: math.expm1(z) * np.maximum(c - r, 0.0).mean() - r.mean() + c, 0.0, r.mean()
    )
    leak = c * (1.0 - c) / np.maximum(r - c, 0.0).mean()
    found = distances(1, power)
    at = np.searchsorted(-found.replaced, -z)
    assert found.cost[at] == pytest.approx(c, rel=0.15)
    assert found.leak[at] == pytest.approx(leak, rel=0.25)
    cost = np.abs(x[:, None] - x) ** power
    pairs = [(i, j) for i, j in itertools.product(range(13), repeat=2) if i != j]
    for delta in choose((0.0, 0.02, 0.1), (0.0, 0.1)):
        best = best_mechanism(cost, pairs, z, delta)
        assert c - leak * delta <= best + 1e-9
        assert best <= 1.5 * c  # the points at the ends have fewer neighbours


def points(sparsity, choices):
    """Return all points with an entry ``+-1/sqrt(s)`` in one of ``r`` places of each block."""
    block = np.concatenate([np.eye(choices), -np.eye(choices)]) / math.sqrt(sparsity)
    return np.array([np.concatenate(each) for each in itertools.product(block, repeat=sparsity)])


@pytest.mark.cases(2)
@pytest.mark.parametrize(("sparsity", "choices"), [(1, 2), (1, 4), (2, 2)])
@pytest.mark.parametrize("epsilon", [0.7, 2.5])
def test_no_mechanism_finds_hidden_positions(sparsity, choices, epsilon):
    """Outputs are the points and sums of two of them, scaled to the unit sphere."""
    x = points(sparsity, choices)
    sums = (x[:, None] + x).reshape(-1, x.shape[1])
    sums = sums[np.linalg.norm(sums, axis=1) > 0.5]
    w = np.unique(np.round(sums / np.linalg.norm(sums, axis=1, keepdims=True), 12), axis=0)
    pairs = [(i, j) for i, j in itertools.product(range(len(x)), repeat=2) if i != j]
    large = sparsity > 1  # a program with delta takes ten times as long
    for delta in choose((0.0, 0.02), (0.0,) if large else (0.0, 0.02)):
        found = hidden_positions(1, x.shape[1], sparsity, choices, advantage(epsilon, delta))
        best = -best_mechanism(-x @ w.T, pairs, epsilon, delta)
        assert 0.4 * found.correlation[0] <= best <= found.correlation[0]


@pytest.mark.parametrize(("sparsity", "choices"), [(1, 3), (3, 2), (2, 4)])
def test_the_exponential_moment_of_hidden_positions(sparsity, choices):
    """Random directions of all degrees of concentration, and the equation of the bound."""
    rng, x = np.random.default_rng(3), points(sparsity, choices)
    w = rng.normal(size=(4000, x.shape[1])) * rng.pareto(0.7, size=(4000, x.shape[1]))
    t = (w / np.linalg.norm(w, axis=1, keepdims=True)) @ x.T
    q = np.linspace(1e-3, 1.0, 5000)
    z, means = 1.3, []
    for slope in np.geomspace(0.2, 30.0, 200):
        cosh = np.cosh(slope * np.sqrt(q / sparsity))
        log_m = (np.log1p((cosh - 1.0) / choices) / q).max()
        assert np.log(np.exp(slope * t).mean(axis=1)).max() <= log_m * (1 + 1e-6)
        v = special.lambertw(math.expm1(z) * math.exp(log_m - 1.0)).real
        means.append(v / slope)
        mean = v / slope
        excess = math.exp(log_m - slope * mean - 1.0) / slope
        assert math.expm1(z) * excess == pytest.approx(mean)
        assert np.maximum(t - mean, 0.0).mean(axis=1).max() <= excess * (1 + 1e-6)
    found = hidden_positions(1, x.shape[1], sparsity, choices, advantage(z, 0.0))
    assert found.correlation[0] == pytest.approx(min(*means, 1.0), rel=0.01)


# --- the constants, one by one ---


def sphere(dim, z):
    """Solve ``(e^z - 1) E max(t - s, 0) = s`` by quadrature over a coordinate of the sphere."""
    weight = special.beta(0.5, 0.5 * (dim - 1))

    def part(s):
        angle = np.linspace(0.0, math.acos(s), 4001)
        return np.trapezoid((np.cos(angle) - s) * np.sin(angle) ** (dim - 2), angle) / weight

    s = optimize.brentq(lambda s: math.expm1(z) * part(s) - s, 1e-6, 1.0 - 1e-9)
    return s, part(s)


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
@pytest.mark.parametrize("width", [2, 5, 24])
def test_hidden_points_one_by_one(width, relation):
    n, dim, epsilon, delta = 200, 48, 0.7, 1e-6
    found = hidden_points(n, dim, width, advantage(epsilon, delta, relation))
    steps = 1 if relation is Relation.REPLACE_ONE else 2
    checked = 0
    for k in (1, 3, 6, 10):
        groups = min(dim // width, n // k)
        i = np.flatnonzero(np.isclose(found.strength, k * math.sqrt(groups) / n))[0]
        lost = sum(delta * math.exp(epsilon * j) for j in range(steps * k))
        s, u = sphere(width, steps * k * epsilon)
        if s > 0.97 or lost > 0.1:
            continue
        leak = lost / (2.0 * (s + u))
        root = 0.5 * (s + math.sqrt(s**2 + 4.0 * leak))
        assert found.explained[i] == pytest.approx(root**2, rel=0.04)
        assert found.correlation[i] == pytest.approx(root, rel=0.02)
        assert found.norm[i] == found.square[i] == 1.0
        checked += 1
    assert checked >= 2


def test_the_limits():
    """Compare with ``s = sqrt(1 - exp(-2 z/b))``, the limit of spheres, at the best ``b/z``."""
    n, dim, epsilon, delta = 10**9, 10**5, 1e-3, 1e-250
    unit = math.sqrt(dim * math.log(1.0 / delta)) / (n * epsilon)
    per = np.linspace(1.0, 30.0, 10_000)
    line = ((1.0 - np.sqrt(1.0 - np.exp(-2.0 / per))) / np.sqrt(per)).max()
    assert line == pytest.approx(0.191, abs=5e-4)
    near = (np.exp(-1.0 / per) / np.sqrt(per)).max()
    assert near == pytest.approx(0.429, abs=5e-4)
    bounds = hard_data_bounds(convex(n, dim), advantage(epsilon, delta))
    assert 0.93 <= bounds["hidden points"] / (line * unit) <= 1.01
    assert 0.93 <= bounds["distances"] / (near * unit) <= 1.01
    bounds = hard_data_bounds(squares(n, dim), advantage(epsilon, delta))
    for name in ("hidden points", "distances"):
        assert 0.88 <= bounds[name] / (unit**2 / (4.0 * math.e)) <= 1.02


# --- never above a known mechanism ---


def noisy_direction(n, dim, mu):
    """Return the worst risk of ``y/|y|``, ``y`` the mean plus Gaussian noise, on linear losses.

    The mean of ``<y, u>/|y|`` along the mean ``t u`` has a closed form in ``1F1``.
    """
    sigma = 2.0 / (n * mu)
    t = np.minimum(np.geomspace(1e-3, 30.0, 400) * sigma * math.sqrt(dim), 1.0)
    half = 0.5 * (t / sigma) ** 2
    scale = math.exp(special.gammaln(0.5 * (dim + 1)) - special.gammaln(0.5 * dim + 1.0))
    cosine = np.sqrt(half) * scale * special.hyp1f1(0.5, 0.5 * dim + 1.0, -half)
    large = half > 500.0  # 1 - cosine is at most (d - 1)/(2 (t/sigma)^2)
    loss = np.where(large, 0.25 * (dim - 1) / half, 1.0 - cosine)
    return float((t * loss).max())


GRID = list(
    itertools.product(
        [1, 10, 1000, 10**5], [1, 2, 7, 40, 300], [0.05, 0.5, 1.0, 3.0], [1e-3, 1e-6, 1e-10, 1e-30]
    )
)


def test_never_above_the_risk_of_noise():
    """Gaussian noise is exact for its mu; noise of density ``exp(-n epsilon |x|/2)`` is pure."""
    closest_line = closest_square = 0.0
    for n, dim, epsilon, delta in GRID:
        mu, guarantee = gaussian_mu(epsilon, delta), advantage(epsilon, delta)
        pure = 2.0 / (n * epsilon)
        least = min(noisy_direction(n, dim, mu), 2.0 * dim * pure, 1.0)
        lower = empirical(linear(n, dim), guarantee)
        assert 0.0 < lower <= least, (n, dim, epsilon, delta)
        closest_line = max(closest_line, lower / least)
        least = 0.5 * min(dim * (2.0 / (n * mu)) ** 2, dim * (dim + 1) * pure**2, 1.0)
        lower = empirical(squares(n, dim), guarantee)
        assert 0.0 < lower <= least, (n, dim, epsilon, delta)
        closest_square = max(closest_square, lower / least)
    assert closest_line > 0.5
    assert closest_square > 0.5


@pytest.mark.parametrize("kind", [linear, squares, convex])
def test_monotone(kind):
    """In delta exactly, along the other axes up to the loss of grids."""
    deltas = [advantage(1.0, 10.0**-j) for j in range(2, 40, 3)] + [advantage(1.0, 0.0)]
    values = [empirical(kind(1000, 50), each) for each in deltas]
    assert values == sorted(values)
    assert values[-1] > 1.2 * values[0]
    epsilons = [advantage(e, 1e-8) for e in np.geomspace(1e-3, 8.0, 30)]
    values = np.array([empirical(kind(1000, 50), each) for each in epsilons])
    assert np.all(values[1:] <= 1.02 * values[:-1])
    guarantee = advantage(1.0, 1e-8)
    values = np.array([empirical(kind(round(n), 50), guarantee)
                       for n in np.geomspace(10, 1e6, 30)])  # fmt: skip
    assert np.all(values[1:] <= 1.02 * values[:-1])
    values = np.array([empirical(kind(10**4, round(d)), guarantee)
                       for d in np.geomspace(1, 1e4, 60)])  # fmt: skip
    assert np.all(values[1:] >= 0.95 * values[:-1])


def test_the_gain_at_practical_sizes():
    """The largest bound over hidden signs, counts and fingerprints, at most, and the new one."""
    gains = {}
    for n, dim, epsilon, delta in [(1000, 40, 1.0, 1e-6), (10**4, 1000, 1.0, 1e-9),
                                   (10**6, 10**4, 4.0, 1e-12)]:  # fmt: skip
        for name, kind in (("linear", linear), ("squares", squares), ("convex", convex)):
            facts = kind(n, dim)
            bounds = hard_data_bounds(facts, advantage(epsilon, delta))
            old = max(bounds[each] for each in ("hidden signs", "hidden counts", "fingerprints"))
            largest = empirical(facts, advantage(epsilon, delta))
            assert largest == max(old, bounds["hidden points"], bounds["distances"])
            gains[name, n] = largest / old
    assert gains["linear", 1000] == pytest.approx(1.47, abs=0.05)
    assert gains["convex", 1000] == pytest.approx(2.8, abs=0.1)
    assert gains["squares", 1000] == 1.0
    assert gains["linear", 10**6] > 6.0


def test_the_gain_for_sparse_records():
    """Means: 0.0022 in place of 0.0004. Linear losses: 0.034 in place of 0.017."""
    guarantee = advantage(1.0, 1e-6)
    means = replace(squares(1000, 4096), sparsity=4)
    for facts, old, new in (
        (means, 0.00042, 0.0022),
        (linear(1000, 4096, sparsity=4), 0.017, 0.034),
    ):
        bounds = hard_data_bounds(facts, guarantee)
        assert bounds["hidden signs"] == pytest.approx(old, rel=0.02)
        assert bounds["hidden positions"] == pytest.approx(new, rel=0.03)
        assert max(bounds, key=bounds.get) == "hidden positions"
        assert empirical(facts, guarantee) <= empirical(facts, advantage(1.0, 0.0))


@pytest.mark.parametrize(("n", "dim", "sparsity"), [(10, 64, 1), (300, 512, 4), (2000, 4096, 16)])
def test_sparse_bounds_are_below_projected_noise(n, dim, sparsity):
    """The exact bound of the projection mechanism, with the better noise."""
    for epsilon, delta in itertools.product([0.1, 1.0, 3.0], [1e-3, 1e-6, 1e-12]):
        facts = replace(squares(n, dim), sparsity=sparsity, smoothness=1.0)
        least = min(
            projection_mechanism_rate(
                facts, noise=kind, scale=scale, body="l1_l2", clip_norm=1.0
            ).upper
            for kind, scale in (
                ("gaussian", 2.0 / (n * gaussian_mu(epsilon, delta))),
                ("laplace", 2.0 * math.sqrt(sparsity) / (n * epsilon)),
            )
        )
        assert 0.0 < empirical(facts, advantage(epsilon, delta)) <= min(least, 0.5)
