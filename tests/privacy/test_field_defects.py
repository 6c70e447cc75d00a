"""Classes of defect met in released privacy software, each beside the variant that a test rejects.

A defect is written out as a small function; ``holds`` is the property that ours must have and the
defective variant must not.
"""

import math
from fractions import Fraction

import dp_accounting as dp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from privopt.accounting import ACCOUNTANTS, Moments
from privopt.privacy import (
    Fourier,
    Guarantee,
    Renyi,
    calibrate,
    delta,
    epsilon,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_multiplier,
    pure_event,
)
from privopt.privacy.releases import renyi_divergence
from privopt.spec import Budget, Relation


def gaussian(z, times=1):
    return dp.SelfComposedDpEvent(dp.GaussianDpEvent(z), times)


def sampled(rate, z, times=1):
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(z)), times)


def only_right(holds, ours, defective):
    assert holds(ours)
    assert not holds(defective)


# --- relations and units -------------------------------------------------------------------------


def test_rdp_that_forgets_that_replacing_counts_twice():
    def holds(renyi_epsilon):
        exact = gaussian_epsilon(1e-5, 2.0).lower  # 9.997 at z = 1
        return renyi_epsilon(Relation.REPLACE_ONE) >= exact

    def ours(relation):
        return Renyi().epsilon(gaussian(1.0), relation, 1e-5).upper

    only_right(holds, ours, lambda relation: ours(Relation.ADD_OR_REMOVE_ONE))
    assert ours(Relation.ADD_OR_REMOVE_ONE) == pytest.approx(4.73, abs=0.01)


def test_noise_on_a_mean_taken_for_noise_on_a_sum():
    """The event's multiplier is noise over *one record's* contribution to what is released."""
    n, clip, noise_of_mean = 200, 1.0, 0.02

    def holds(multiplier):
        exact = gaussian_epsilon(1e-6, clip / n / noise_of_mean)
        return Guarantee(gaussian(multiplier), "zero_out").epsilon(1e-6).contains(exact.upper)

    only_right(holds, noise_of_mean / (clip / n), noise_of_mean / clip)
    only_right(holds, noise_of_mean / (clip / n), noise_of_mean * n * n / clip)


def test_noise_of_a_batch_scaled_by_its_size_twice():
    budget = Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
    noise = calibrate(lambda z: sampled(0.01, z, 100), budget)

    def holds(multiplier):
        lower, upper = Guarantee(sampled(0.01, multiplier, 100), budget.relation).epsilon(1e-6)
        return lower <= 1.0 and upper >= 0.99

    only_right(holds, noise, noise / 10.0)
    only_right(holds, noise, noise * 10.0)


def test_accumulated_batches_accounted_for_one_at_a_time():
    """``G`` micro-batches of ``b`` records make one step at rate ``G b / n``, not ``b / n``."""
    b, accumulated, n, steps = 10, 8, 1000, 100

    def holds(rate):
        truth = Fourier().epsilon(sampled(accumulated * b / n, 1.0, steps), Relation.ZERO_OUT, 1e-5)
        return epsilon(sampled(rate, 1.0, steps), 1e-5, relation="zero_out").upper >= truth.lower

    only_right(holds, accumulated * b / n, b / n)
    assert epsilon(sampled(0.01, 1.0, steps), 1e-5, relation="zero_out").upper == pytest.approx(
        0.718, abs=0.02
    )
    assert epsilon(sampled(0.08, 1.0, steps), 1e-5, relation="zero_out").upper == pytest.approx(
        5.613, abs=0.02
    )


@pytest.mark.parametrize("rate", [-0.01, 1.0 + 1e-12, 2.0, math.nan, math.inf])
def test_a_rate_that_is_none_is_refused_and_not_repaired(rate):
    def holds(read_rate):
        event = sampled(read_rate(rate), 1.0, 10)
        return not any(each.supports(event, Relation.ZERO_OUT) for each in ACCOUNTANTS)

    def repaired(rate):
        return min(max(0.0, rate), 1.0) if rate == rate else 1e-6

    only_right(holds, lambda rate: rate, repaired)


# --- closed forms --------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [1.0, 10.0])
@pytest.mark.parametrize("steps", [1, 100, 1000])
def test_a_closed_form_used_outside_of_its_regime(target, steps):
    """``z = c q sqrt(T ln(1/delta)) / epsilon`` holds, if at all, for small epsilon and rate."""
    rate, privacy_loss = 50 / 36176, 36176.0**-2
    budget = Budget(epsilon=target, delta=privacy_loss, relation="add_or_remove_one")

    def holds(noise):
        spent = Fourier().epsilon(sampled(rate, noise, steps), budget.relation, privacy_loss)
        return spent.lower <= target

    formula = 2.0 * rate * math.sqrt(steps * math.log(1.0 / privacy_loss)) / target
    only_right(holds, calibrate(lambda z: sampled(rate, z, steps), budget), formula)


