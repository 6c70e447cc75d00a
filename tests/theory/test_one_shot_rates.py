"""The rates of one-shot methods: their terms add up to the theorem, are tuned, and are true."""

import dataclasses
import math

import numpy as np
import pytest
from builders import onto_ball
from hypothesis import given
from hypothesis import strategies as st

from privopt.spec import ProblemClass
from privopt.theory import (
    Exponents,
    ball_perturbation_rate,
    ball_perturbation_regularisation,
    exponential_mechanism_rate,
    objective_perturbation_rate,
    output_perturbation_rate,
    perturbed_minimiser_regularisation,
    perturbed_objective_regularisation,
    unprojected_perturbation_rate,
    unprojected_perturbation_regularisation,
)

positive = st.floats(1e-3, 1e3)


def cls(lipschitz=1.0, radius=1.0):
    return ProblemClass(n=10, dim=4, lipschitz=lipschitz, radius=radius)


FACTS = ProblemClass(n=400, dim=9, lipschitz=2.0, radius=0.7, smoothness=1.5)
NOISE = {"noise_norm": 0.3, "noise_square": 0.1}
SOLVED = {"solver_error": 0.01, "smoothing": 0.02}


@pytest.mark.parametrize("regularisation", [0.0, 0.4])
@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("balanced", [True, False])
def test_output_perturbation_adds_up(balanced, gaussian, regularisation):
    numbers = {"regularisation": regularisation, **NOISE, **SOLVED}
    rate = output_perturbation_rate(FACTS, gaussian=gaussian, balanced=balanced, **numbers)
    expected = regularisation * 0.49 / 4 + 2.0 * 0.31 + 2.0 * 0.02
    assert rate.upper == pytest.approx(expected, rel=1e-12)
    power = 0.5 if balanced else 1.0
    per_norm = 0.5 if gaussian else 1.0
    assert rate.terms[0].powers == Exponents(n=-power, dim=power * per_norm, epsilon=-power)
    (solver,) = (term for term in rate.terms if term.name == "solver")
    stiffer = Exponents(n=-0.5, dim=-0.5 * per_norm, epsilon=0.5)
    assert solver.powers == (stiffer if balanced else Exponents(n=-1.0))


@pytest.mark.parametrize("regularisation", [0.0, 0.4])
@pytest.mark.parametrize("balanced", [True, False])
def test_a_stationary_minimiser_has_the_smaller_of_two_bounds(balanced, regularisation):
    for square in (0.01, 100.0):
        numbers = {"regularisation": regularisation, "noise_norm": 0.3, "noise_square": square}
        usual = {"gaussian": True, "balanced": balanced}
        rate = output_perturbation_rate(FACTS, stationary=True, **numbers, **usual)
        plain = output_perturbation_rate(FACTS, **numbers, **usual)
        far = math.sqrt(square)
        risen = regularisation * 0.49 / 4 * (1.0 + min(1.0, 2.0 * far / 0.7))
        risen += 0.5 * (1.5 + regularisation) * square
        assert rate.upper == pytest.approx(min(plain.upper, risen), rel=1e-12)
        if not balanced:
            assert rate.exponents["n"] == (-2.0 if risen < plain.upper else -1.0)


def test_whole_space():
    whole = dataclasses.replace(FACTS, radius=math.inf)
    numbers = {"gaussian": True, "balanced": False, **NOISE}
    assert output_perturbation_rate(whole, regularisation=0.1, **numbers).upper == math.inf
    assert output_perturbation_rate(whole, regularisation=0.0, **numbers).upper == 0.6
    tilted = {"noise_second_moment": 0.1, "distance": 0.0, "gaussian": True, "tuned": False}
    assert objective_perturbation_rate(whole, regularisation=0.1, **tilted).upper == math.inf


@pytest.mark.parametrize("tuned", [True, False])
@pytest.mark.parametrize("gaussian", [True, False])
def test_objective_perturbation_adds_up(gaussian, tuned):
    numbers = {"regularisation": 0.4, "noise_second_moment": 0.09, "distance": 0.01}
    rate = objective_perturbation_rate(FACTS, gaussian=gaussian, tuned=tuned, **numbers)
    assert rate.upper == pytest.approx(0.1 * 0.49 + 0.09 / 1.6 + 2.0 * 0.01, rel=1e-12)
    power = 1.0 if tuned else 2.0
    dim = power * (0.5 if gaussian else 1.0)
    assert rate.terms[0].powers == Exponents(n=-power, dim=dim, epsilon=-power)
    assert rate.tight_on == ("huber" if tuned else None)


