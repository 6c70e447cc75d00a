"""The Fourier composition and its certificate against exact convolution."""

import math

import mpmath
import numpy as np
import pytest

from privopt.privacy.fourier import composition, transform
from privopt.privacy.fourier.composition import compose
from privopt.privacy.fourier.lattice import LatticeLoss
from privopt.privacy.fourier.transform import DenseTails, Lattice, ModalTails
from privopt.privacy.fourier.window import Window

mp = mpmath.mp.clone()
mp.dps = 40


def random_loss(seed, size=9, spacing=0.25, offset=0.0, infinite=0.0, low=-4, steep=0.0):
    """Dyadic masses, so that their sums are exact; losses from ``low`` on."""
    random = np.random.default_rng(seed)
    points = low + np.arange(size)
    mass = random.exponential(size=size) * np.exp(-steep * np.arange(size))
    mass = np.floor(mass / mass.sum() * 2.0**40) / 2.0**40 * (1.0 - infinite)
    return LatticeLoss(np.maximum(mass, 2.0**-60), points, offset, spacing, infinite)


def convolution(parts):
    """The composed law as a dictionary from sums, in units of the spacing, to probabilities."""
    law = {0: mp.mpf(1)}
    for part, count in parts:
        for _ in range(count):
            step = {}
            for total, mass in law.items():
                for point, weight in zip(part.points.tolist(), part.mass.tolist(), strict=True):
                    step[total + point] = step.get(total + point, 0) + mass * mp.mpf(weight)
            law = step
    offset = sum(mp.mpf(part.offset) * count for part, count in parts)
    return {(total + offset) * mp.mpf(parts[0][0].spacing): mass for total, mass in law.items()}


def exact_delta(law, parts, epsilon):
    infinite = 1 - mp.fprod((1 - mp.mpf(part.infinite)) ** count for part, count in parts)
    epsilon = mp.mpf(epsilon)
    finite = (m * -mp.expm1(epsilon - s) for s, m in law.items() if s > epsilon)
    return mp.fsum(finite) + infinite


def tilted_window(parts, tilt, needed=40.0):
    """A window around the tilted mean that leaves out ``e^-needed``, rates to match."""
    mean = variance = 0.0
    for part, count in parts:
        weight = part.mass * np.exp(tilt * (part.losses - part.losses.max()))
        weight /= weight.sum()
        centre = weight @ part.losses
        mean += count * centre
        variance += count * (weight @ (part.losses - centre) ** 2)
    rate = math.sqrt(2.0 * needed / max(variance, 1e-3))
    return Window(tilt, mean, mean, mean, rate, rate, needed)


CASES = {
    "once": [(random_loss(0), 1)],
    "homogeneous": [(random_loss(1), 12)],
    "steep": [(random_loss(2, steep=2.0), 9)],
    "shifted": [(random_loss(3, offset=0.37), 6)],
    "mixed": [(random_loss(4), 3), (random_loss(5, size=4, offset=0.2, low=0), 5)],
    "infinite": [(random_loss(6, infinite=1e-3), 4), (random_loss(7), 2)],
    "coarse": [(random_loss(8, spacing=40.0, size=3, low=-1), 5)],
    "atom": [(random_loss(9, size=1, low=2), 7)],
}
LAWS = {name: convolution(parts) for name, parts in CASES.items()}


@pytest.fixture(params=[DenseTails, ModalTails], ids=lambda kind: kind.__name__)
def tails(request, monkeypatch):
    """Force each representation of the tails, for any number of frequencies."""
    always = 10**9 if request.param is DenseTails else 0
    monkeypatch.setattr(composition, "_POINTS_PER_MODE", always)
    monkeypatch.setattr(composition, "_FEW_POINTS", always)
    return request.param