@pytest.mark.parametrize("target", [0.1, 1.0, 10.0])
def test_analytic_gaussian_noise_with_a_wrong_sign_or_a_variance_for_a_deviation(target):
    budget = Budget(epsilon=target, delta=1e-5, relation="zero_out")

    def holds(noise):
        spent = gaussian_delta(target, 1.0 / noise)
        return spent.lower <= 1e-5 and gaussian_delta(target, 1.0 / (0.99 * noise)).upper > 1e-5

    def solve(sign):
        return brentq(
            lambda z: (
                ndtr(0.5 / z - target * z) - sign(target) * ndtr(-0.5 / z - target * z) - 1e-5
            ),
            1e-2,
            1e3,
        )

    noise = gaussian_noise_multiplier(budget)
    assert solve(math.exp) == pytest.approx(noise, rel=1e-6)
    only_right(holds, noise, solve(lambda loss: -math.exp(loss)))
    only_right(holds, noise, solve(lambda loss: math.exp(-loss)))
    only_right(holds, noise, noise**2)


def test_advanced_composition_without_its_logarithm():
    """The optimum of 100 releases at 0.1 and slack 1e-6 is 4.77456758811."""

    def holds(bound):
        return bound(100, 0.1, 1e-6) >= 4.774567588

    def ours(k, loss, slack):
        event = dp.SelfComposedDpEvent(pure_event(loss), k)
        return epsilon(event, slack, relation="zero_out").upper

    def without(k, loss, slack):
        return loss * math.sqrt(2.0 * k * (1.0 + slack)) + k * loss * math.expm1(loss)

    only_right(holds, ours, without)


# --- Rényi orders and conversions ----------------------------------------------------------------


def test_orders_next_to_one_do_not_make_epsilon_vanish():
    event = sampled(0.01, 1.0, 100)
    lower = Fourier().epsilon(event, Relation.ZERO_OUT, 1e-5).lower

    def holds(bound):
        return all(bound((1.0 + gap, 2.0, 8.0)) >= lower for gap in (1e-3, 1e-6, 1e-8, 1e-12))

    def ours(orders):
        return Renyi(orders).epsilon(event, Relation.ZERO_OUT, 1e-5).upper

    def tiny(orders):  # a moment that rounds to one is taken for perfect privacy
        divergences = renyi_divergence(event, Relation.ZERO_OUT, orders)
        moments = np.exp((np.array(orders) - 1.0) * divergences).astype(np.float32)
        return 0.0 if np.any(moments == 1.0) else ours(orders)

    only_right(holds, ours, tiny)


def test_the_moment_of_order_one_too_few():
    """``ln E e^(t L)`` is ``t`` times the Rényi divergence of order ``t + 1``, not ``t``."""
    exact = gaussian_delta(10.0, 4.0).lower

    def holds(bound):
        return bound(10.0) >= exact

    def ours(loss):
        return Moments().delta(gaussian(1.0, 16), Relation.ZERO_OUT, loss).upper

    def shifted(loss):  # mu = 4: D_alpha = 8 alpha
        return min(math.exp(t * (8.0 * t - loss)) for t in np.linspace(0.01, 5.0, 500).tolist())

    only_right(holds, ours, shifted)


@pytest.mark.parametrize("target", [0.01, 0.5, 0.9, 1.0 - 2.0**-53])
def test_epsilon_is_never_negative(target):
    def holds(bound):
        return 0.0 <= bound(sampled(0.01, 10.0)) < math.inf

    def unclipped(event):
        orders = np.linspace(1.1, 64.0, 200)
        divergences = renyi_divergence(event, Relation.ZERO_OUT, orders)
        gain = np.log1p(-1.0 / orders) - (math.log(target) + np.log(orders)) / (orders - 1.0)
        return float(np.min(divergences + gain))

    for each in ACCOUNTANTS:
        if each.supports(sampled(0.01, 10.0), Relation.ZERO_OUT):
            only_right(
                holds,
                lambda event, each=each: each.epsilon(event, Relation.ZERO_OUT, target).upper,
                unclipped,
            )


# --- calibration ---------------------------------------------------------------------------------


def _coarse_bisection(make_event, budget):
    """Stops when noise is known to 0.01, on whichever side."""
    low, high = 0.0, 100.0
    while high - low > 0.01:
        middle = 0.5 * (low + high)
        spent = epsilon(make_event(middle), budget.delta, relation=budget.relation).upper
        low, high = (low, middle) if spent <= budget.epsilon else (middle, high)
    return low