@pytest.mark.parametrize(
    ("pure", "balanced", "exponents"),
    [(True, True, (-1, 1, -1)), (False, True, (-1, 0.5, -1)), (False, False, (-2, 1, -2))],
)
def test_the_exponential_mechanism_adds_up(pure, balanced, exponents):
    numbers = {"temperature": 0.03, "regularisation": 0.0 if pure else 0.2}
    rate = exponential_mechanism_rate(FACTS, pure=pure, balanced=balanced, **numbers)
    assert rate.upper == pytest.approx(9 * 0.03 + numbers["regularisation"] * 0.49 / 4, rel=1e-12)
    assert rate.terms[0].powers == Exponents(*exponents)


# --- output perturbation: the norm of the noise ---


def perturbed_minimiser(problem_class, **numbers):
    """Return the bound without the cap of the set."""
    rate = output_perturbation_rate(
        problem_class, noise_square=0.0, gaussian=True, balanced=False, **numbers
    )
    return rate.uncapped


@given(positive, positive, positive)
def test_tuning_balances_and_minimises(lipschitz, radius, unit):
    c = cls(lipschitz, radius)

    def bound(regularisation):
        return perturbed_minimiser(
            c, regularisation=regularisation, noise_norm=unit / regularisation
        )

    best = perturbed_minimiser_regularisation(c, unit_noise_norm=unit)
    least = radius * math.sqrt(lipschitz * unit)
    assert bound(best) == pytest.approx(least, rel=1e-12)
    assert best * radius**2 == pytest.approx(lipschitz * unit / best * 4.0, rel=1e-12)
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert bound(factor * best) == pytest.approx(least * (factor + 1 / factor) / 2, rel=1e-12)


@pytest.mark.parametrize("regularisation", [0.1, 0.5, 2.0])
def test_no_piecewise_linear_risk_has_a_larger_bias(regularisation):
    """A search over risks on the line with up to three kinks, minimised on a fine grid."""
    rng, worst = np.random.default_rng(4), 0.0
    grid = np.linspace(-1.0, 1.0, 8001)
    bound = perturbed_minimiser(cls(), regularisation=regularisation, noise_norm=0.0)
    for _ in range(400):
        slopes = np.sort(rng.uniform(-1.0, 1.0, size=4)) * rng.choice([0.1, 0.5, 1.0])
        pieces = slopes[np.searchsorted(np.sort(rng.uniform(-1.0, 1.0, size=3)), grid)]
        risk = np.cumsum(pieces) * (grid[1] - grid[0])
        minimiser = np.argmin(risk + 0.5 * regularisation * grid**2)
        worst = max(worst, (risk[minimiser] - risk.min()) / bound)
    assert 0.85 < worst < 1.01  # the grid's error


@pytest.mark.parametrize(("ratio", "attained"), [(0.01, 0.94), (1e-4, 0.99)])
def test_the_bound_is_attained_by_a_cone_with_a_slope(ratio, attained):
    """``sqrt(L^2 - s^2) |w'| + s (R - w_1)``, ``s = lambda R/2``, and noise in 400 coordinates.

    Its regularised minimiser is ``(R/2, 0, .., 0)``. Exact up to projections, which the sizes of
    the noise rule out: the mean norm of the noise in all coordinates but one.
    """
    c, dim = cls(), 400
    best = perturbed_minimiser_regularisation(c, unit_noise_norm=ratio)
    slope, norm = 0.5 * best, ratio / best
    cone = math.sqrt(1.0 - slope**2) * norm * math.sqrt((dim - 1) / dim)
    bound = perturbed_minimiser(c, regularisation=best, noise_norm=norm)
    assert attained * bound < cone + 0.5 * slope <= bound


# --- output perturbation: its square, where the risk is flat ---


BALL = ProblemClass(n=10, dim=3, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0)


