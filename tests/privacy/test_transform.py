"""Transforms at a few frequencies, and the proof that the others may be omitted."""

import numpy as np
import pytest

from privopt.privacy.fourier import transform
from privopt.privacy.fourier.transform import (
    Characteristic,
    characteristics,
    count_relevant,
    multiply_powers,
)

SIZE = 2**14
LIMIT = np.exp(-80.0)


def law(name):
    """Return masses and points around 0."""
    points = np.arange(-60, 61)
    if name == "pair":
        return np.array([0.7, 0.3]), np.array([0, 1])
    if name == "atom":
        return np.ones(1), np.zeros(1, dtype=np.int64)
    if name == "rare":  # a law of large losses, with probability 1 / 200
        far = np.concatenate([points, np.arange(300, 3000, 27)])
        mass = np.exp(-0.5 * (far / 15.0) ** 2) + np.where(far > 100, 2e-3, 0.0)
    elif name == "wide":  # most pairs are farther apart than the longest distance of the proof
        far = np.arange(-2000, 2001)
        mass = np.exp(-0.5 * (far / 600.0) ** 2)
    else:
        far, mass = points, np.exp(-0.5 * (points / 15.0) ** 2)
        mass = np.where(points % 2 == 0, mass, 0.0) if name == "even" else mass
    return mass / mass.sum(), far


NAMES = ["smooth", "even", "rare", "wide", "pair", "atom"]


def exact(weight, points, modes):
    """``phi - 1`` in extended precision, with phases reduced as integers."""
    turns = np.multiply.outer(np.arange(modes), points) % SIZE
    half = np.pi.as_integer_ratio()[0] / np.longdouble(np.pi.as_integer_ratio()[1])
    half = (half + np.longdouble(1.2246467991473532e-16)) / SIZE * turns
    sine, cosine = np.sin(half), np.cos(half)
    weight = weight.astype(np.longdouble)
    return -2 * (sine * sine) @ weight, -2 * (sine * cosine) @ weight


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("modes", [8, 57])
def test_sums_over_points_are_within_their_errors(name, modes):
    weight, points = law(name)
    few = Characteristic.of_first(weight, points, SIZE, modes)
    real, imag = exact(weight, points, modes)
    wrong = np.hypot(few.value.real - real, few.value.imag - imag)
    assert few.value.size == modes
    assert np.all(wrong <= few.rounding / 4)
    assert np.all(few.rounding <= 1e-12 * np.arange(modes) / SIZE * 2000 * 7)


@pytest.mark.parametrize(
    ("name", "count"), [("smooth", 100_000), ("pair", 100_000), ("even", 1_000), ("rare", 1_000)]
)
def test_powers_are_within_their_error(name, count):
    """In euclidean norm, with the rounding of the exponential itself."""
    weight, points = law(name)
    few = Characteristic.of_first(weight, points, SIZE, 60)
    powers, error = multiply_powers([(few, count)], SIZE)
    real, imag = exact(weight, points, 60)
    log = np.log1p(2 * real + (real * real + imag * imag)) / 2
    angle = np.arctan2(imag, 1 + real)
    whole = np.exp(count * log) * np.exp(1j * (count * angle))
    wrong = np.abs(powers.values - whole[powers.modes]) ** 2
    rounding = 30 * 2.0**-53 * powers.length
    assert np.sqrt(powers.weights @ wrong / SIZE) <= error + rounding
    assert error < 1e-7 * powers.length


@pytest.mark.parametrize("name", NAMES)
def test_few_frequencies_are_those_of_the_fast_transform(name):
    weight, points = law(name)
    ((whole, _),), shift = characteristics([(weight, points, 1)], SIZE)
    few = Characteristic.of_first(weight, points - shift, SIZE, 40)
    assert np.abs(whole.value[:40] - few.value).max() <= 1e-13


@pytest.mark.parametrize(
    "names",
    [
        ("smooth",),
        ("even",),
        ("rare",),
        ("wide",),
        ("pair",),
        ("atom",),
        ("smooth", "rare"),
        ("even", "pair"),
    ],
)
@pytest.mark.parametrize("count", [2, 1_000, 100_000])
def test_frequencies_outside_are_below_the_cutoff(names, count, monkeypatch):
    """Without the smallest factor, as its error is multiplied by the others."""
    monkeypatch.setattr(transform, "_TERMS_PER_POINT", 10**9)
    laws = [(*law(name), count) for name in names]
    modes = count_relevant(laws, SIZE)
    sizes = []
    for weight, points, _ in laws:
        size = np.abs(np.fft.rfft(np.bincount(points % SIZE, weight, SIZE)))
        sizes.append(np.log(np.maximum(size, 1e-300)))
    others = count * np.sum(sizes, axis=0) - np.min(sizes, axis=0)
    assert np.all(others[modes:] <= np.log(LIMIT) * (1.0 - 1e-6))
    needed = np.flatnonzero(others > np.log(LIMIT)).max() + 1
    if names == ("smooth",) and count > 2:
        assert needed <= modes <= 1.5 * needed + 8
    if names == ("even",):
        assert modes == SIZE // 2 + 1  # the transform is periodic


def test_small_transforms_and_many_terms_take_all_frequencies():
    smooth = (*law("smooth"), 100_000)
    assert count_relevant([smooth], 2**12) == 2**11 + 1
    assert count_relevant([smooth], SIZE) < 100
    weight = np.full(20_001, 1 / 20_001)
    assert count_relevant([(weight, np.arange(-10_000, 10_001), 1_000)], SIZE) == SIZE // 2 + 1
