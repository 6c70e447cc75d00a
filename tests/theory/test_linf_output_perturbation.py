"""The bounds of l_inf-projected output perturbation: constants of the source, and exponents."""

from __future__ import annotations

import dataclasses
import itertools
import math

import jax
import numpy as np
import pytest
from scipy import optimize
from selection import few

import privopt
from privopt import convex, problems
from privopt.theory import perturbation_cost, pure_balanced_minimiser
from privopt.theory.sparse_means import NoiseVector

plan_of = privopt.ALGORITHMS["linf_output_perturbation"].plan
BALL = privopt.ProblemClass(
    n=20_000, dim=4000, lipschitz=2.0, radius=3.0, smoothness=0.5, sparsity=4
)
SPACE = dataclasses.replace(BALL, radius=math.inf)
APPROXIMATE = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
PURE = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")
CASES = {
    "gaussian": (BALL, APPROXIMATE, {}),
    "paper": (BALL, APPROXIMATE, {"mode": "paper"}),
    "l2": (BALL, APPROXIMATE, {"projection": "l2"}),
    "ball": (BALL, APPROXIMATE, {"projection": "ball"}),
    "ball, linear predictions": (BALL, APPROXIMATE, {"projection": "ball", "glm": True}),
    "ball, fixed": (BALL, APPROXIMATE, {"projection": "ball", "regularisation": 0.1}),
    "population": (BALL, APPROXIMATE, {"quantity": "population risk"}),
    "population, fixed": (
        BALL, APPROXIMATE, {"quantity": "population risk", "regularisation": 0.1}
    ),
    "whole space": (SPACE, APPROXIMATE, {"distance": 3.0}),
    "linear predictions": (SPACE, APPROXIMATE, {"distance": 3.0, "glm": True}),
    "kinks": (dataclasses.replace(BALL, smoothness=None), APPROXIMATE, {}),
    "fixed": (BALL, APPROXIMATE, {"regularisation": 0.1}),
    "pure": (SPACE, PURE, {"distance": 3.0}),
    "pure population": (SPACE, PURE, {"distance": 3.0, "quantity": "population risk"}),
    "pure paper": (SPACE, PURE, {"distance": 3.0, "mode": "paper"}),
    "pure linear predictions": (SPACE, PURE, {"distance": 3.0, "glm": True}),
    "pure linear losses": (dataclasses.replace(SPACE, smoothness=0.0), PURE, {"distance": 3.0}),
    "pure kinks": (
        dataclasses.replace(SPACE, smoothness=None, dim=60_000), PURE,
        {"distance": 3.0, "glm": True},
    ),
    "pure, few dimensions": (dataclasses.replace(SPACE, dim=8), PURE, {"distance": 3.0}),
    "pure fixed": (SPACE, PURE, {"distance": 3.0, "regularisation": 0.1}),
}  # fmt: skip


def uncapped(case, **changes):
    facts, budget, choices = CASES[case]
    if "epsilon" in changes:  # at its ratio to mu
        epsilon = changes.pop("epsilon")
        mu = privopt.privacy.gaussian_mu(budget.epsilon, budget.delta) if budget.delta else 1.0
        delta = (
            privopt.privacy.gaussian_delta(epsilon, mu=mu * epsilon).upper if budget.delta else 0.0
        )
        budget = dataclasses.replace(budget, epsilon=epsilon, delta=delta)
    rate = plan_of(dataclasses.replace(facts, **changes), budget, **choices).rate
    return rate.uncapped, rate


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    "case", few(CASES, CASES.keys() - {"ball, linear predictions", "ball, fixed"})
)
def test_the_bound_moves_as_its_terms_declare(case):
    """Two settings 4 % to 20 % apart on every axis; slopes are those of the rate within 0.01."""
    here, rate = uncapped(case)
    axes = {"n": (20_000, 24_000), "sparsity": (4, 5)}
    dim = CASES[case][0].dim
    axes["dim"] = (dim, round(1.25 * dim))
    if case not in ("paper",):  # its noise is no function of epsilon over mu
        axes["epsilon"] = (1.0, 0.96)
    for axis, (first, second) in axes.items():
        step = math.log(second / first)
        there, other = uncapped(case, **{axis: second})
        measured = math.log(there / here) / step
        declared = 0.5 * (rate.slope(axis) + other.slope(axis))
        assert measured == pytest.approx(declared, abs=0.01)


