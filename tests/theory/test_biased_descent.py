"""Descent along biased gradients: no run is above its bound, exponents are those of the values."""

import dataclasses
import math

import numpy as np
import pytest
from builders import onto_ball

from privopt.spec import ProblemClass
from privopt.theory import (
    Exponents,
    Term,
    bias_reduced_moments,
    bias_reduced_steps,
    biased_descent_rate,
    biased_descent_step_size,
    projected_descent_rate,
    projected_descent_steps,
)
from privopt.theory.biased_descent import inexact_descent_rate

FACTS = ProblemClass(n=100, dim=3, lipschitz=1.0, radius=1.0, smoothness=0.5)
HALF = Exponents(n=-0.5, epsilon=-0.5)


def estimate(gradient, bias, spread, rng):
    """Return the gradient with an opposing bias of length ``bias`` and with noise."""
    away = -gradient / max(np.linalg.norm(gradient), 1e-12)
    return gradient + bias * away + spread * rng.normal(size=gradient.size) / math.sqrt(3.0)


def descended(gradient_of, estimated, steps, step_size, radius=1.0):
    """Return all iterates from the centre of the ball."""
    point, path = np.zeros(3), []
    for _ in range(steps + 1):
        path.append(point)
        point = onto_ball(point - step_size * estimated(gradient_of(point)), radius)
    return np.array(path)


@pytest.mark.parametrize("bias", [0.0, 0.1, 0.4])
@pytest.mark.parametrize("steps", [5, 60])
@pytest.mark.parametrize("size", [0.3, 1.0, 3.0])
def test_no_run_on_a_huber_loss_is_above_the_bounds(bias, steps, size):
    """``F`` is 1-Lipschitz and 1/2-smooth, its minimiser on the sphere; 30 runs, of which the mean.

    The bounds are worst cases of all losses, so that no noise of the mean comes near them.
    """
    centre = np.array([0.8, 0.6, 0.0])
    rng = np.random.default_rng(4)

    def value(points):
        far = np.linalg.norm(points - centre, axis=-1)
        return np.where(far <= 2.0, 0.25 * far**2, far - 1.0)

    def gradient(point):
        far = point - centre
        return 0.5 * far if np.linalg.norm(far) <= 2.0 else far / np.linalg.norm(far)

    spread = 0.3
    moment, error = (1.0 + bias) ** 2 + spread**2, bias**2 + spread**2
    eta = size * biased_descent_step_size(FACTS, steps=steps, second_moment=moment)
    terms = {"bias": Term("b", bias), "second_moment": Term("nu", moment)}
    biased = biased_descent_rate(FACTS, steps=steps, step_size=eta, **terms)
    inexact = inexact_descent_rate(FACTS, steps=steps, error=Term("e", error), step_size=eta)
    paths = np.array([
        descended(gradient, lambda g: estimate(g, bias, spread, rng), steps, eta) for _ in range(30)
    ])  # fmt: skip
    assert value(paths.mean(axis=1)).mean() <= biased.upper
    assert value(paths[:, 1:].mean(axis=1)).mean() <= inexact.upper


@pytest.mark.parametrize("bias", [0.0, 0.2])
def test_no_gradient_norm_is_above_the_bounds(bias):
    """Along ``-cos``, which is 1-smooth and not convex, from near its maximum; 40 runs."""
    facts = ProblemClass(n=9, dim=3, lipschitz=2.0, radius=math.inf, smoothness=1.0, convex=False)
    rng, spread, steps, start = np.random.default_rng(6), 0.2, 40, 3.0
    gap = 3.0 * (1.0 - math.cos(start))
    moment, error = (math.sqrt(3.0) + bias) ** 2 + spread**2, bias**2 + spread**2
    eta = biased_descent_step_size(facts, steps=steps, second_moment=moment, gap=gap)
    for step_size, rate in (
        (eta, biased_descent_rate(facts, steps=steps, bias=Term("b", bias),
                                  second_moment=Term("nu", moment), gap=gap)),
        (1.0, inexact_descent_rate(facts, steps=steps, error=Term("e", error), gap=gap)),
    ):  # fmt: skip
        norms = [
            np.linalg.norm(
                np.sin(start + descended(lambda w: np.sin(start + w),
                                         lambda g: estimate(g, bias, spread, rng),
                                         steps, step_size, math.inf)[:-1]), axis=1).mean()
            for _ in range(40)
        ]  # fmt: skip
        assert np.mean(norms) <= rate.upper
        assert rate.quantity == "gradient norm"


