"""Statements about the definitions: the size of epsilon, the tail of the loss, units, fairness."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from events import ADD, OUT, REPLACE, Gaussian, Laplace, bit
from scipy import stats
from selection import few

from privopt.mechanisms import LaplaceMechanism
from privopt.privacy import Guarantee, pure_event
from privopt.spec import Budget
from privopt.statistics import BoundedMean, BoundedScores, ExponentialMechanism


@pytest.mark.parametrize("n", [10, 1000])
def test_epsilon_of_one_over_n_hides_the_whole_data_set(n):
    """All data sets of ``n`` records are one group of loss ``n epsilon = 1``.

    A test of "all records are 0" against "all are 1" has an error of at least ``1/(1 + e)``. At
    ``epsilon = 20/n`` the noisy mean decides. False alarm 1e-6 each.
    """
    assert Guarantee(pure_event(1.0 / n), REPLACE).group(n).epsilon(0.0).upper < 1.0 + 1e-9
    query, runs = BoundedMean.of(0.0, 1.0, n), 100_000
    errors = {}
    for epsilon in (1.0 / n, 20.0 / n):
        budget = Budget(epsilon=epsilon, delta=0.0, relation=REPLACE)
        mechanism = LaplaceMechanism.calibrated(query, budget)
        keys = jax.random.split(jax.random.key(n), (2, runs))
        noisy = [
            np.asarray(jax.vmap(mechanism.add_noise, (0, None))(k, query.answer(x)))
            for k, x in zip(keys, (jnp.zeros(n), jnp.ones(n)), strict=True)
        ]
        errors[epsilon] = int((noisy[0] > 0.0).sum() + (noisy[1] < 0.0).sum())
    least = 2.0 / (1.0 + math.e)
    assert errors[1.0 / n] > runs * least - 5.0 * math.sqrt(runs)
    assert errors[20.0 / n] < 0.01 * runs


@pytest.mark.cases(2)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("noise", few([0.3, 1.0, 5.0], [1.0]))
def test_the_tail_of_the_loss_bounds_delta(epsilon, noise):
    """``P(L > epsilon) <= delta`` implies ``(epsilon, delta)``-DP: Gaussian and Laplace noise."""
    mu = 1.0 / noise
    tail = stats.norm.sf(epsilon / mu - 0.5 * mu)
    assert Guarantee(Gaussian(noise), OUT).delta(epsilon).upper < tail
    # The loss of Laplace noise is above t < 1/b if the noise is below (1/b - t) b/2.
    tail = stats.laplace.cdf(0.5 * (mu - epsilon)) if epsilon < mu else 0.0
    assert Guarantee(Laplace(noise), OUT).delta(epsilon).upper <= tail + 1e-12


def test_a_private_release_may_exceed_its_epsilon_with_any_probability():
    """Converse: a bit of loss 1.01 is ``(1, .0073)``-DP, and its loss exceeds 1 in 73 % of runs."""
    spent = Guarantee(pure_event(1.01), OUT).delta(1.0)
    tail = sum(probability for probability, loss in bit(1.01) if loss > 1.0)
    assert spent.upper == pytest.approx(0.00729, abs=1e-5)
    assert tail == pytest.approx(0.733, abs=1e-3)
    assert tail > 100.0 * spent.upper


def test_random_laws_have_a_smaller_delta_than_tail():
    """Maximise ``P(S) - e^epsilon Q(S)`` over all events of laws on eight outcomes."""
    rng = np.random.default_rng(0)
    subsets = (np.arange(256)[:, None] >> np.arange(8)) & 1
    for _ in range(500):
        p, q = rng.dirichlet(np.full(8, rng.choice([0.1, 1.0, 10.0])), 2)
        epsilon = rng.uniform(0.0, 3.0)
        delta = (subsets @ (p - math.exp(epsilon) * q)).max()
        assert delta <= p[np.log(p / q) > epsilon].sum() + 1e-15


@pytest.mark.parametrize("relation", [ADD, OUT, REPLACE])
def test_a_group_is_the_unit_above_a_record(relation):
    """A user with records in 4 weeks is 4 units of one user and one week."""
    week = Guarantee(Laplace(10.0), relation)
    user = week.group(4).epsilon(0.0)
    assert user.lower == pytest.approx(4.0 * week.epsilon(0.0).upper)


def test_individual_fairness_is_the_same_inequality_with_a_distance_of_people():
    """Dwork, Hardt, Pitassi, Reingold and Zemel 2012: ``|ln P_x/P_y| <= d(x, y)``.

    A lottery by noisy scores is Lipschitz in the score: ``d(x, y) = 2 |x - y|_inf / b``. Choosing
    the best score is not, for any constant.
    """
    mechanism = ExponentialMechanism.calibrated(
        BoundedScores.of(1.0), Budget(epsilon=1.0, delta=0.0, relation=OUT)
    )
    rng = np.random.default_rng(1)
    for _ in range(200):
        x, y = rng.normal(size=(2, 4))
        laws = [np.exp(s / mechanism.scale) / np.exp(s / mechanism.scale).sum() for s in (x, y)]
        distance = 2.0 * np.abs(x - y).max() / mechanism.scale
        assert np.abs(np.log(laws[0] / laws[1])).max() <= distance + 1e-12
    near = np.array([[0.0, 1e-9], [1e-9, 0.0]])
    assert len({int(s.argmax()) for s in near}) == 2