def bound(problem_class=BALL, *, regularisation=0.0, noise_square, solver_error=0.0):
    """Return the bound without the cap of the set and without the bound on the norm."""
    rate = output_perturbation_rate(
        problem_class, regularisation=regularisation, noise_norm=1e300, noise_square=noise_square,
        solver_error=solver_error, gaussian=True, balanced=False, stationary=True,
    )  # fmt: skip
    return rate.uncapped


@pytest.mark.parametrize("regularisation", [0.0, 0.3, 2.0])
def test_it_holds_for_regularised_quadratics_however_the_noise_lies(regularisation):
    """Random curvatures up to ``H``, minimisers inside; the solver errs by ``tau`` at its worst."""
    rng = np.random.default_rng(1)
    tightest = 0.0
    for _ in range(200):
        curvatures = rng.uniform(0.0, 1.0, size=3)
        curvatures[0] = 1.0
        target = 0.9 * onto_ball(rng.normal(size=3)) * rng.random()
        minimiser = curvatures * target / (curvatures + regularisation)
        noise = rng.normal(size=(50, 3)) * rng.choice([0.01, 0.1, 1.0])
        error, tau = onto_ball(rng.normal(size=3)), rng.choice([0.0, 0.05])
        error *= tau / np.linalg.norm(error)
        released = onto_ball(minimiser + error + noise)
        excess = 0.5 * np.mean((released - target) ** 2 @ curvatures)
        noise_square = np.mean(np.sum(noise**2, axis=1))
        limit = bound(regularisation=regularisation, noise_square=noise_square, solver_error=tau)
        assert excess <= limit * (1.0 + 1e-12)
        tightest = max(tightest, excess / limit)
    assert tightest > (0.5 if regularisation == 0.0 else 0.01)


@pytest.mark.parametrize("noise", [0.001, 0.02])
def test_the_regulariser_and_the_noise_together_are_attained(noise):
    """``-s w_1``, ``s = lambda R/2``: half-way, and by the noise, always one way, further back."""
    c, regularisation = dataclasses.replace(BALL, smoothness=0.0, strong_convexity=0.0), 0.4
    slope = 0.5 * regularisation
    excess = slope * (1.0 - (0.5 - noise))
    limit = bound(c, regularisation=regularisation, noise_square=noise**2)
    assert 0.999 * limit < excess <= limit


def test_no_smooth_risk_on_the_line_exceeds_it():
    """A search over slopes that rise in up to five pieces, at all sizes of noise and ``lambda``."""
    rng, worst = np.random.default_rng(5), 0.0
    grid = np.linspace(-1.0, 1.0, 2001)
    for _ in range(2000):
        rises = rng.uniform(0.0, 1.0, size=5) * rng.choice([0.0, 1.0], size=5)
        pieces = rises[np.searchsorted(np.sort(rng.uniform(-1.0, 1.0, size=4)), grid)]
        slopes = np.cumsum(pieces) * (grid[1] - grid[0])
        regularisation = math.exp(rng.uniform(-4.0, 1.0))
        # Stationary: the slope is chosen so that the objective's vanishes at a point inside.
        at = rng.integers(1, 2000)
        slopes -= slopes[at] + regularisation * grid[at]
        risk = np.cumsum(slopes) * (grid[1] - grid[0])
        noise = rng.choice([0.003, 0.03, 0.3, 1.0]) * rng.choice([-1.0, 1.0])
        released = np.clip(grid[at] + noise, -1.0, 1.0)
        excess = np.interp(released, grid, risk) - risk.min()
        limit = bound(regularisation=regularisation, noise_square=noise**2)
        assert excess <= limit * 1.01 + 2e-3 * regularisation  # the grid's error
        worst = max(worst, excess / limit)
    assert worst > 0.75


def test_smoothness_missing_and_radius_infinite():
    kinked = dataclasses.replace(BALL, smoothness=None)
    with pytest.raises(ValueError, match="smoothness must be declared for this bound, got None"):
        bound(kinked, noise_square=1.0)
    whole = dataclasses.replace(BALL, radius=math.inf, strong_convexity=0.0)
    assert bound(whole, noise_square=0.5) == pytest.approx(0.25)
    assert bound(whole, regularisation=0.1, noise_square=0.5) == math.inf


# --- objective perturbation ---


