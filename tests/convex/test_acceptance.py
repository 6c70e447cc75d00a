"""How many proposals an exact draw takes: the proved share of them, by quadrature and by count."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from privopt.convex import L2Ball, enough_proposals, sample_log_concave
from privopt.convex.bounding_ellipsoid import bound_low_part

HEIGHT, DRAWS = 1.5, 500
LEAST = {1: 0.8, 2: 0.0707, 3: 0.00254}  # proved of vol(K)/vol(E)
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

        around = bound_low_part(cone, L2Ball(1.0), jnp.zeros(dim), radius=1.0, height=HEIGHT)
        sample = jax.vmap(
            lambda k: sample_log_concave(
                k, cone, L2Ball(1.0), dim=dim, radius=1.0, proposals=enough_proposals(dim, 1e-12)
            )
        )
        return around, sample(keys).proposals

    for sharpness in (3.0, 300.0, 3e5):
        around, proposals = drawn(jax.random.split(jax.random.key(0), DRAWS), sharpness)
        level = (HEIGHT + float(around.value)) / sharpness
        fit = level**dim / abs(np.linalg.det(np.asarray(around.axes)))
        assert LEAST[dim] / 1.001**dim < fit <= 1.0
        assert around.proved
        assert around.slack <= 0.15
        most = math.exp(float(around.slack)) / (SHARE[dim] * fit)
        proposals = np.asarray(proposals, float)
        error = proposals.std() / math.sqrt(DRAWS)
        assert proposals.mean() - 5.0 * error <= most
        assert proposals.mean() >= 0.1 * most  # the bound is not idle


def test_enough_proposals_follow_from_what_is_proved():
    """``(1 - p)^M <= 2^-64``, with ``p`` a little below ``SHARE LEAST e^-0.15``."""
    for dim in (1, 2, 3):
        least = SHARE[dim] * LEAST[dim] * math.exp(-0.15)
        wanted = 64.0 * math.log(2.0) / -math.log1p(-least)
        assert wanted <= enough_proposals(dim, 2.0**-64) <= 1.02 * wanted + 1.0


@pytest.mark.parametrize("dim", [2, 3])
def test_the_bounding_ellipsoid_is_proved_for_all_shapes(dim):
    """Random maxima of planes of very different steepness."""

    def proved(shape):
        slopes, offsets = shape

        def planes(w):
            values = slopes @ w + offsets
            return jnp.max(values), slopes[jnp.argmax(values)]

        around = bound_low_part(
            planes, L2Ball(1.0), jnp.zeros(dim), radius=1.0, height=HEIGHT, error=2.0**-13
        )
        return around.proved, around.slack

    rng = np.random.default_rng(dim)
    steep = 10.0 ** rng.uniform(-3.0, 6.0, size=(12, 8, 1)) * rng.normal(size=(12, 8, dim))
    offsets = np.abs(steep).max(axis=(1, 2))[:, None] * rng.uniform(-0.2, 0.2, size=(12, 8))
    found, slack = jax.jit(partial(jax.lax.map, proved))((steep, offsets))
    assert np.all(found)
    assert slack.max() <= 0.15


def test_a_rough_function_is_not_proved():
    flat = bound_low_part(
        lambda w: (0.0 * w.sum(), 0.0 * w), L2Ball(1.0), jnp.zeros(1), radius=1.0, height=HEIGHT,
        error=2.0**-12,
    )  # fmt: skip
    assert not flat.proved
