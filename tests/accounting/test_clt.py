"""The limit theorem: printed numbers reproduced, and shown to be no bounds."""

import math

import numpy as np
import pytest
from events import ADD, EVERY_RELATION, REPLACE, Gaussian, Poisson, Times, Together, fixed_size, sgd
from scipy.integrate import quad
from scipy.stats import norm

from privopt.accounting import Moments
from privopt.accounting.clt import CLT
from privopt.privacy import gaussian_delta, gaussian_epsilon
from privopt.spec import Relation

# Bu, Dong, Long and Su (HDSR 2020), Tables 1 to 4: noise, rate, epochs, delta; mu and CLT epsilon
# as printed, and recomputed with 30 digits; the true epsilon between certified bounds.
TABLE = [
    (1.3, 256 / 60000, 15, 1e-5, 0.23, 0.83, 0.22727, 0.8345, 0.86450, 0.86454),
    (1.1, 256 / 60000, 60, 1e-5, 0.57, 2.32, 0.57359, 2.3243, 2.38143, 2.38160),
    (0.7, 256 / 60000, 45, 1e-5, 1.13, 5.07, 1.13393, 5.0662, 5.63937, 5.63968),
    (0.6, 256 / 60000, 62, 1e-5, 2.00, 9.98, 1.99750, 9.9819, 10.9484, 10.9495),
    (0.55, 256 / 60000, 68, 1e-5, 2.76, 14.98, 2.76076, 14.9836, 15.7142, 15.7163),
    (0.5, 256 / 60000, 100, 1e-5, 4.78, 31.12, 4.78211, 31.1170, 28.0391, 28.0460),
    (0.55, 256 / 29305, 18, 1e-5, 2.03, 10.20, 2.03243, 10.1975, 11.8072, 11.8073),
    (0.56, 512 / 25000, 9, 1e-5, 2.07, 10.43, 2.07052, 10.4341, 12.1407, 12.1408),
    (0.6, 1 / 80, 20, 1e-6, 1.94, 10.61, 1.94186, 10.6125, 12.7494, 12.7495),
]
ROWS = pytest.mark.parametrize("row", TABLE, ids=lambda row: f"sigma {row[0]}, {row[2]} epochs")


@ROWS
def test_the_printed_columns_are_reproduced(row):
    z, rate, epochs, delta, mu, epsilon, exact_mu, exact_epsilon, *_ = row
    each = CLT().mu(sgd(z, rate, 1), ADD).value
    ours = each * math.sqrt(epochs / rate)  # the tables do not round the number of steps
    assert ours == pytest.approx(mu, abs=0.01)
    assert ours == pytest.approx(exact_mu, abs=1e-5)
    assert gaussian_epsilon(delta, mu=ours).upper == pytest.approx(epsilon, abs=0.01)
    assert gaussian_epsilon(delta, mu=ours).upper == pytest.approx(exact_epsilon, abs=1e-4)
    event = sgd(z, rate, round(epochs / rate))
    assert CLT().mu(event, ADD).value == pytest.approx(mu, abs=0.01)
    assert CLT().epsilon(event, ADD, delta).value == pytest.approx(epsilon, abs=0.015)


@ROWS
def test_the_limit_is_no_bound(row):
    z, rate, epochs, delta, *_, lower, upper = row
    estimate = CLT().epsilon(sgd(z, rate, round(epochs / rate)), ADD, delta).value
    if z == 0.5:
        assert estimate > 1.1 * upper
    else:
        assert 0.8 * lower < estimate < lower


@pytest.mark.parametrize("z", [0.7, 2.0])
@EVERY_RELATION
def test_mu_is_the_root_of_the_variance_of_the_loss(z, relation):
    rate, other = 1e-5, -1.0 if relation is REPLACE else 0.0

    def loss(x):
        return math.log1p(rate * math.expm1((2 * x - 1) / (2 * z * z))) - math.log1p(
            rate * math.expm1((2 * other * x - other * other) / (2 * z * z))
        )

    variance = quad(
        lambda x: loss(x) ** 2 * norm.pdf(x, scale=z), -13 * z, 2 + 13 * z, points=[0, 2], limit=200
    )[0]
    expected = math.sqrt(1e6 * variance)
    assert CLT().mu(sgd(z, rate, 10**6), relation).value == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("z", [0.8, 2.0, 300.0])