def displayed(phi, *, published=False, smoothness=1.0):
    """``E F - F* <= (2 L^2 Phi/lambda)(1 + sqrt(H/(2 lambda))) + lambda D^2/2`` minimised."""

    def bound(log):
        weight = math.exp(log)
        spread = 1.0 + math.sqrt(smoothness / (2.0 * weight))
        if published:
            spread = math.sqrt(2.0) * (1.0 + 2.0 * smoothness / weight)
        return 2.0 * phi * spread / weight + 0.5 * weight

    return optimize.minimize_scalar(bound, bounds=(-15, 5), method="bounded").fun


@pytest.mark.parametrize(
    ("phi", "published", "tight"),
    [(1e-2, 0.502, 0.300), (1e-3, 0.222, 0.111), (1e-4, 0.101, 0.042)],
)
def test_pure_bounds_are_those_displayed(phi, published, tight):
    """``L = D = H = 1``; here the regulariser costs half as much as displayed."""
    assert displayed(phi, published=True) == pytest.approx(published, abs=6e-4)
    assert displayed(phi) == pytest.approx(tight, abs=6e-4)
    dim, sparsity = 1000, 4
    largest = float(np.sum(1.0 / np.arange(1, dim + 1)))
    units = {"lipschitz": 1.0, "radius": math.inf, "smoothness": 1.0, "sparsity": sparsity}
    facts = privopt.ProblemClass(n=round(sparsity * largest / phi), dim=dim, **units)
    paper = plan_of(facts, PURE, distance=1.0, mode="paper").rate
    assert paper.upper == pytest.approx(published, abs=1.5e-3)
    ours = plan_of(facts, PURE, distance=math.sqrt(2.0)).rate
    assert ours.upper == pytest.approx(displayed(phi), rel=4e-3)


def test_the_published_rate():
    """``4 L D (s Lambda)^{1/4}/sqrt(n epsilon)``, ``Lambda = ln(1.25/delta) ln(2d)``."""
    rate = plan_of(BALL, APPROXIMATE, mode="paper").rate
    logs = math.log(1.25e6) * math.log(8000.0)
    expected = 4.0 * 2.0 * 3.0 * (4.0 * logs) ** 0.25 / math.sqrt(20_000.0)
    assert rate.upper == pytest.approx(expected, rel=2e-3)
    assert rate.exponents["sparsity"] == 0.25
    assert rate.tight_on == "sparse_linear"


def test_kinks_reach_a_third():
    """``sqrt(3) L D Phi^{1/3}`` at the displayed regulariser, ``g = L sqrt(s) H_d``."""
    phi = 1e-9
    facts = privopt.ProblemClass(n=1, dim=10**9, lipschitz=1.0, radius=math.inf, sparsity=1)
    best = privopt.theory.smoothed_pure_balanced_minimiser(
        facts, unit=2.0 * phi, cost=1.0, distance=math.sqrt(2.0)
    )
    bound = 0.5 * best.regularisation / (1.0 - 0.5)
    assert bound == pytest.approx(math.sqrt(3.0) * phi ** (1 / 3), rel=2e-3)
    assert best.smoothing == pytest.approx(phi ** (1 / 3) / math.sqrt(3.0), rel=2e-3)
    assert best.power == pytest.approx(1 / 3, abs=1e-3)


@pytest.mark.parametrize("gaussian", [True, False])
def test_costs_hold_for_noise(gaussian):
    """Means over 2000 draws, within four standard errors above; none is loose by 2."""
    rng = np.random.default_rng(0)
    facts = dataclasses.replace(SPACE, dim=50, lipschitz=1.0)
    draw = rng.normal if gaussian else rng.laplace
    noise = draw(size=(2000, 50))
    direction = np.zeros(50)
    direction[:2] = 0.5**0.5
    for glm, sizes in ((False, 2.0 * np.abs(noise).max(axis=1)), (True, abs(noise @ direction))):
        cost = perturbation_cost(facts, gaussian=gaussian, glm=glm).factor
        error = 4.0 * sizes.std() / math.sqrt(2000)
        assert sizes.mean() <= cost + error
        assert cost <= 1.4 * sizes.mean()


def norm_of_largest(rows, count):
    return np.linalg.norm(np.partition(np.abs(rows), -count)[:, -count:], axis=1)