@pytest.mark.parametrize("gap", [None, 0.5])
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("size", [None, 0.05])
@pytest.mark.parametrize("noise", [0.05, 0.004, 0.0004])
def test_declared_exponents_are_local_ones(gap, smooth, size, noise):
    """``n`` and ``epsilon`` by the noise, ``T`` by its root, at two per cent."""

    def values(steps=400, factor=1.0, sparsity=4.0, dim=8192.0):
        facts = ProblemClass(n=100, dim=8192, lipschitz=1.0, radius=1.0, smoothness=0.5, sparsity=4)
        object.__setattr__(facts, "sparsity", sparsity)
        object.__setattr__(facts, "dim", dim)
        noise_std = noise * factor * math.sqrt(steps / 400)
        rate = projected_descent_rate(
            facts, steps=steps, noise_std=noise_std, gap=gap, smooth=smooth, step_size=size
        )
        return {term.name: term for term in rate.terms}

    step = math.log(1.02)
    for axis, up, down in (
        ("epsilon", values(factor=1.0 / 1.02), values(factor=1.02)),
        ("sparsity", values(sparsity=4.08), values(sparsity=4.0 / 1.02)),
        ("dim", values(dim=8192.0 * 1.02), values(dim=8192.0 / 1.02)),
    ):
        for name, term in values().items():
            slope = 0.5 * math.log(up[name].value / down[name].value) / step
            assert slope == pytest.approx(getattr(term.powers, axis), abs=5e-3), (name, axis)
            assert term.powers.n == term.powers.epsilon
    for name, term in values().items():
        shift = 1.0 if not smooth and gap is None else 0.0
        up, down = values(steps=408)[name].value, values(steps=392)[name].value
        slope = math.log(up / down) / math.log((408 + shift) / (392 + shift))
        assert slope == pytest.approx(term.powers.steps, abs=5e-3), name


def test_more_steps_are_asked_of_less_noise():
    facts = ProblemClass(n=2048, dim=8192, lipschitz=1.0, radius=1.0, smoothness=0.5, sparsity=4)
    found = [projected_descent_steps(facts, one_step_noise=s) for s in (0.1, 0.004, 0.0001)]
    assert found == sorted(found)
    assert found[0] < found[-1]
    best, *others = (
        projected_descent_rate(facts, steps=steps, noise_std=0.0001 * math.sqrt(steps)).upper
        for steps in (found[-1], 1, 4, 100, 2000)
    )
    assert best <= min(others) * 1.001


def test_what_no_theorem_covers():
    one = {"steps": 5, "bias": Term("b", 0.1, HALF), "second_moment": Term("nu", 1.0)}
    wild = ProblemClass(n=9, dim=3, lipschitz=1.0, radius=1.0, convex=False)
    wide = ProblemClass(n=9, dim=3, lipschitz=1.0, radius=math.inf)
    assert "not convex, and no gap" in biased_descent_rate(wild, **one).theorem
    assert "not bounded" in biased_descent_rate(wide, **one).theorem
    assert "not smooth" in biased_descent_rate(wide, gap=1.0, **one).theorem
    error = {"steps": 5, "error": Term("e", 0.1, HALF)}
    assert "not smooth" in inexact_descent_rate(wild, gap=1.0, **error).theorem
    assert "shorter than 1/H" in inexact_descent_rate(FACTS, step_size=2.1, **error).theorem
    with pytest.raises(ValueError, match="smoothness must be declared"):
        biased_descent_step_size(wide, steps=1, second_moment=1.0, gap=1.0)


# --- gradients of reduced bias ---

SPARSE = ProblemClass(n=2**14, dim=2**14, lipschitz=1.0, radius=1.0, sparsity=4)