def test_mu_without_replacement_is_the_root_of_the_variance_of_the_symmetrised_loss(z):
    """Loss ``ln(1 - q + q w)`` where ``w > 1``, its mirror image, and zero between."""
    shift = 2.0 / z

    def square(x):
        return math.expm1(shift * x - shift * shift / 2) ** 2 * norm.pdf(x)

    variance = 2 * quad(square, shift / 2, 12 + 2 * shift, limit=200)[0]
    mu = CLT().mu(fixed_size(10**4, 10, z, 10**4), REPLACE).value
    assert mu == pytest.approx(1e-3 * math.sqrt(1e4 * variance), rel=1e-9)


def test_replacing_costs_twice_as_much_under_loud_noise():
    single = CLT().mu(sgd(100.0, 0.01, 1000), ADD).value
    replaced = CLT().mu(sgd(100.0, 0.01, 1000), REPLACE).value
    assert replaced == pytest.approx(2 * single, rel=1e-4)
    batches = CLT().mu(fixed_size(1000, 10, 100.0, 1000), REPLACE).value
    assert 2 * single < batches < 2 * math.sqrt(2) * single


def test_replacing_against_exact_accounting():
    event = sgd(1.0, 0.01, 1000)  # certified: 2.843440
    assert CLT().epsilon(event, REPLACE, 1e-5).value == pytest.approx(2.84344, rel=0.01)
    event = fixed_size(1000, 10, 2.0, 1000)  # certified: profile upper bound 2.19891
    assert CLT().epsilon(event, REPLACE, 1e-5).value == pytest.approx(2.19891, rel=0.02)


def test_the_limit_is_reached():
    """Fixed ``q sqrt(T)``: the estimate approaches the certified value."""
    event = sgd(2.0, 1e-3, 10**6)
    mu = math.sqrt(math.expm1(0.25))
    exact = gaussian_epsilon(1e-5, mu=mu).upper
    assert CLT().epsilon(event, ADD, 1e-5).value == pytest.approx(exact, rel=2e-3)


@EVERY_RELATION
def test_what_is_not_sampled_is_exact(relation):
    event = Together([Gaussian(4.0), Poisson(1.0, Gaussian(3.0))])
    mu = relation.multiple * math.hypot(1 / 4, 1 / 3)
    for delta in (1e-2, 1e-8):
        exact = gaussian_epsilon(delta, mu=mu).upper
        assert CLT().epsilon(event, relation, delta).value == pytest.approx(exact, rel=1e-8)
    assert CLT().delta(event, relation, 1.0).value == pytest.approx(
        norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu), rel=1e-9
    )


def test_heterogeneous_parts_add_up():
    parts = [sgd(1.0, 0.01, 300), sgd(2.0, 0.02, 500), Gaussian(5.0)]
    event = Together(parts)
    root = math.sqrt(sum(CLT().mu(part, ADD).value ** 2 for part in parts))
    assert CLT().mu(event, ADD).value == pytest.approx(root, rel=1e-14)
    halves = Together([sgd(1.0, 0.01, 300), sgd(1.0, 0.01, 700)])
    whole = sgd(1.0, 0.01, 1000)
    assert CLT().epsilon(halves, ADD, 1e-5).value == pytest.approx(
        CLT().epsilon(whole, ADD, 1e-5).value, rel=1e-12
    )


@EVERY_RELATION
def test_gaussians_sampled_together_are_one(relation):
    inner = Together([Gaussian(3.0), Gaussian(4.0)])
    together = Times(Poisson(0.02, inner), 500)
    one = sgd(12 / 5, 0.02, 500)
    assert CLT().epsilon(together, relation, 1e-5).value == pytest.approx(
        CLT().epsilon(one, relation, 1e-5).value, rel=1e-12
    )


