"""Moments of gradients of reduced bias: closed forms, regimes, exponents against values."""

import dataclasses
import math

import numpy as np
import pytest

from privopt.spec import ProblemClass
from privopt.theory import bias_reduced_moments, bias_reduced_steps

FACTS = ProblemClass(n=2**14, dim=2**14, lipschitz=1.0, radius=1.0, sparsity=4)


def moments(facts=FACTS, noise=16.0, base=16, body="l1_l2"):
    highest = (facts.n // base).bit_length() - 2
    law = [2 ** (highest - k) / (2 ** (highest + 1) - 1) for k in range(highest + 1)]
    return bias_reduced_moments(facts, noise=noise, base=base, probabilities=law, body=body)


@pytest.mark.parametrize("base", [1, 16, 256])
def test_below_the_closed_forms(base):
    """``sqrt(2 A/n)`` and ``3 C^2/2 + 6 A (M + 1)/b_0``, ``A = 2 sqrt(2) C^2 z sqrt(s ln 2d)``."""
    bias, second = moments(base=base)
    highest = (FACTS.n // base).bit_length() - 2
    a = 2.0 * math.sqrt(2.0) * 8.0 * math.sqrt(4.0 * math.log(2.0 * FACTS.dim))
    assert 0.1 * math.sqrt(2.0 * a / FACTS.n) < bias.value <= math.sqrt(2.0 * a / FACTS.n)
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
    dense = dataclasses.replace(FACTS, sparsity=FACTS.dim)
    undeclared = dataclasses.replace(FACTS, sparsity=None)
    for told, expected in zip(moments(undeclared), moments(dense), strict=True):
        assert told.value == expected.value > 0.0


@pytest.mark.parametrize("axis", ["dim", "sparsity"])
def test_exponents_are_slopes(axis):
    """Local ones, by a factor of two, within a tenth: regimes of single batches change."""
    large = dataclasses.replace(FACTS, **{axis: 2 * getattr(FACTS, axis)})
    for before, after in zip(moments(), moments(large), strict=True):
        slope = math.log2(after.value / before.value)
        assert slope == pytest.approx(getattr(before.powers, axis), abs=0.1)


def test_the_exponent_of_noise_is_that_of_epsilon():
    for before, after in zip(moments(), moments(noise=32.0), strict=True):
        slope = math.log2(after.value / before.value)
        assert slope == pytest.approx(-before.powers.epsilon, abs=0.1)


def test_default_steps():
    assert bias_reduced_steps(FACTS, delta=1e-6, base=16) == math.ceil(2**15 / (16 * math.log(4e6)))
    assert bias_reduced_steps(FACTS, delta=1e-6, base=2**13) == 1
