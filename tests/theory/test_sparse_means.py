"""Tests of bounds of the projected mean: never below measured errors, exponents as declared."""

import itertools
import math

import numpy as np
import pytest
from builders import onto_both_balls

from privopt.spec import ProblemClass
from privopt.theory import l1_recovery_rate, projection_mechanism_rate
from privopt.theory.sparse_means import NoiseVector, projected_error, sparse_error

BODIES = ("none", "l2", "l1", "l1_l2")
NOISES = ("gaussian", "laplace")


def drawn(rng, kind, scale, shape):
    return (rng.normal if kind == "gaussian" else rng.laplace)(scale=scale, size=shape)


def nearest(y, body, sparsity):
    """The point of the body of records of norm one that is nearest to ``y``."""
    l1 = math.sqrt(sparsity) if body in ("l1", "l1_l2") else math.inf
    return onto_both_balls(y, l1, 1.0 if body in ("l2", "l1_l2") else math.inf)


def means(rng, dim, sparsity, scale):
    """Means within the body: none, one flat record, and blocks of the size that hurts."""
    flat = np.zeros(dim)
    flat[:sparsity] = 1.0 / math.sqrt(sparsity)
    blocks = max(1, min(dim // sparsity, round(1.0 / (scale * sparsity))))
    hidden = np.zeros(dim)
    hidden[: blocks * sparsity] = rng.choice([-1.0, 1.0], blocks * sparsity)
    return np.zeros(dim), flat, hidden / (math.sqrt(sparsity) * blocks)


GRID = list(itertools.product(NOISES, BODIES, (1, 4, 32), (2.0, 0.2, 0.02, 0.001)))


@pytest.mark.cases(12)
@pytest.mark.parametrize(("kind", "body", "sparsity", "scale"), GRID)
def test_no_error_is_above_its_bound(kind, body, sparsity, scale):
    """Errors are below the bound at four standard errors.

    False alarm below 1e-4 in each of 288 comparisons.
    """
    rng, dim, runs = np.random.default_rng(7), 64, 40
    bound = min(t.value for t in projected_error(NoiseVector(kind, scale, dim), body=body,
                                                 clip_norm=1.0, sparsity=sparsity))  # fmt: skip
    for mean in means(rng, dim, sparsity, scale):
        noisy = mean + drawn(rng, kind, scale, (runs, dim))
        told = np.array([nearest(y, body, sparsity) for y in noisy])
        errors = np.square(told - mean).sum(axis=1)
        assert errors.mean() - 4.0 * errors.std() / math.sqrt(runs) <= bound


@pytest.mark.parametrize("kind", NOISES)
def test_the_bound_is_near_what_copies_measure(kind):
    """Over a factor of 64 in the noise: within a factor of two at the worst size of the copies."""
    rng, dim, sparsity = np.random.default_rng(3), 4096, 4
    ratios = []
    for scale in (0.032, 0.008, 0.002, 0.0005):
        noise = NoiseVector(kind, scale, dim)
        worst = 0.0
        for size in (2.0, 4.0, 6.0, 9.0):
            entry = size * scale
            mean = np.zeros(dim)
            count = min(dim, int(math.sqrt(sparsity) / entry))
            mean[:count] = entry
            noisy = mean + drawn(rng, kind, scale, (6, dim))
            errors = [np.square(nearest(y, "l1_l2", sparsity) - mean).sum() for y in noisy]
            worst = max(worst, float(np.mean(errors)))
        ratios.append(worst / sparse_error(noise, 2.0, 1.0).value)
    assert 0.5 <= min(ratios) <= max(ratios) <= 1.02


@pytest.mark.parametrize("kind", NOISES)
def test_norms_of_noise(kind):
    """Exact for Laplace noise, at five standard errors; bounds for Gaussian noise."""
    rng, dim, scale = np.random.default_rng(1), 100, 0.3
    size = np.abs(drawn(rng, kind, scale, (4000, dim)))
    noise = NoiseVector(kind, scale, dim)
    above = np.square(np.maximum(size - 0.5, 0.0)).sum(axis=1)
    pairs = {
        "square": (np.square(size).sum(axis=1), noise.square, True),
        "largest": (size.max(axis=1), noise.largest, kind == "laplace"),
        "beyond": (above, noise.beyond(0.5) ** 2, True),
    }
    for name, (sample, told, exact) in pairs.items():
        error = 5.0 * sample.std() / math.sqrt(len(sample))
        assert sample.mean() <= told + error, name
        assert not exact or sample.mean() >= told - error, name
    for failure in (0.5, 0.05):
        slack = 5.0 * math.sqrt(failure / 4000)
        assert np.mean(size.max(axis=1) > noise.largest_quantile(failure)) <= failure + slack


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("kind", NOISES)
@pytest.mark.parametrize("size", [40, 300, 3000, 30_000, 300_000])
def test_declared_exponents_are_local_ones(kind, body, size):
    """Compare with central differences in real-valued parameters."""

    def values(n=size, dim=8192.0, sparsity=4.0, epsilon=1.0):
        root = 1.0 if kind == "gaussian" else math.sqrt(sparsity)
        noise = NoiseVector(kind, 8.0 * root / (n * epsilon), dim)
        terms = projected_error(noise, body=body, clip_norm=1.0, sparsity=sparsity)
        return {term.name: term for term in terms}

    here = {"n": size, "dim": 8192.0, "sparsity": 4.0, "epsilon": 1.0}
    for axis, value in here.items():
        up, down = values(**{axis: value * 1.001}), values(**{axis: value / 1.001})
        for name, term in values().items():
            slope = math.log(up[name].value / down[name].value) / (2.0 * math.log(1.001))
            assert slope == pytest.approx(getattr(term.powers, axis), abs=2e-3), (name, axis)


def facts(n, **more):
    given = {"dim": 8192, "lipschitz": 2.0, "radius": 1.0, "smoothness": 1.0,
             "strong_convexity": 1.0, "sparsity": 4} | more  # fmt: skip
    return ProblemClass(n=n, **given)


def rate(n, kind="gaussian", body="l1_l2", **more):
    scale = (1.0 if kind == "gaussian" else math.sqrt(more.get("sparsity") or 4)) * 8.0 / n
    return projection_mechanism_rate(
        facts(n, **more), noise=kind, scale=scale, body=body, clip_norm=1.0
    )


def test_the_curvature_is_at_most_the_smoothness():
    """A class of moduli from 1/2 to 3 has the bound of 3; one without an end that of 1, or none."""
    assert rate(2048, smoothness=3.0, strong_convexity=0.5).upper == pytest.approx(
        3.0 * rate(2048).upper, rel=1e-12
    )
    assert rate(2048, smoothness=None, strong_convexity=0.0).upper == rate(2048).upper
    wide = facts(2048, smoothness=None, strong_convexity=2.0)
    for found in (
        rate(2048, smoothness=None, strong_convexity=2.0),
        l1_recovery_rate(wide, clip_norm=1.0),
    ):
        assert found.upper == math.inf
        assert "no smoothness is declared" in found.theorem


def test_regimes_in_their_order():
    found = [rate(2**k).leading.name for k in range(2, 20)]
    assert [name for name, _ in itertools.groupby(found)] == ["constant", "sparse", "dense"]
    assert all(rate(2**k).in_regime for k in range(2, 20))
    assert (rate(2048).tight_on, rate(2048, "laplace").tight_on) == (
        "sparse_copies",
        "sparse_packing",
    )
    assert (rate(4).tight_on, rate(2**19).tight_on) == (None, "sparse_silence")
    assert rate(4).upper == 2.0


def test_more_of_a_body_is_never_worse():
    for n, kind in itertools.product((8, 128, 2048, 2**16), NOISES):
        raw, ball, simplex, both = (rate(n, kind, body).upper for body in BODIES)
        assert both <= min(ball, simplex) * (1.0 + 1e-9)
        assert max(ball, simplex) <= raw


def test_the_logarithm_is_that_of_the_lower_bound():
    """``2 R b (1 + ln(d b/R))``: near ``n = 2 d/epsilon`` less than the largest entry costs."""
    dim, radius = 2**16, 2.0
    for scale in (1e-2, 1e-3, 1e-4):
        told = 2.0 * radius * scale * (1.0 + math.log(dim * scale / radius))
        assert sparse_error(NoiseVector("laplace", scale, dim), radius).value <= told
    noise = NoiseVector("laplace", 1e-4, dim)
    assert sparse_error(noise, radius).value < 0.4 * radius * noise.largest


def test_dense_records_move_with_the_dimension():
    dense = rate(2048, "laplace", "none", sparsity=None, dim=16)
    assert (dense.exponents["dim"], dense.exponents["sparsity"]) == (2.0, 0.0)


def test_bad_arguments():
    with pytest.raises(ValueError, match="noise must be one of gaussian, laplace, got 'cauchy'"):
        NoiseVector("cauchy", 1.0, 2)
    noise = NoiseVector("gaussian", 1.0, 2)
    with pytest.raises(ValueError, match="body must be one of none, l2, l1, l1_l2, got 'cube'"):
        projected_error(noise, body="cube", clip_norm=1.0, sparsity=1)


def test_a_recovered_mean_is_promised_what_the_body_allows():
    assert l1_recovery_rate(facts(64), clip_norm=1.0).upper == rate(2).upper == 2.0
