"""Exact draws: against closed forms and quadrature, and the envelope that makes them possible.

Statistical tests use fixed keys; ``LEVEL`` is the probability that an unlucky key would have
raised a false alarm. Beside each, a density whose scale is wrong by 1.3 or 0.77 is rejected.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from privopt.convex import (
    Box,
    L1Ball,
    L2Ball,
    Simplex,
    WholeSpace,
    enough_proposals,
    sample_log_concave,
)
from privopt.convex.bounding_ellipsoid import bound_low_part

LEVEL = 1e-6
DRAWS = 4_000
WRONG = (0.77, 1.3)


def kinks(w, number):
    """Two hinges, a tilt and a parabola of weights ``number``, with gradients."""
    first, second, tilt, bend, shift = number
    value = first * jnp.abs(w - 0.3) + second * jnp.maximum(0.0, 1.0 - 2.0 * w) + tilt * w
    slope = first * jnp.sign(w - 0.3) + tilt - jnp.where(w < 0.5, 2.0 * second, 0.0)
    value += 0.5 * bend * (w - shift) ** 2
    return value.sum(), slope + bend * (w - shift)


def norm_about(w, number):
    """``number[0] |w| + number[1] w_1 + number[2] |w|^2 / 2``."""
    size = jnp.sqrt(jnp.sum(w**2))
    direction = w / jnp.where(size > 0.0, size, 1.0)
    lean = jnp.zeros_like(w).at[0].set(number[1])
    value = number[0] * size + lean @ w + 0.5 * number[2] * size**2
    return value, number[0] * direction + lean + number[2] * w


@partial(jax.jit, static_argnames=("potential", "dim", "draws"))
def sampled(key, potential, numbers, constraint, *, dim, radius, draws=DRAWS):
    return jax.vmap(
        lambda k: sample_log_concave(
            k,
            lambda w: potential(w, numbers),
            constraint,
            dim=dim,
            radius=radius,
            proposals=enough_proposals(dim, LEVEL),
        )
    )(jax.random.split(key, draws))


def accepted(sample, cdf):
    return stats.kstest(np.asarray(sample), cdf).pvalue > LEVEL


@pytest.mark.parametrize(
    "numbers",
    [
        (0.0, 0.0, 5.0, 0.0, 0.0),  # linear: a cut exponential
        (0.0, 0.0, 0.0, 0.0, 0.0),  # flat
        (0.0, 0.0, 2.0, 60.0, 0.1),  # a Gaussian well inside
        (0.0, 0.0, -4.0, 3.0, 0.0),  # a Gaussian cut at the end
        (20.0, 0.0, 0.0, 0.0, 0.0),
        (2000.0, 0.0, 300.0, 0.0, 0.0),
        (7.0, 9.0, 3.0, 4.0, -0.2),
    ],
)
def test_line_against_quadrature(numbers):
    draw = sampled(
        jax.random.key(1), kinks, jnp.asarray(numbers), Box(-1.0, 1.0), dim=1, radius=1.0,
        draws=10_000,
    )  # fmt: skip
    sample = np.asarray(draw.point[:, 0])
    grid = np.unique(
        np.concatenate([np.linspace(-1, 1, 40_001), 0.3 + np.linspace(-0.02, 0.02, 40_001)])
    )
    energy = np.array(jax.vmap(lambda w: kinks(w[None], jnp.asarray(numbers))[0])(grid))

    def cdf(scale):
        density = np.exp(-scale * (energy - energy.min()))
        mass = integrate.cumulative_trapezoid(density, grid, initial=0.0)
        return lambda w: np.interp(w, grid, mass / mass[-1])

    assert accepted(sample, cdf(1.0))
    if any(numbers):
        assert not any(accepted(sample, cdf(scale)) for scale in WRONG)
    assert draw.log_acceptance.max() < 1e-9
    assert np.all(np.abs(sample) <= 1.0)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_radius_of_the_distance_is_a_cut_gamma(dim):
    """``|w - 0|`` times ``k`` is Gamma(d) cut at ``k R``; and the direction is uniform."""
    for k in (3.0, 300.0):
        draw = sampled(
            jax.random.key(dim), norm_about, jnp.array([k, 0.0, 0.0]), L2Ball(0.8), dim=dim,
            radius=0.8,
        )  # fmt: skip
        point = np.asarray(draw.point)
        radius = np.linalg.norm(point, axis=1)

        def cdf(scale, k=k):
            gamma = stats.gamma(dim, scale=1.0 / (scale * k))
            return lambda r: gamma.cdf(r) / gamma.cdf(0.8)

        assert accepted(radius, cdf(1.0))
        assert not any(accepted(radius, cdf(scale)) for scale in WRONG)
        assert draw.log_acceptance.max() < 1e-9
        side = point[:, 0] / radius
        if dim == 3:  # a coordinate of a uniform direction is uniform
            assert accepted(side, stats.uniform(-1, 2).cdf)
        assert stats.binomtest(int((side > 0).sum()), DRAWS).pvalue > LEVEL


@pytest.mark.parametrize("dim", [2, 3])
def test_regularised_radius_and_a_tilt(dim):
    """``exp(-k r - k m r^2/2)``: its radial law; with a tilt, its law along the tilt."""
    k, m = 8.0, 5.0
    draw = sampled(
        jax.random.key(7), norm_about, jnp.array([k, 0.0, k * m]), L2Ball(1.0), dim=dim, radius=1.0
    )
    grid = np.linspace(0.0, 1.0, 20_001)

    def radial(scale):
        density = grid ** (dim - 1) * np.exp(-scale * (k * grid + 0.5 * k * m * grid**2))
        mass = integrate.cumulative_trapezoid(density, grid, initial=0.0)
        return lambda r: np.interp(r, grid, mass / mass[-1])

    radius = np.linalg.norm(draw.point, axis=1)
    assert accepted(radius, radial(1.0))
    assert not any(accepted(radius, radial(scale)) for scale in WRONG)

    tilted = sampled(
        jax.random.key(8), norm_about, jnp.array([0.0, 200.0, 0.0]), L2Ball(1.0), dim=dim,
        radius=1.0,
    )  # fmt: skip
    line = np.linspace(-1.0, 1.0, 200_001)

    def along(scale):
        density = (1.0 - line**2) ** (0.5 * (dim - 1)) * np.exp(-200.0 * scale * (line + 1.0))
        mass = integrate.cumulative_trapezoid(density, line, initial=0.0)
        return lambda r: np.interp(r, line, mass / mass[-1])

    assert accepted(tilted.point[:, 0], along(1.0))
    assert not any(accepted(tilted.point[:, 0], along(scale)) for scale in WRONG)
    assert tilted.log_acceptance.max() < 1e-9


@pytest.mark.parametrize(
    "constraint",
    [L2Ball(1.0, 0.2), Box(np.array([0.0, -0.5]), np.array([0.2, 0.9])),
     L1Ball(0.7)],
    ids=lambda c: type(c).__name__,
)  # fmt: skip
def test_every_set_against_a_grid(constraint):
    """Chi-square of the cells of a 12 x 12 grid against quadrature, level 1e-6."""
    numbers = jnp.array([3.0, 2.0, 1.0])
    radius = constraint.radius_about_centre(2)
    draw = sampled(jax.random.key(3), norm_about, numbers, constraint, dim=2, radius=radius)
    point = np.asarray(draw.point)
    assert bool(jnp.all(constraint.contains(draw.point, 0.0)))
    centre = np.asarray(constraint.centre_point(2, np.float64))
    fine = np.linspace(-radius, radius, 12 * 60 + 1)
    middle = 0.5 * (fine[1:] + fine[:-1])
    grid = np.stack(np.meshgrid(*(middle + c for c in centre), indexing="ij"), axis=-1)
    inside = np.asarray(constraint.contains(jnp.asarray(grid), 0.0))
    energy = np.asarray(jax.vmap(jax.vmap(lambda w: norm_about(w, numbers)[0]))(jnp.asarray(grid)))
    edges = [fine[::60] + c for c in centre]
    counts = np.histogram2d(*point.T, bins=edges)[0].ravel()

    def p_value(scale):
        density = np.where(inside, np.exp(-scale * energy), 0.0)
        expected = density.reshape(12, 60, 12, 60).sum(axis=(1, 3)).ravel()
        expected *= DRAWS / expected.sum()
        common = expected > 5.0
        observed = np.append(counts[common], counts[~common].sum())
        predicted = np.append(expected[common], expected[~common].sum())
        keep = predicted > 1e-9
        return stats.chisquare(observed[keep], predicted[keep]).pvalue

    assert p_value(1.0) > LEVEL
    assert p_value(2.0) < LEVEL


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_acceptance_does_not_collapse(dim):
    """Mean proposals of 500 draws from sharpness 1 to 1e6, for a cone, a tilt and a bowl."""
    most = {1: 2.5, 2: 12.0, 3: 120.0}[dim]
    for shape in ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.1, 1.0)):
        for k in (1.0, 1e3, 1e6):
            draw = sampled(
                jax.random.key(4), norm_about, k * jnp.asarray(shape), L2Ball(1.0), dim=dim,
                radius=1.0, draws=500,
            )  # fmt: skip
            assert draw.proposals.mean() < most
            assert draw.log_acceptance.max() < 1e-9


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_bounding_ellipsoid_holds_the_low_part_and_bounds_the_minimum(dim):
    """On random maxima of planes, whose low part and minimum a fine sample of the ball knows."""
    rng = np.random.default_rng(dim)
    cloud = rng.normal(size=(200_000, dim))
    cloud *= rng.random((200_000, 1)) ** (1 / dim) / np.linalg.norm(cloud, axis=1, keepdims=True)
    enclosed = jax.jit(
        lambda slopes, offsets: bound_low_part(
            jax.value_and_grad(lambda w: jnp.max(slopes @ w + offsets)),
            L2Ball(1.0), jnp.zeros(dim), radius=1.0, height=1.5,
        )
    )  # fmt: skip
    for _ in range(10):
        slopes = 10.0 ** rng.uniform(-1, 2) * rng.normal(size=(6, dim))
        offsets = rng.normal(size=6)
        around = jax.tree.map(np.asarray, enclosed(slopes, offsets))
        values = (cloud @ slopes.T + offsets).max(axis=1)
        low = cloud[values <= around.value + 1.5]
        gauge = np.linalg.norm((low - around.centre) @ np.linalg.inv(around.axes).T, axis=1)
        assert low.size == 0 or gauge.max() <= 1.0
        assert values.min() >= around.value - around.slack
        assert around.slack < 0.15
        assert around.proved
        assert np.linalg.norm(around.anchor) <= 1.0 + 1e-12


def test_the_same_key_gives_the_same_bits_and_another_another():
    numbers = jnp.array([5.0, 1.0, 0.0])
    options = {"dim": 2, "radius": 1.0, "draws": 500}
    first = sampled(jax.random.key(0), norm_about, numbers, L2Ball(1.0), **options)
    again = sampled(jax.random.key(0), norm_about, numbers, L2Ball(1.0), **options)
    other = sampled(jax.random.key(1), norm_about, numbers, L2Ball(1.0), **options)
    np.testing.assert_array_equal(first.point, again.point)
    assert np.unique(np.concatenate([first.point, other.point]), axis=0).shape[0] == 1000


def test_refuses():
    def flat(w):
        return 0.0 * w.sum(), 0.0 * w

    with pytest.raises(ValueError, match="dim must be at most 3, got 4"):
        sample_log_concave(jax.random.key(0), flat, L2Ball(1.0), dim=4, radius=1.0, proposals=1)
    for constraint in (Simplex(), WholeSpace()):
        with pytest.raises(ValueError, match="bounded and have an interior, got"):
            sample_log_concave(jax.random.key(0), flat, constraint, dim=2, radius=1.0, proposals=1)
