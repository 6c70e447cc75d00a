"""Tests of exact draws against closed forms and quadrature, and of the envelope and its cost.

The tests reject a density with a scale that is wrong by 1.3 or 0.77.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from boxes import Box
from builders import LEVEL, ks_p_value, one_scale_passes
from scipy import integrate, stats
from selection import choose, few

from privopt.convex import (
    L1Ball,
    L2Ball,
    WholeSpace,
    enough_proposals,
    sample_log_concave,
)
from privopt.convex.log_concave import bound_low_part

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


def flat(w):
    return 0.0 * w.sum(), 0.0 * w


@partial(jax.jit, static_argnames=("potential", "dim", "draws"))
def sampled(key, potential, numbers, constraint, *, dim, radius, draws=DRAWS):
    known = {"dim": dim, "radius": radius, "proposals": enough_proposals(dim, LEVEL)}

    def one(key):
        return sample_log_concave(key, lambda w: potential(w, numbers), constraint, **known)

    return jax.vmap(one)(jax.random.split(key, draws))


LINES = [
    (0.0, 0.0, 5.0, 0.0, 0.0),  # linear: a cut exponential
    (0.0, 0.0, 0.0, 0.0, 0.0),  # flat
    (0.0, 0.0, 2.0, 60.0, 0.1),  # a Gaussian well inside
    (0.0, 0.0, -4.0, 3.0, 0.0),  # a Gaussian cut at the end
    (20.0, 0.0, 0.0, 0.0, 0.0),
    (2000.0, 0.0, 300.0, 0.0, 0.0),
    (7.0, 9.0, 3.0, 4.0, -0.2),
]


@pytest.mark.cases(2)
@pytest.mark.parametrize("numbers", few(LINES, LINES[::3]))
def test_line_against_quadrature(numbers):
    where = {"dim": 1, "radius": 1.0, "draws": 10_000}
    draw = sampled(jax.random.key(1), kinks, jnp.asarray(numbers), Box(-1.0, 1.0), **where)
    sample = np.asarray(draw.point[:, 0])
    near = 0.3 + np.linspace(-0.02, 0.02, 40_001)
    grid = np.unique(np.concatenate([np.linspace(-1, 1, 40_001), near]))
    energy = np.array(jax.jit(jax.vmap(lambda w: kinks(w[None], jnp.asarray(numbers))[0]))(grid))

    def cdf(scale):
        density = np.exp(-scale * (energy - energy.min()))
        mass = integrate.cumulative_trapezoid(density, grid, initial=0.0)
        return lambda w: np.interp(w, grid, mass / mass[-1])

    wrong = WRONG if any(numbers) else ()
    one_scale_passes(lambda scale: ks_p_value(sample, cdf(scale)), *wrong)
    assert draw.log_acceptance.max() < 1e-9
    assert np.all(np.abs(sample) <= 1.0)


def test_a_normal_law_has_its_variance():
    """The radius is ten deviations. The sum of squares detects a twentieth more sharpness."""
    where = {"dim": 1, "radius": 1.0, "draws": 40_000}
    numbers = jnp.array([0.0, 0.0, 100.0])
    draw = sampled(jax.random.key(5), norm_about, numbers, L2Ball(1.0), **where)
    square, law = 100.0 * float(jnp.sum(draw.point**2)), stats.chi2(40_000)
    one_scale_passes(lambda r: 2.0 * min(law.cdf(r * square), law.sf(r * square)), 0.95, 1.05)


@pytest.mark.parametrize("dim", few([1, 2, 3], [2]))
def test_radius_of_the_distance_is_a_cut_gamma(dim):
    """``|w - 0|`` times ``k`` is Gamma(d) cut at ``k R``; and the direction is uniform."""
    for k in (3.0, 300.0):
        numbers, where = jnp.array([k, 0.0, 0.0]), {"dim": dim, "radius": 0.8}
        draw = sampled(jax.random.key(dim), norm_about, numbers, L2Ball(0.8), **where)
        point = np.asarray(draw.point)
        radius = np.linalg.norm(point, axis=1)

        def p_value(scale, k=k, radius=radius):
            gamma = stats.gamma(dim, scale=1.0 / (scale * k))
            return ks_p_value(radius, lambda r: gamma.cdf(r) / gamma.cdf(0.8))

        one_scale_passes(p_value, *WRONG)
        assert draw.log_acceptance.max() < 1e-9
        side = point[:, 0] / radius
        if dim == 3:  # a coordinate of a uniform direction is uniform
            assert ks_p_value(side, stats.uniform(-1, 2).cdf) > LEVEL
        assert stats.binomtest(int((side > 0).sum()), DRAWS).pvalue > LEVEL


SETS = [L2Ball(1.0, 0.2), L1Ball(0.7), Box(np.array([0.0, -0.5]), np.array([0.2, 0.9]))]


@pytest.mark.parametrize("constraint", choose(SETS, SETS[:1]), ids=lambda c: type(c).__name__)
def test_every_set_against_a_grid(constraint):
    """Chi-square of the cells of a 12 x 12 grid against quadrature, level 1e-6."""
    numbers = jnp.array([3.0, 2.0, 1.0])
    radius = constraint.radius_about_centre(2)
    draw = sampled(jax.random.key(3), norm_about, numbers, constraint, dim=2, radius=radius)
    point = np.asarray(draw.point)
    contains = jax.jit(lambda w: constraint.contains(w, 0.0))
    assert np.all(contains(point))
    centre = np.asarray(constraint.centre_point(2, np.float64))
    fine = np.linspace(-radius, radius, 12 * 60 + 1)
    middle = 0.5 * (fine[1:] + fine[:-1])
    grid = np.stack(np.meshgrid(*(middle + c for c in centre), indexing="ij"), axis=-1)
    inside = np.asarray(contains(grid))
    energy = np.asarray(jax.jit(jax.vmap(jax.vmap(lambda w: norm_about(w, numbers)[0])))(grid))
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

    one_scale_passes(p_value, 2.0)


@pytest.mark.parametrize("dim", few([1, 2, 3], [2]))
def test_bounding_ellipsoid_holds_the_low_part_and_bounds_the_minimum(dim):
    """Compare random maxima of planes with a fine sample of the ball.

    The sample gives the low part and the minimum.
    """
    rng = np.random.default_rng(dim)
    size = choose(200_000, 50_000)
    cloud = rng.normal(size=(size, dim))
    cloud *= rng.random((size, 1)) ** (1 / dim) / np.linalg.norm(cloud, axis=1, keepdims=True)
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


def test_refuses():
    for constraint, dim, message in (
        (L2Ball(1.0), 4, "dim must be at most 3, got 4"),
        (WholeSpace(), 2, "bounded and have an interior, got"),
    ):
        where = {"dim": dim, "radius": 1.0, "proposals": 1}
        with pytest.raises(ValueError, match=message):
            sample_log_concave(jax.random.key(0), flat, constraint, **where)


# --- how many proposals a draw takes --------------------------------------------------------------

HEIGHT, FEW = 1.5, 500
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


@pytest.mark.thorough  # of speed
@pytest.mark.parametrize("dim", few([1, 2, 3], [2]))
def test_no_fewer_are_accepted(dim):
    """Use a cone around a point inside the ball, so that ``K`` is a ball.

    The tolerance is five standard errors, 3e-7.
    """
    middle = jnp.full(dim, 0.2)

    @jax.jit
    def drawn(keys, sharpness):
        def cone(w):
            away = w - middle
            size = jnp.sqrt(jnp.sum(away**2))
            return sharpness * size, sharpness * away / jnp.where(size > 0.0, size, 1.0)

        around = bound_low_part(cone, L2Ball(1.0), jnp.zeros(dim), radius=1.0, height=HEIGHT)
        known = {"dim": dim, "radius": 1.0, "proposals": enough_proposals(dim, 1e-12)}
        sample = jax.vmap(lambda k: sample_log_concave(k, cone, L2Ball(1.0), **known))
        return around, sample(keys).proposals

    for sharpness in (3.0, 300.0, 3e5):
        around, proposals = drawn(jax.random.split(jax.random.key(0), FEW), sharpness)
        level = (HEIGHT + float(around.value)) / sharpness
        fit = level**dim / abs(np.linalg.det(np.asarray(around.axes)))
        assert LEAST[dim] / 1.001**dim < fit <= 1.0
        assert around.proved
        assert around.slack <= 0.15
        most = math.exp(float(around.slack)) / (SHARE[dim] * fit)
        proposals = np.asarray(proposals, float)
        error = proposals.std() / math.sqrt(FEW)
        assert proposals.mean() - 5.0 * error <= most
        assert proposals.mean() >= 0.1 * most  # the bound is not idle


def test_enough_proposals_follow_from_what_is_proved():
    """``(1 - p)^M <= 2^-64``, with ``p`` a little below ``SHARE LEAST e^-0.15``."""
    for dim in (1, 2, 3):
        least = SHARE[dim] * LEAST[dim] * math.exp(-0.15)
        wanted = 64.0 * math.log(2.0) / -math.log1p(-least)
        assert wanted <= enough_proposals(dim, 2.0**-64) <= 1.02 * wanted + 1.0


@pytest.mark.parametrize("dim", few([2, 3], [2]))
def test_the_bounding_ellipsoid_is_proved_for_all_shapes(dim):
    """Random maxima of planes of very different steepness."""

    def proved(shape):
        slopes, offsets = shape

        def planes(w):
            values = slopes @ w + offsets
            return jnp.max(values), slopes[jnp.argmax(values)]

        known = {"radius": 1.0, "height": HEIGHT, "error": 2.0**-13}
        around = bound_low_part(planes, L2Ball(1.0), jnp.zeros(dim), **known)
        return around.proved, around.slack

    rng = np.random.default_rng(dim)
    steep = 10.0 ** rng.uniform(-3.0, 6.0, size=(12, 8, 1)) * rng.normal(size=(12, 8, dim))
    offsets = np.abs(steep).max(axis=(1, 2))[:, None] * rng.uniform(-0.2, 0.2, size=(12, 8))
    found, slack = jax.jit(partial(jax.lax.map, proved))((steep, offsets))
    assert np.all(found)
    assert slack.max() <= 0.15


def test_a_rough_function_is_not_proved():
    known = {"radius": 1.0, "height": HEIGHT, "error": 2.0**-12}
    bound = jax.jit(lambda centre: bound_low_part(flat, L2Ball(1.0), centre, **known).proved)
    assert not bound(np.zeros(1))