@pytest.mark.parametrize("target", [0.3, 1.0, 3.0, 8.0])
def test_calibration_that_overshoots(target):
    budget = Budget(epsilon=target, delta=1e-5, relation="add_or_remove_one")

    def make_event(z):
        return sampled(0.05, z, 50)

    def holds(search):
        noise = search(make_event, budget)
        return Fourier().epsilon(make_event(noise), budget.relation, 1e-5).upper <= target * 1.001

    assert holds(calibrate)
    noise = calibrate(make_event, budget)
    low = _coarse_bisection(make_event, budget)
    if low < noise * (1.0 - 2e-3):
        assert not holds(lambda *_: low)


@pytest.mark.parametrize("target", [1e-3, 10.0, 300.0])
def test_a_root_outside_of_a_fixed_bracket(target):
    budget = Budget(epsilon=target, delta=1e-6, relation="zero_out")

    def holds(search):
        return search() == pytest.approx(gaussian_noise_multiplier(budget), rel=1e-3)

    def fixed():
        low, high = 0.5, 10.0
        return min(max(gaussian_noise_multiplier(budget), low), high)

    assert holds(lambda: calibrate(dp.GaussianDpEvent, budget))
    assert target == 10.0 or not holds(fixed)


def test_counts_are_those_of_a_list():
    schedule = [gaussian(5.0, 3), gaussian(7.0, 2), gaussian(5.0, 3)]
    whole = epsilon(dp.ComposedDpEvent(schedule), 1e-5, relation="zero_out").upper
    mu = math.sqrt(6 / 25 + 2 / 49)
    assert whole == pytest.approx(gaussian_epsilon(1e-5, mu).upper, rel=1e-12)
    assert whole > 1.2 * gaussian_epsilon(1e-5, math.sqrt(len(schedule)) / 7.0).upper


# --- reading and resolution ----------------------------------------------------------------------


def test_reading_a_budget_does_not_spend_it():
    class Spending:
        """Composes whenever it is read."""

        def __init__(self):
            self.events = [gaussian(3.0)]

        def epsilon(self, target):
            self.events.append(self.events[0])
            return Guarantee(dp.ComposedDpEvent(self.events), "zero_out").epsilon(target)

    def holds(ledger):
        return ledger.epsilon(1e-5) == ledger.epsilon(1e-5)

    only_right(holds, Guarantee(gaussian(3.0), "zero_out"), Spending())


@pytest.mark.parametrize("relation", Relation)
def test_no_jump_where_float64_ends(relation):
    """A transform without a tilt has a floor of rounding, about 1e-16, and knows nothing below."""
    event = sampled(0.01, 1.0, 200)
    deltas = [10.0**-k for k in (5, 10, 14, 15, 16, 17, 17.9, 18, 18.1, 19, 25, 40)]

    def holds(bound):
        found = [bound(target) for target in deltas]
        slopes = np.diff(found) / np.diff(np.log(deltas))
        return bool(np.all(np.diff(found) > 0.0) and np.all(np.abs(slopes) < 1.0))

    def floored(target):
        return ours(max(target, 1e-17)) if target >= 1.1e-18 else 2.0 * ours(1e-17)

    def ours(target):
        return epsilon(event, target, relation=relation).upper

    only_right(holds, ours, floored)


@pytest.mark.parametrize("loss", [0.0, 1.0, 5.0, 15.0])
@pytest.mark.parametrize(
    "event",
    [gaussian(1.0, 5), dp.SelfComposedDpEvent(dp.LaplaceDpEvent(1.0), 30), sampled(0.05, 1.0, 50)],
    ids=["Gaussian", "Laplace", "sampled"],
)
def test_epsilon_and_delta_are_inverse_also_where_delta_is_small(event, loss):
    proved = delta(event, loss, relation="zero_out")

    def holds(target):
        if not 1e-300 <= target < 1.0:
            return loss > 10.0
        back = epsilon(event, target, relation="zero_out")
        return back.lower <= loss * (1 + 1e-9) and back.upper >= loss * (1 - 4e-3) - 1e-9

    assert holds(proved.upper)
    if 1e-4 < proved.upper < 0.1:
        assert not holds(proved.upper * 3.0)  # the curve of one direction alone, say


def test_bounds_are_rounded_outwards():
    """A sum of ten thousand losses: the nearest float can be below the exact sum."""

    def holds(total):
        return all(
            Fraction(total(b, k)) >= k * Fraction(1) / Fraction(b)
            for b, k in ((3.0, 10_000), (7.3, 999), (0.1, 33))
        )

    def ours(b, k):
        return epsilon(
            dp.SelfComposedDpEvent(dp.LaplaceDpEvent(b), k), 0.0, relation="zero_out"
        ).upper

    only_right(holds, ours, lambda b, k: math.nextafter(k / b, 0.0))