def perturbed_objective_minimiser(problem_class, *, distance=0.0, **numbers):
    """Return the bound without the cap of the set."""
    rate = objective_perturbation_rate(
        problem_class, distance=distance, gaussian=True, tuned=True, **numbers
    )
    return rate.uncapped


@given(positive, positive)
def test_constant_noise_is_balanced(radius, moment):
    c = cls(radius=radius)
    best = perturbed_objective_regularisation(c, lambda _: moment)
    assert best == pytest.approx(math.sqrt(moment) / radius, rel=1e-9)
    value = perturbed_objective_minimiser(c, regularisation=best, noise_second_moment=moment)
    assert value == pytest.approx(0.5 * radius * math.sqrt(moment), rel=1e-9)


@pytest.mark.parametrize("least", [0.0, 0.3, 5.0])
@pytest.mark.parametrize("weight", [0.01, 1.0, 30.0])
def test_noise_that_pays_for_curvature_asks_for_more_regularisation(weight, least):
    c = cls()

    def moment(regularisation):
        return (1.0 + weight / regularisation) ** 2 if regularisation > least else math.inf

    def bound(regularisation):
        return perturbed_objective_minimiser(
            c, regularisation=regularisation, noise_second_moment=moment(regularisation)
        )

    best = perturbed_objective_regularisation(c, moment, least=least)
    grid = np.geomspace(max(1e-3, least * 1.0011), 1e4, 4_000)
    assert best > least
    assert bound(best) <= 1.001 * min(map(bound, grid.tolist()))


@pytest.mark.parametrize("regularisation", [0.05, 0.5, 5.0])
def test_bound_holds_and_is_within_a_half_for_medians_on_an_interval(regularisation):
    """Fine grid; the mean over a symmetric pair of tilts is an expectation already."""
    grid, worst = np.linspace(-1.0, 1.0, 4001), 0.0
    rng = np.random.default_rng(1)
    for tilt in (0.02, 0.1, 0.5, 2.0):
        for _ in range(60):
            weights = rng.dirichlet(np.ones(3))
            risk = np.abs(grid[:, None] - rng.choice([-1.0, 0.2, 1.0], 3)) @ weights
            curved = risk + 0.5 * regularisation * grid**2
            excess = np.mean([risk[np.argmin(curved + t * grid)] for t in (tilt, -tilt)])
            bound = perturbed_objective_minimiser(
                cls(), regularisation=regularisation, noise_second_moment=tilt**2, distance=5e-4
            )
            assert excess - risk.min() <= bound
            worst = max(worst, (excess - risk.min()) / bound)
    assert worst > 0.05


def moved_inwards(dim, radius, position, noise):
    """Return how far noise and projection move a point on a line through the centre inwards."""
    start = np.zeros(dim)
    start[0] = position
    return position - onto_ball(start + noise, radius)[:, 0]


@pytest.mark.parametrize("dim", [1, 2, 30])
@pytest.mark.parametrize("scale", [0.02, 0.3, 2.0])
def test_the_bound_on_a_ball_holds_wherever_the_minimiser_is(dim, scale):
    """Noise by noise: the lemma of the proof, which has no expectation."""
    rng = np.random.default_rng(dim)
    noise = scale * rng.standard_normal((20_000, dim))
    first, rest = noise[:, 0], np.linalg.norm(noise[:, 1:], axis=1)
    for position in (0.0, 0.2, 0.69, 0.7):
        moved = moved_inwards(dim, 0.7, position, noise)
        assert (moved <= np.maximum(-first, 0.0) + rest**2 / 1.4 + 1e-12).all()


