"""How many proposals an exact draw takes: the proved share of them, by quadrature and by count."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from privopt.convex import L2Ball, enclose, sample_log_concave

HEIGHT, DRAWS = 1.5, 500
SHARE = {1: 0.45, 2: 0.26, 3: 0.13}  # as the docstring says, of vol(K)/vol(E)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_stated_shares_are_the_integrals(dim):
    def within(t):
        return math.exp(-t) * t ** (dim - 1)

    def beyond(g):
        return math.exp(-HEIGHT * g) * g ** (dim - 1)

    density = dim * HEIGHT**-dim * integrate.quad(within, 0.0, HEIGHT)[0]
    envelope = 1.0 + dim * integrate.quad(beyond, 1.0, np.inf)[0]
    assert SHARE[dim] <= density / envelope < SHARE[dim] + 0.01


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_no_fewer_are_accepted(dim):
    """A cone about a point inside the ball, whose ``K`` is a ball; five standard errors, 3e-7."""
    middle = jnp.full(dim, 0.2)

    @jax.jit
    def drawn(keys, sharpness):
        def cone(w):
            away = w - middle
            size = jnp.sqrt(jnp.sum(away**2))
            return sharpness * size, sharpness * away / jnp.where(size > 0.0, size, 1.0)

        around = enclose(cone, L2Ball(1.0), jnp.zeros(dim), radius=1.0, height=HEIGHT)
        sample = jax.vmap(lambda k: sample_log_concave(k, cone, L2Ball(1.0), dim=dim, radius=1.0))
        return around, sample(keys).proposals

    for sharpness in (3.0, 300.0, 3e5):
        around, proposals = drawn(jax.random.split(jax.random.key(0), DRAWS), sharpness)
        level = (HEIGHT + float(around.value)) / sharpness
        fit = level**dim / abs(np.linalg.det(np.asarray(around.axes)))
        assert 0.0 < fit <= 1.0
        most = math.exp(float(around.slack)) / (SHARE[dim] * fit)
        proposals = np.asarray(proposals, float)
        error = proposals.std() / math.sqrt(DRAWS)
        assert proposals.mean() - 5.0 * error <= most
        assert proposals.mean() >= 0.1 * most  # the bound is not idle
