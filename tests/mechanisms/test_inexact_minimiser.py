"""The solver's distance from the minimiser is part of the sensitivity, and what it hides if not.

The audit is of two points: one threshold on the line, and the probabilities on either side of it,
bounded by Clopper and Pearson at level 1e-6.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from privopt.mechanisms import GaussianMechanism, RegularisedMinimiser
from privopt.problems import linear
from privopt.spec import Budget, ProblemClass, Relation

LEVEL = 1e-6
N, REGULARISATION = 1001, 0.1
FACTS = ProblemClass(n=N, dim=1, lipschitz=1.0, radius=math.inf, smoothness=0.0)
BUDGET = Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
TAU = 0.5
TOLERANCE = REGULARISATION * TAU  # a gradient of this norm certifies the distance tau
# Records of -1 and 1 whose sums, 49 and 51, lie to either side of what the tolerance notices.
LEFT, RIGHT = (np.repeat([1.0, -1.0], [525 + k, 476 - k])[:, None] for k in (0, 1))
DRAWS = 20_000


def query_of(relative_error=1e-3, relation=Relation.REPLACE_ONE):
    return RegularisedMinimiser.of(
        FACTS, relation, regularisation=REGULARISATION, relative_error=relative_error
    )


def stopped_early(records):
    """Gradient descent until the gradient is below the tolerance, which depends on the data."""
    w, mean = 0.0, records.mean()
    while abs(REGULARISATION * w - mean) > TOLERANCE:
        w -= (REGULARISATION * w - mean) / REGULARISATION
    return w


def fixed(records, steps=3):
    """The same for a public number of steps, half as long: never near the minimiser."""
    w, mean = 0.0, records.mean()
    for _ in range(steps):
        w -= 0.5 * (REGULARISATION * w - mean) / REGULARISATION
    return w


def ours(records, query=None):
    query = query or query_of()
    where = linear(records, problem_class=FACTS)
    return float(query.minimiser_of(where.objective)(jnp.zeros(1))[0])


def audited(solve, scale):
    """The largest epsilon certainly spent, from noisy solutions of the neighbours."""
    ends = [solve(LEFT), solve(RIGHT)]
    keys = jax.random.split(jax.random.key(0), 2 * DRAWS).reshape(2, DRAWS)
    noise = np.asarray(jax.vmap(jax.vmap(lambda k: jax.random.normal(k, ())))(keys))
    low, high = np.array(ends)[:, None] + scale * noise
    spent = 0.0
    for threshold in np.linspace(min(ends), max(ends), 5):
        hits = [int(np.sum(sample > threshold)) for sample in (high, low)]
        least = stats.beta.ppf(LEVEL, hits[0], DRAWS - hits[0] + 1) if hits[0] else 0.0
        most = stats.beta.isf(LEVEL, hits[1] + 1, DRAWS - hits[1])
        if least > BUDGET.delta:
            spent = max(spent, math.log((least - BUDGET.delta) / most))
    return spent


def test_an_early_stop_whose_tolerance_is_not_charged_is_caught():
    without = GaussianMechanism.calibrated(query_of(), BUDGET)
    charged = GaussianMechanism.calibrated(query_of(TAU * REGULARISATION * N), BUDGET)
    assert charged.query.error == pytest.approx(TAU)
    assert audited(stopped_early, without.scale) > 2.0 * BUDGET.epsilon
    assert audited(stopped_early, charged.scale) <= BUDGET.epsilon


def test_a_public_number_of_steps_needs_no_certificate_and_is_not_caught():
    """A fixed number of contractions from a public start moves no further than the minimiser."""
    mechanism = GaussianMechanism.calibrated(query_of(), BUDGET)
    moved = abs(fixed(RIGHT) - fixed(LEFT))
    assert moved == pytest.approx(2.0 / (REGULARISATION * N) * (1.0 - 0.5**3), rel=1e-9)
    for solve in (fixed, ours):
        assert audited(solve, mechanism.scale) <= BUDGET.epsilon
        assert audited(solve, 0.1 * mechanism.scale) > BUDGET.epsilon