@EVERY_RELATION
def test_hardly_any_noise_costs_everything(relation):
    for event in (sgd(0.0, 0.1, 1), sgd(1e-200, 1e-9, 1), Gaussian(0.0)):
        assert CLT().epsilon(event, relation, 0.5).value == math.inf
        assert CLT().delta(event, relation, 9.0).value == 1.0
        assert not CLT().trade_off(event, relation, np.array([0.5])).values.any()


def test_batches_without_replacement_are_for_replacing():
    event = fixed_size(100, 10, 1.0, 5)
    assert [CLT().supports(event, relation) for relation in Relation] == [
        relation is REPLACE for relation in Relation
    ]
    full = CLT().mu(fixed_size(100, 100, 4.0, 9), REPLACE).value
    assert full == pytest.approx(2 * 3 / 4, rel=1e-14)


# --- direction: Bu, Dong, Long and Su 2020, Theorem 2 and Proposition B.4 -------------------------


def renyi_of_one_step(z, rate, order):
    """Return the Renyi divergence of one Poisson-sampled step, for an integer order.

    ``E (1 + q A)^a``, a polynomial in ``q`` of the moments of ``A = e^((2x - 1)/(2 z^2)) - 1``.
    """
    moments = [
        math.fsum(
            (-1) ** (k - j) * math.comb(k, j) * math.exp(j * (j - 1) / (2.0 * z * z))
            for j in range(k + 1)
        )
        for k in range(order + 1)
    ]
    excess = math.fsum(math.comb(order, k) * rate**k * moments[k] for k in range(2, order + 1))
    return math.log1p(excess) / (order - 1.0)


@pytest.mark.parametrize("z", [0.8, 1.5])
@pytest.mark.parametrize("order", [3, 8])
def test_moments_converge_to_those_of_the_limit(z, order):
    """``T D_a -> a mu^2/2`` from above, for ``q sqrt(T)`` fixed; the error is of order ``q``."""
    errors = []
    for rate in (1e-4, 1e-5, 1e-6):
        limit = 0.5 * order * rate**2 * math.expm1(1.0 / z**2)
        errors.append(renyi_of_one_step(z, rate, order) / limit - 1.0)
    assert errors[2] == pytest.approx(0.1 * errors[1], rel=0.1)
    assert 0.0 < errors[2] < 0.01


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
def test_in_the_limit_the_moments_have_the_larger_delta(mu):
    """The limit of the moments accountant is Chernoff's bound of the loss of ``G_mu``.

    ``min_a e^((a - 1)(a mu^2/2 - epsilon)) = e^(-(epsilon - mu^2/2)^2/(2 mu^2))`` exceeds the delta
    of ``G_mu`` at every epsilon, by a factor that increases: the direction of the theorem.
    """
    epsilons = 0.5 * mu**2 + mu * np.linspace(0.01, 6.0, 60)
    chernoff = np.exp(-((epsilons - 0.5 * mu**2) ** 2) / (2.0 * mu**2))
    exact = np.array([gaussian_delta(float(e), mu=mu).upper for e in epsilons])
    assert (exact < chernoff).all()
    assert (np.diff(chernoff / exact) > 0.0).all()
    # The accountants at finite T, near the limit.
    z = 2.0
    steps = round((mu / (1e-3 * math.sqrt(math.expm1(1.0 / z**2)))) ** 2)
    event = sgd(z, 1e-3, steps)
    assert Moments().epsilon(event, ADD, 1e-5).upper > CLT().epsilon(event, ADD, 1e-5).value


def test_for_few_steps_the_direction_is_the_other():
    """With little noise ``mu`` grows like ``e^(1/(2 z^2))``, and the moments are finite."""
    event = sgd(0.3, 0.01, 100)
    assert CLT().epsilon(event, ADD, 1e-5).value > 2.0 * Moments().epsilon(event, ADD, 1e-5).upper