@pytest.mark.parametrize(
    ("dim", "sigma", "most"), [(1, 0.02, 1.03), (40, 0.02, 1.4), (400, 0.005, 1.4)]
)
def test_the_bound_on_a_ball_is_almost_attained_by_a_linear_loss(dim, sigma, most):
    """The loss ``-L w_1`` has its minimiser on the sphere; smoothness adds nothing to its risk."""
    lipschitz, radius = 2.0, 0.7
    facts = ProblemClass(n=10, dim=dim, lipschitz=lipschitz, radius=radius, smoothness=1e-9)
    noise = sigma * np.random.default_rng(0).standard_normal((20_000, dim))
    risks = lipschitz * moved_inwards(dim, radius, radius, noise)
    mean, error = risks.mean(), risks.std() / math.sqrt(risks.size)
    norm = sigma * math.sqrt(2.0) * math.exp(math.lgamma(dim / 2 + 0.5) - math.lgamma(dim / 2))
    rate = ball_perturbation_rate(
        facts, regularisation=0.0, noise_norm=norm, noise_square=dim * sigma**2,
        gaussian=True, balanced=False,
    )  # fmt: skip
    expected = lipschitz * (sigma / math.sqrt(2.0 * math.pi) + (dim - 1) * sigma**2 / (2 * radius))
    assert rate.upper == pytest.approx(expected, rel=1e-6)
    assert mean - 4.0 * error < rate.upper < most * (mean + 4.0 * error)


@given(n=st.integers(10, 10**6), dim=st.integers(1, 10**4), radius=positive, smoothness=positive)
def test_the_regularisation_on_a_ball_minimises_its_bound(n, dim, radius, smoothness):
    facts = ProblemClass(n=n, dim=dim, lipschitz=2.0, radius=radius, smoothness=smoothness)
    sigma = 4.0 / n
    norm = sigma * math.sqrt(dim)

    def bound(regularisation):
        return ball_perturbation_rate(
            facts, regularisation=regularisation, noise_norm=norm / regularisation,
            noise_square=dim * (sigma / regularisation) ** 2, gaussian=True, balanced=True,
        )  # fmt: skip

    best = ball_perturbation_regularisation(
        facts, unit_noise_norm=norm, unit_noise_square=dim * sigma**2
    )

    def total(rate):  # the bound before it is capped
        return math.fsum(term.value for term in rate.terms)

    least = total(bound(best))
    assert all(
        total(bound(factor * best)) >= least * (1.0 - 1e-9) for factor in (0.5, 0.98, 1.02, 2)
    )


def unprojected(facts, regularisation, sigma):
    """Return the rate for Gaussian noise of standard deviation ``sigma/lambda``."""
    square = facts.dim * (sigma / regularisation) ** 2
    return unprojected_perturbation_rate(
        facts, regularisation=regularisation, noise_square=square, gaussian=True, balanced=True
    )


@given(dim=st.integers(1, 10**4), radius=positive, smoothness=positive, sigma=positive)
def test_without_projection_the_regularisation_minimises_the_bound(dim, radius, smoothness, sigma):
    facts = ProblemClass(n=10, dim=dim, lipschitz=2.0, radius=radius, smoothness=smoothness)
    best = unprojected_perturbation_regularisation(facts, unit_noise_square=dim * sigma**2)
    least = unprojected(facts, best, sigma).upper
    assert least == pytest.approx(0.375 * best * radius**2, rel=1e-9)
    for factor in (0.5, 0.98, 1.02, 2.0):
        assert unprojected(facts, factor * best, sigma).upper > least
    assert unprojected(facts, best, sigma).exponents["dim"] == 0.0


@pytest.mark.parametrize("sigma", [0.05, 0.5])
def test_the_bound_without_projection_holds_for_linear_predictions(sigma):
    """Random logistic and squared losses in many dimensions; a bound in ``H/4`` is refuted."""
    rng, dim, regularisation, largest = np.random.default_rng(2), 60, 0.1, 0.0
    facts = ProblemClass(n=30, dim=dim, lipschitz=1.0, radius=1.0, smoothness=1.0)
    limit = unprojected(facts, regularisation, sigma * regularisation)
    noise_term = limit.terms[0].value
    for logistic in (True, False):
        features = rng.normal(size=(30, dim))
        features /= np.linalg.norm(features, axis=1, keepdims=True)

        def risk(w, features=features, logistic=logistic):
            values = w @ features.T
            return (4.0 * np.logaddexp(0.0, values) if logistic else 0.5 * values**2).mean(axis=-1)

        point = onto_ball(rng.normal(size=dim))
        noise = sigma * rng.standard_normal((20_000, dim))
        rises = risk(point + noise) - risk(point)
        error = 4.0 * rises.std() / math.sqrt(rises.size)
        assert -error <= rises.mean() <= noise_term + error
        largest = max(largest, (rises.mean() - error) / noise_term)
    assert largest > 0.9