def moments(facts=SPARSE, noise=16.0, base=16, body="l1_l2"):
    highest = (facts.n // base).bit_length() - 2
    law = [2 ** (highest - k) / (2 ** (highest + 1) - 1) for k in range(highest + 1)]
    return bias_reduced_moments(facts, noise=noise, base=base, probabilities=law, body=body)


@pytest.mark.parametrize("base", [1, 16, 256])
def test_below_the_closed_forms(base):
    """``sqrt(2 A/n)`` and ``3 C^2/2 + 6 A (M + 1)/b_0``, ``A = 2 sqrt(2) C^2 z sqrt(s ln 2d)``."""
    bias, second = moments(base=base)
    highest = (SPARSE.n // base).bit_length() - 2
    a = 2.0 * math.sqrt(2.0) * 8.0 * math.sqrt(4.0 * math.log(2.0 * SPARSE.dim))
    assert 0.1 * math.sqrt(2.0 * a / SPARSE.n) < bias.value <= math.sqrt(2.0 * a / SPARSE.n)
    assert 0.02 * a * (highest + 1) / base < second.value - 1.5
    assert second.value <= 1.5 + 6.0 * a * (highest + 1) / base


@pytest.mark.parametrize(("body", "least"), [("none", 0.97), ("l2", 0.05)])
@pytest.mark.parametrize("noise", [0.5, 4.0])
def test_the_second_moment_is_above_what_is_drawn(body, least, noise):
    """Records of one gradient of length ``C``, 100,000 draws of every level, five errors to spare.

    Without a body the bound is an equality.
    """
    rng, dim, base = np.random.default_rng(4), 5, 2
    facts = ProblemClass(n=32, dim=dim, lipschitz=1.0, radius=1.0)
    law = np.array([8.0, 4.0, 2.0, 1.0]) / 15.0
    clean = np.eye(dim)[0]

    def mean(batch):
        noisy = clean + noise / batch * rng.normal(size=(100_000, dim))
        if body == "none":
            return noisy
        return noisy / np.maximum(1.0, np.linalg.norm(noisy, axis=1, keepdims=True))

    value, variance = 0.0, 0.0
    for level, chance in enumerate(law):
        small = base << level
        jump = (mean(2 * small) - 0.5 * (mean(small) + mean(small))) / chance
        square = np.sum((jump + mean(base)) ** 2, axis=1)
        value += chance * square.mean()
        variance += chance**2 * square.var() / 100_000
    _, second = bias_reduced_moments(facts, noise=noise, base=base, probabilities=law, body=body)
    error = 5.0 * math.sqrt(variance)
    assert least * second.value < value - error < value < second.value + error


def test_nothing_is_biased_that_is_not_projected():
    assert moments(body="none").bias.value == 0.0
    assert moments(body="none").second.value > moments().second.value
    assert moments(body="l2").bias.value > moments().bias.value


def test_without_a_declared_sparsity_gradients_are_dense():
    dense = dataclasses.replace(SPARSE, sparsity=SPARSE.dim)
    undeclared = dataclasses.replace(SPARSE, sparsity=None)
    for told, expected in zip(moments(undeclared), moments(dense), strict=True):
        assert told.value == expected.value > 0.0


@pytest.mark.parametrize("axis", ["dim", "sparsity"])
def test_exponents_are_slopes(axis):
    """Local ones, by a factor of two, within a tenth: regimes of single batches change."""
    large = dataclasses.replace(SPARSE, **{axis: 2 * getattr(SPARSE, axis)})
    for before, after in zip(moments(), moments(large), strict=True):
        slope = math.log2(after.value / before.value)
        assert slope == pytest.approx(getattr(before.powers, axis), abs=0.1)


def test_the_exponent_of_noise_is_that_of_epsilon():
    for before, after in zip(moments(), moments(noise=32.0), strict=True):
        slope = math.log2(after.value / before.value)
        assert slope == pytest.approx(-before.powers.epsilon, abs=0.1)


def test_default_steps():
    assert bias_reduced_steps(SPARSE, delta=1e-6, base=16) == math.ceil(
        2**15 / (16 * math.log(4e6))
    )
    assert bias_reduced_steps(SPARSE, delta=1e-6, base=2**13) == 1