@pytest.mark.cases(16)
@pytest.mark.parametrize("tilt", [0.0, 2.0, 40.0])
@pytest.mark.parametrize(("needed", "limit"), [(40.0, 4096), (2.0, 4096), (40.0, 20)])
@pytest.mark.parametrize("name", CASES)
def test_both_certificates_hold_everywhere_in_any_window(name, needed, limit, tilt, tails):
    parts, law = CASES[name], LAWS[name]
    tilt /= parts[0][0].spacing / 0.25
    window = tilted_window(parts, tilt, needed)
    ends = sorted(law)
    first, last = float(ends[0]), float(ends[-1])
    span = max(last - first, 1.0)
    upper, lower = (compose(parts, window, limit, pessimistic) for pessimistic in (True, False))
    lattice = upper.tails.lattice
    sums = [lattice.sum_at(k) for k in range(0, lattice.count, max(1, lattice.count // 12))]
    inside = [*sums, window.centre]
    for epsilon in [*np.linspace(first - span, last + 0.3 * span, 30), *inside]:
        exact = exact_delta(law, parts, epsilon)
        slack = mp.mpf(10) ** -14 * abs(tilt * epsilon) * exact  # epsilon is a float
        assert lower.delta(epsilon, -1.0) <= exact + slack
        assert upper.delta(epsilon, 1.0) >= exact - slack
    for exponent in (-1, -2, -5, -9, -14, -40):
        delta = 10.0**exponent
        top, bottom = upper.epsilon(delta, 1.0), lower.epsilon(delta, -1.0)
        if math.isfinite(top):
            assert exact_delta(law, parts, top + 1e-12 * (1 + abs(top))) <= delta
        if math.isfinite(bottom):
            assert exact_delta(law, parts, bottom - 1e-12 * (1 + abs(bottom))) >= delta
        assert bottom <= top


@pytest.mark.parametrize("tilt", [0.0, 2.0, 9.0])
@pytest.mark.parametrize("name", ["homogeneous", "mixed", "shifted", "infinite"])
def test_a_full_window_is_tight(name, tilt, tails):
    parts, law = CASES[name], LAWS[name]
    window = tilted_window(parts, tilt)
    upper, lower = (compose(parts, window, 512, pessimistic) for pessimistic in (True, False))
    exact = exact_delta(law, parts, window.centre)
    assert exact > 0
    assert lower.delta(window.centre, -1.0) == pytest.approx(float(exact), rel=1e-9)
    assert upper.delta(window.centre, 1.0) == pytest.approx(float(exact), rel=1e-9)
    assert upper.size <= 512


@pytest.mark.cases(6)
@pytest.mark.parametrize("count", [1, 7, 100, 2000])
@pytest.mark.parametrize("tilt", [0.0, 1.0, 8.0])
def test_rounding_stays_within_the_certificate_with_factors_to_spare(count, tilt, tails):
    """Two losses make a binomial sum, known to all digits."""
    p, size = 0.3, 4096
    part = LatticeLoss(np.array([1 - p, p]), np.array([-1, 1]), 0.0, 0.125, 0.0)
    window = tilted_window([(part, count)], tilt)._replace(below_rate=10.0, above_rate=10.0)
    composed = compose([(part, count)], window, size, False)
    assert isinstance(composed.tails, tails)
    law = {}
    for k in range(count + 1):
        mass = mp.binomial(count, k) * mp.mpf(p) ** k * mp.mpf(1 - p) ** (count - k)
        law[mp.mpf(2 * k - count) / 8] = mass
    compared = 0
    for shift in (-1.0, 0.0, 0.5):
        epsilon = window.centre + shift
        exact = exact_delta(law, [(part, count)], epsilon)
        bare = mp.mpf(composed.delta(epsilon, -1.0) + composed.delta(epsilon, 1.0)) / 2
        if exact < 1e-300:
            continue
        compared += 1
        claimed = mp.exp(composed.log_error(epsilon))
        assert abs(bare - exact) <= claimed / 4
        assert claimed <= max(1e-6 * exact, 1e-11 * (shift > 0.0))
    assert bool(compared) != ((count, tilt) == (2000, 8.0))  # where all is below 1e-300


@pytest.mark.parametrize(("count", "tilt"), [(400, 0.0), (400, 1.0), (3000, 0.2)])
def test_few_frequencies_keep_the_certificate(count, tilt, tails, monkeypatch):
    """Sums over the points of a law replace the transform of a binomial sum."""
    monkeypatch.setattr(transform, "_MANY_POINTS", 0)
    monkeypatch.setattr(transform, "_TERMS_PER_POINT", 10**9)
    mode_counts = []
    of_first = transform.Characteristic.of_first

    def spy(weight, points, size, modes):
        mode_counts.append(modes)
        return of_first(weight, points, size, modes)

    monkeypatch.setattr(transform.Characteristic, "of_first", spy)
    p, size = 0.3, 4096
    parts = [(LatticeLoss(np.array([1 - p, p]), np.array([0, 1]), 0.0, 0.125, 0.0), count)]
    window = tilted_window(parts, tilt)
    upper, lower = (compose(parts, window, size, pessimistic) for pessimistic in (True, False))
    assert 0 < max(mode_counts) < size // 4
    law = {
        mp.mpf(k) / 8: mp.binomial(count, k) * mp.mpf(p) ** k * mp.mpf(1 - p) ** (count - k)
        for k in range(count + 1)
    }
    for shift in (-1.0, 0.0, 0.7, 2.0):
        epsilon = window.centre + shift
        exact = exact_delta(law, parts, epsilon)
        slack = mp.mpf(10) ** -14 * abs(tilt * epsilon) * exact  # epsilon is a float
        low, high = lower.delta(epsilon, -1.0), upper.delta(epsilon, 1.0)
        assert low - slack <= exact <= high + slack
        assert high - low <= 1e-8 * exact


def test_parts_that_coincide_are_one_part():
    part = random_loss(11)
    window = tilted_window([(part, 9)], 1.0)
    whole, split = (
        compose(parts, window, 512, True)
        for parts in ([(part, 9)], [(part, 4), (part, 2), (part, 3)])
    )
    for epsilon in np.linspace(-3.0, 9.0, 30):
        assert split.delta(epsilon, 1.0) == pytest.approx(whole.delta(epsilon, 1.0), rel=1e-9)


def test_infinite_mass_stays_visible():
    part = random_loss(12, infinite=2.0**-20)
    window = tilted_window([(part, 10)], 1.0)
    composed = compose([(part, 10)], window, 512, True)
    planted = -math.expm1(10 * math.log1p(-(2.0**-20)))
    assert composed.infinite == pytest.approx(planted, rel=1e-12)
    assert composed.delta(1e3, 1.0) >= planted
    assert composed.epsilon(0.99 * planted, 1.0) == composed.epsilon(planted / 2, -1.0) == math.inf
    assert composed.epsilon(1.01 * planted, 1.0) < math.inf


def test_a_law_of_far_modes_is_not_cut():
    """The few sums are thousands apart. No mode is lost, even if values between them overflow."""
    part = LatticeLoss(np.array([0.5, 0.5]), np.array([-1, 5000]), 0.0, 0.5, 0.0)
    window = Window(0.0, 3749.0, -1000.0, 8000.0, 0.05, 0.05, 30.0)
    law = convolution([(part, 3)])
    upper, lower = (
        compose([(part, 3)], window, 20480, pessimistic) for pessimistic in (True, False)
    )
    for epsilon in (-1.0, 0.0, 1.0, 2490.0, 2600.0, 5100.0, 7498.0):
        exact = float(exact_delta(law, [(part, 3)], epsilon))
        assert exact <= upper.delta(epsilon, 1.0) <= exact + 1e-9
        assert exact - 1e-9 <= lower.delta(epsilon, -1.0) <= exact


def test_errors_beyond_hope_claim_nothing():
    part = LatticeLoss(np.array([0.5, 0.5]), np.array([-1, 1]), 0.0, 1e-7, 0.0)
    window, size = Window(1.0, 1.0, -9.0, 11.0, 1.0, 1.0, 30.0), 4096
    upper, lower = (compose([(part, 10**14)], window, size, each) for each in (True, False))
    assert upper.delta(window.centre, 1.0) == 1.0
    assert upper.epsilon(1e-5, 1.0) == math.inf
    assert lower.delta(window.centre, -1.0) == 0.0
    assert lower.epsilon(1e-5, -1.0) == -math.inf


@pytest.mark.parametrize("spacing", [1e-3, 0.3, 20.0, 700.0, 1e5])
def test_discounted_sums_neither_overflow_nor_lose_digits(spacing):
    random = np.random.default_rng(0)
    sums = -40.0 * spacing + spacing * np.arange(150)
    weighted = random.exponential(size=150) * np.exp(-random.uniform(0.0, 200.0, 150))
    tails = DenseTails.of(weighted, Lattice(-40.0, spacing, 150), 0.0, 0.0)
    for k in (0, 1, 74, 148, 149):
        exact = math.fsum(weighted[k:] * np.exp(sums[k] - sums[k:]))
        assert tails.at(k)[1] == pytest.approx(exact, rel=1e-12)
