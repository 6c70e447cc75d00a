"""Records that are not finite: however many there are, no other moves a minimiser further."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt.convex import L2Ball
from privopt.mechanisms import RegularisedMinimiser
from privopt.problems import EmpiricalRisk, RegularisedDistance, SquaredDistance
from privopt.spec import ProblemClass, Relation

N = 8
REPLACE, ZERO = Relation.REPLACE_ONE, Relation.ZERO_OUT
SQUARED = SquaredDistance(1.0), {"smoothness": 1.0}, 0.0
KINKED = RegularisedDistance(1.0), {}, 0.5  # the last number is the width of an envelope


def query_of(relation, smoothing=0.0, **constants):
    facts = ProblemClass(n=N, dim=1, lipschitz=2.0, radius=1.0, strong_convexity=1.0, **constants)
    return RegularisedMinimiser.of(facts, relation, regularisation=0.0, smoothing=smoothing)


def minimisers(query, loss, smoothing, records, counts=None):
    @jax.jit
    @jax.vmap
    def solve(records):
        risk = EmpiricalRisk(loss, records[:, None], counts, L2Ball(1.0))
        return query.minimiser_of(risk)(jnp.zeros(1))[0]

    return np.asarray(solve(jnp.asarray(records)))


@pytest.mark.parametrize(("loss", "constants", "smoothing"), [SQUARED, KINKED], ids=["", "kink"])
@pytest.mark.parametrize("relation", [REPLACE, ZERO])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_null_records_do_not_make_the_others_stronger(loss, constants, smoothing, relation, bad):
    """A first record of 1, and its neighbour, beside 0, 1, .. n - 1 null ones and some at 0."""
    query = query_of(relation, smoothing, **constants)
    pair = 1.0, -1.0 if relation is REPLACE else bad
    records = np.zeros((N, 2, N))
    for nulls in range(N):
        records[nulls, :, 1 : nulls + 1] = bad
    records[:, :, 0] = pair
    found = minimisers(query, loss, smoothing, records.reshape(-1, N)).reshape(N, 2)
    moved = np.abs(found[:, 0] - found[:, 1])
    assert moved.max() <= query.sensitivity(relation)
    assert moved.min() > 0.0


def test_a_null_record_has_the_loss_of_the_centre():
    """``x = 1`` beside seven that are null, or absent: ``(1/8) 1 = 1/8`` is the minimiser."""
    query = query_of(REPLACE, smoothness=1.0)
    records = np.full((1, N), np.nan)
    records[0, 0] = 1.0
    found = minimisers(query, SQUARED[0], 0.0, records)
    np.testing.assert_allclose(found, 1.0 / N, atol=query.error)
    absent = minimisers(query, SQUARED[0], 0.0, np.ones((1, N)), jnp.zeros(N).at[0].set(1.0))
    np.testing.assert_allclose(absent, 1.0 / N, atol=query.error)


def test_strong_convexity_needs_a_radius():
    facts = ProblemClass(
        n=N, dim=1, lipschitz=np.inf, radius=np.inf, smoothness=1.0, strong_convexity=1.0
    )
    with pytest.raises(ValueError, match="radius must be finite where losses are strongly convex"):
        RegularisedMinimiser.of(facts, REPLACE, regularisation=0.5)