def back_into_the_ball(points, radius=1.0):
    """The least thresholds, by bisection."""
    low, high = np.zeros(len(points)), np.abs(points).max(axis=1)
    for _ in range(35):  # to 1e-10
        middle = 0.5 * (low + high)
        left = np.linalg.norm(np.maximum(np.abs(points) - middle[:, None], 0.0), axis=1)
        low, high = np.where(left > radius, (middle, high), (low, middle))
    return np.where(np.linalg.norm(points, axis=1) <= radius, 0.0, high)


@pytest.mark.parametrize("dim", few([3, 60, 1000], [3, 60]))
def test_costs_hold_for_noise_on_a_ball(dim):
    """Test members of one to ``d`` numbers on the sphere, half-way or at the centre; five errors.

    The directions are the worst sparse one, and a fixed one for linear predictions. The threshold
    is at most 1.6 times the smallest valid one if the ball binds, and its logarithm is not that of
    ``d``.
    """
    rng, sparsity, tightest = np.random.default_rng(3), min(dim, 4), 0.0
    facts = dataclasses.replace(
        BALL, dim=dim, radius=1.0, lipschitz=1.0, sparsity=sparsity, smoothness=None
    )
    for scale in (1.0, 0.1, 0.01):
        noise = NoiseVector("gaussian", scale, dim)
        known = {"gaussian": True, "projection": "ball", "scale": scale}
        general, glm = (
            scale * perturbation_cost(facts, glm=glm, **known).factor for glm in (False, True)
        )
        root, few = math.sqrt(sparsity), math.sqrt(2.0 / math.pi) * scale
        threshold = root * noise.ball_threshold(1.0)
        assert glm == pytest.approx(min(few, root * noise.largest) + threshold)
        few = min(noise.largest_few(sparsity), root * noise.largest)
        assert general == pytest.approx(few + threshold)
        on_few_or_all = itertools.product((1, 2, dim // 2, dim), (1.0, 0.5))
        for used, length in (*on_few_or_all, (0, 0.0)):
            member = np.where(np.arange(dim) < used, length / math.sqrt(max(used, 1)), 0.0)
            drawn = scale * rng.normal(size=(300, dim))
            thresholds = back_into_the_ball(member + drawn)
            shrunk = np.maximum(np.abs(member + drawn) - thresholds[:, None], 0.0)
            moved = np.sign(member + drawn) * shrunk - member
            largest = norm_of_largest(moved, sparsity)
            fixed = np.abs(moved[:, -sparsity:].sum(axis=1)) / math.sqrt(sparsity)
            pairs = ((thresholds, noise.ball_threshold(1.0)), (largest, general), (fixed, glm))
            for found, told in pairs:
                assert found.mean() <= told + 5.0 * found.std() / math.sqrt(300)
            tightest = max(tightest, thresholds.mean() / noise.ball_threshold(1.0))
        few = norm_of_largest(drawn, sparsity).mean() / noise.largest_few(sparsity)
        assert 0.85 <= few <= 1.02
    assert tightest > 0.62
    if dim == 1000:
        assert noise.ball_threshold(1.0) < 0.55 * noise.largest


@pytest.mark.parametrize(("dim", "least"), [(60, 0.55), (1000, 0.75)])
def test_thresholds_inside_a_ball(dim, least):
    """Mean and variance of the threshold by simulation, within five standard errors.

    Points of every norm have one to ``d`` equal nonzeros, or one large coordinate and many small
    ones. The bound increases with the norm, and the largest mean is above a share of it.
    """
    rng, tightest, norms = np.random.default_rng(7), 0.0, (0.0, 0.5, 0.9, 1.0)
    for scale in (0.3, 0.03):
        noise = NoiseVector("gaussian", scale, dim)
        bounds = [noise.ball_threshold(1.0, norm) for norm in norms]
        assert bounds == sorted(bounds)
        assert bounds[-1] == noise.ball_threshold(1.0)
        for norm, bound in zip(norms, bounds, strict=True):
            shapes = [np.arange(dim) < used for used in (1, 4, dim // 4, dim)]
            shapes.append(np.where(np.arange(dim) == 0, 1.0, 0.3 / math.sqrt(dim)))
            for shape in shapes:
                point = norm * shape / np.linalg.norm(shape)
                thresholds = back_into_the_ball(point + scale * rng.normal(size=(200, dim)))
                spread = float(thresholds.std(ddof=1))
                assert thresholds.mean() <= bound + 5.0 * spread / math.sqrt(200)
                assert spread <= scale * 1.3  # five standard errors of a deviation
                tightest = max(tightest, thresholds.mean() / bound)
    assert tightest > least


def test_smooth_sparse_losses_are_flat_in_few_coordinates():
    """``f = |(w - R/2)_+|^2/2`` on the ball: at most three nonzeros, which depend on the point."""
    rng = np.random.default_rng(8)

    def loss(point):
        return 0.5 * np.sum(np.maximum(point - 0.5, 0.0) ** 2)

    largest = 0.0
    for _ in range(2000):
        pair = rng.normal(size=(2, 12)) ** 3
        first, second = pair / np.linalg.norm(pair, axis=1, keepdims=True)
        gradient = np.maximum(first - 0.5, 0.0)
        assert np.count_nonzero(gradient) <= 3
        step = second - first
        gap = loss(second) - loss(first) - gradient @ step
        few = 0.5 * norm_of_largest(step[None], 3)[0] ** 2
        assert gap <= few
        largest = max(largest, gap / few)
    assert largest > 0.1


@pytest.mark.parametrize("smoothness", [0.0, 0.5])
@pytest.mark.parametrize(
    ("weight", "scale", "dim"),
    few(
        [(0.05, 0.08, 8192), (0.3, 0.0133, 8192), (1.0, 0.004, 8192), (0.01, 0.02, 1000)],
        [(0.3, 0.0133, 8192), (0.01, 0.02, 1000)],
    ),
)
def test_a_minimiser_on_a_ball_has_the_bound(smoothness, weight, scale, dim):
    """``F(w) = -a <x, w>/K + (H/2) sum_k <x_k, w>^2/K`` on ``K`` blocks of four nonzeros.

    ``x`` is the sum of the unit vectors ``x_k``, and ``|grad| <= a + H = 1``. Means of 100 samples
    are below the bound, within five standard errors. The bound of linear losses is at most 1.7
    times the mean at one ``K``, and the bound at any point is at least 1.1 times larger. In the
    last case the worst minimiser is on the sphere; inside the ball the noise costs almost nothing.
    """
    rng, sparsity = np.random.default_rng(9), 4
    facts = privopt.ProblemClass(
        n=1000, dim=dim, lipschitz=1.0, radius=1.0, smoothness=smoothness, sparsity=sparsity
    )
    known = {"gaussian": True, "projection": "ball", "scale": scale}
    cost = perturbation_cost(facts, **known, regularisation=weight, distance=1.0)
    anywhere = perturbation_cost(facts, **known)
    bound = 0.25 * weight + scale * cost.factor
    tightest, push = 0.0, 1.0 - smoothness
    for blocks in (each for each in (1, 4, 16, 64, 256, 1024) if each * sparsity <= dim):
        used = blocks * sparsity
        flat = np.where(np.arange(dim) < used, used**-0.5, 0.0)  # at length r, <x_k, w> = r/sqrt(K)
        root = math.sqrt(blocks)

        def risk(points, used=used, blocks=blocks, root=root, flat=flat):
            values = 0.5 * points[:, :used].reshape(len(points), blocks, sparsity).sum(axis=2)
            return -push / root * (points @ flat) + 0.5 * smoothness * (values**2).mean(axis=1)

        best, length = (
            min(1.0, push / root / (smoothness / blocks + each)) if smoothness + each > 0.0 else 1.0
            for each in (0.0, weight)
        )
        noisy = length * flat + scale * rng.normal(size=(100, dim))
        thresholds = back_into_the_ball(noisy)[:, None]
        points = np.sign(noisy) * np.maximum(np.abs(noisy) - thresholds, 0.0)
        excess = risk(points) - risk(best * flat[None])
        assert excess.mean() <= bound + 5.0 * excess.std() / 10.0
        tightest = max(tightest, excess.mean() / bound)
    assert cost.factor <= anywhere.factor
    if smoothness == 0.0 and weight == 0.3:
        assert tightest > 0.6
        assert anywhere.factor > 1.1 * cost.factor


@pytest.mark.thorough  # as all default plans in test_monotone.py
def test_the_bound_of_the_ball_is_monotone():
    """More records, and a larger ``epsilon`` or ``delta``, have a smaller bound."""
    for axis, values in {
        "n": (500, 4000, 20_000, 100_000),
        "epsilon": (0.1, 1.0, 3.0),
        "delta": (1e-9, 1e-6, 1e-3),
    }.items():
        for facts in (BALL, dataclasses.replace(BALL, smoothness=None)):
            bounds = []
            for value in values:
                if axis == "n":
                    plan = plan_of(
                        dataclasses.replace(facts, n=value), APPROXIMATE, projection="ball"
                    )
                else:
                    budget = dataclasses.replace(APPROXIMATE, **{axis: value})
                    plan = plan_of(facts, budget, projection="ball")
                bounds.append(plan.rate.uncapped)
            assert bounds == sorted(bounds, reverse=True)


@pytest.mark.parametrize("facts", [BALL, dataclasses.replace(BALL, smoothness=None)])
@pytest.mark.parametrize("n", few([500, 20_000], [500]))
def test_stationarity_never_costs(facts, n):
    """The bound is at most that with the cost at any point, at every ``lambda``."""
    facts = dataclasses.replace(facts, n=n)
    for weight in (0.01, 0.1, 1.0, 10.0):
        plan = plan_of(facts, APPROXIMATE, projection="ball", regularisation=weight)
        scale = plan.params.mechanism.scale
        known = {"gaussian": True, "projection": "ball", "scale": scale}
        terms = {term.name: term.value for term in plan.rate.terms}
        anywhere = perturbation_cost(facts, **known).factor
        assert terms["noise"] <= scale * anywhere
        wide = perturbation_cost(facts, **known, regularisation=weight, distance=6.0)
        assert wide.factor == anywhere  # D = 2R


def test_a_ball_is_declared_and_held_to():
    """The bound at its best regulariser is below that of any set. Other sets are rejected."""
    plain, ball = plan_of(BALL, APPROXIMATE), plan_of(BALL, APPROXIMATE, projection="ball")
    assert ball.rate.upper < 0.6 * plain.rate.upper
    kinks = dataclasses.replace(BALL, smoothness=None)
    general, linear = (
        plan_of(kinks, APPROXIMATE, projection="ball", glm=glm) for glm in (False, True)
    )
    assert linear.rate.upper < 0.75 * general.rate.upper
    assert ball.rate.upper < 0.9 * general.rate.upper < 0.9 * 0.9 * plain.rate.upper
    for factor in (0.8, 1.25):
        weight = factor * ball.params.mechanism.query.regularisation
        other = plan_of(BALL, APPROXIMATE, projection="ball", regularisation=weight)
        assert ball.rate.upper < other.rate.upper
    small = dataclasses.replace(BALL, n=4, dim=2, sparsity=2)
    planned = plan_of(small, APPROXIMATE, projection="ball")
    features = np.eye(2)[[0, 1, 0, 1]]
    nearer = dataclasses.replace(small, radius=2.0)
    for facts, constraint, told in (
        (small, convex.L1Ball(3.0), "problem must provide ball"),
        (nearer, convex.L2Ball(2.0), r"problem.radius must be the plan's 3.0, got 2.0"),
    ):
        where = problems.linear(features, problem_class=facts, constraint=constraint)
        with pytest.raises(ValueError, match=told):
            privopt.run(planned, where, jax.random.key(0))


def test_without_noise_the_regulariser_alone_costs_on_a_ball():
    """The control of experiments."""
    silent = plan_of(BALL, APPROXIMATE, projection="ball").with_noise(0.0)
    terms = {term.name: term.value for term in silent.rate.terms}
    assert terms["noise"] == 0.0
    assert silent.rate.uncapped == pytest.approx(terms["regulariser"] + terms["solver"])


def test_a_population_has_a_stiffer_minimiser_and_a_larger_bound():
    plain, other = (
        plan_of(BALL, APPROXIMATE, quantity=f"{kind} risk") for kind in ("empirical", "population")
    )
    weights = [plan.params.mechanism.query.regularisation for plan in (plain, other)]
    assert weights[0] < weights[1]
    gap = 2.0 * BALL.lipschitz**2 / (weights[1] * BALL.n)
    terms = {term.name: term.value for term in other.rate.terms}
    assert terms["generalisation"] == pytest.approx(gap)
    assert terms["noise"] + gap == pytest.approx(terms["regulariser"], rel=2e-3)
    assert plain.rate.upper < other.rate.upper < plain.rate.upper + 2.0 * gap
    assert (plain.rate.quantity, other.rate.quantity) == ("empirical risk", "population risk")
    for weight in (0.9 * weights[1], 1.1 * weights[1]):
        moved = plan_of(BALL, APPROXIMATE, quantity="population risk", regularisation=weight)
        assert moved.rate.upper > other.rate.upper
    for facts, budget, choices in (
        (SPACE, PURE, {"distance": 3.0, "mode": "paper"}),
        (BALL, APPROXIMATE, {"mode": "paper"}),
        (BALL, APPROXIMATE, {"projection": "ball"}),
    ):
        with pytest.raises(ValueError, match="quantity must be empirical risk but for"):
            plan_of(facts, budget, quantity="population risk", **choices)
    with pytest.raises(ValueError, match="quantity must be empirical risk or population risk"):
        plan_of(BALL, APPROXIMATE, quantity="regret")


def test_pure_population_risk_is_within_its_bound():
    """Huber losses of 400 records drawn from 300 equally likely ones, 30 samples, exact risks."""
    rng, dim, n = np.random.default_rng(0), 30, 400
    x = np.zeros((300, dim))
    for row in x:
        row[rng.choice(dim, 2, replace=False)] = rng.choice([-1.0, 1.0], 2) / math.sqrt(2.0)
    target = rng.normal(size=dim)
    y = x @ (target / np.linalg.norm(target)) + 0.1 * rng.normal(size=300)
    facts = privopt.ProblemClass(
        n=n, dim=dim, lipschitz=1.0, radius=math.inf, smoothness=1.0, sparsity=2
    )
    least = np.linalg.lstsq(x, y, rcond=None)[0]
    assert np.abs(x @ least - y).max() < 1.0  # where Huber losses are squares
    choices = {"distance": 1.1 * float(np.linalg.norm(least)), "glm": True}
    plain, plan = (
        privopt.linf_output_perturbation(facts, PURE, quantity=f"{kind} risk", **choices)
        for kind in ("empirical", "population")
    )
    weight = plan.params.mechanism.query.minimiser.regularisation
    assert weight == plain.params.mechanism.query.minimiser.regularisation
    gap = 2.0 / (weight * n)
    assert plan.rate.upper == pytest.approx(plain.rate.upper + gap, rel=1e-12)

    def risk(w):
        errors = np.abs(x @ w - y)
        return np.where(errors < 1.0, 0.5 * errors**2, errors - 0.5).mean()

    excesses = []
    for seed in range(30):
        drawn = rng.integers(300, size=n)
        where = privopt.problems.huber(x[drawn], y[drawn], width=1.0, problem_class=facts)
        point = np.asarray(privopt.run(plan, where, jax.random.key(seed)).released)
        excesses.append(risk(point) - risk(least))
    error = np.std(excesses) / math.sqrt(30)
    assert 0.0 < np.mean(excesses) + 4.0 * error <= plan.rate.upper


def test_nothing_is_claimed_outside_the_set():
    rate = plan_of(BALL, APPROXIMATE, projection="none").rate
    assert rate.upper == math.inf
    assert "outside the set" in rate.theorem


def test_a_shorter_distance_has_no_lower_bound():
    near = plan_of(BALL, APPROXIMATE, distance=1e-4).rate
    assert near.lower == ()
    assert plan_of(BALL, APPROXIMATE).rate.lower[0].value > 0.0


def test_dense_and_sparse_spreads_are_compared():
    facts = dataclasses.replace(SPACE, smoothness=100.0)
    for dim in (8, 40_000):
        here = dataclasses.replace(facts, dim=dim)
        best = pure_balanced_minimiser(here, unit=1e-3, cost=1.0, glm=False, distance=1.0)

        def bound(weight, dim=dim):
            spread = min(math.sqrt(dim), 2.0 + 0.5 * math.sqrt(8.0 * 100.0 / weight))
            return 1e-3 * spread / weight + 0.25 * weight

        grid = np.exp(np.linspace(-8, 2, 20_001))
        least = min(map(bound, grid))
        assert bound(best.regularisation) <= least * (1.0 + 1e-6)
        assert best.power == pytest.approx(1.0 - 0.25 * best.regularisation / least, abs=1e-3)
