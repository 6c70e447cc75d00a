"""Calibrated noise meets its budget, and a little less noise does not."""

import math
from dataclasses import dataclass, field

import dp_accounting as dp
import pytest
from events import ADD, Gaussian, Laplace, Poisson, Times, Together, Tree, sgd
from hypothesis import given
from hypothesis import strategies as st

from privopt.accounting import CLT, Basic
from privopt.privacy import (
    Fourier,
    GaussianDP,
    Guarantee,
    NonPrivate,
    Renyi,
    calibrate,
    gaussian_noise_multiplier,
    pure_event,
    pure_noise_multiplier,
)
from privopt.spec import Budget, Relation

RELATIONS = st.sampled_from(list(Relation))
EPSILONS = st.floats(-6.0, 4.0).map(lambda x: 10.0**x)
USUAL = Budget(epsilon=1.0, delta=1e-5, relation="zero_out")
TINY = Budget(epsilon=1.0, delta=1e-310, relation="zero_out")
GAUSSIAN = Guarantee(Gaussian(1.0), "zero_out")
DELTAS = st.floats(-300.0, -0.1).map(lambda x: 10.0**x)


def gaussian(z, budget, compositions=1):
    return Guarantee(Gaussian(z), budget.relation).times(compositions)


@given(EPSILONS, DELTAS, RELATIONS, st.integers(1, 10**6))
def test_gaussian_noise_meets_the_budget_and_no_less_does(epsilon, delta, relation, compositions):
    budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
    z = gaussian_noise_multiplier(budget, compositions)
    spent = gaussian(z, budget, compositions)
    assert spent.epsilon(delta).upper <= epsilon
    assert spent.delta(epsilon).upper <= delta
    less = gaussian(z * (1 - 1e-6), budget, compositions)
    assert less.epsilon(delta).lower > epsilon
    assert less.delta(epsilon).lower > delta


@given(EPSILONS, RELATIONS)
def test_pure_noise_meets_the_budget_and_no_less_does(epsilon, relation):
    budget = Budget(epsilon=epsilon, delta=0.0, relation=relation)
    b = pure_noise_multiplier(budget)
    assert Guarantee(Laplace(b), relation).epsilon(0.0).upper <= epsilon
    less = Guarantee(Laplace(b * (1 - 1e-12)), relation)
    assert less.epsilon(0.0).lower > epsilon


@given(st.floats(-300.0, 300.0))
def test_pure_event_is_its_epsilon(log_epsilon):
    epsilon = 10.0**log_epsilon
    lower, upper = Guarantee(pure_event(epsilon), "replace_one").epsilon(0.0)
    assert lower <= epsilon <= upper <= lower * (1.0 + 1e-13)


def test_gaussian_noise_cannot_be_pure():
    budget = Budget(epsilon=1.0, delta=0.0, relation="zero_out")
    with pytest.raises(ValueError, match=r"delta must be positive for Gaussian noise, got 0\.0"):
        gaussian_noise_multiplier(budget)


@pytest.mark.parametrize("compositions", [0, -1, 2.0, True])
def test_compositions_are_counted(compositions):
    with pytest.raises(ValueError, match=r"compositions must be an? (positive )?integer"):
        gaussian_noise_multiplier(USUAL, compositions)


@pytest.mark.parametrize("epsilon", [-1.0, math.inf, math.nan])
def test_pure_event_refuses_what_it_cannot_describe(epsilon):
    with pytest.raises(ValueError, match="epsilon must"):
        pure_event(epsilon)


def sampled(rate, steps):
    return lambda noise: sgd(noise, rate, steps)


def heterogeneous(noise):
    """A warm start in full batches, sampled steps, one noisy count."""
    step = Poisson(0.02, Gaussian(noise))
    start = Times(Gaussian(20.0 * noise), 5)
    return Together([start, Times(step, 200), Laplace(50.0)])


def check(make_event, budget, noise, tolerance=1e-4):
    """Check the budget with a finer account. Noise smaller by three tolerances exceeds it."""
    fine = Fourier(accuracy=1e-5)
    spent = fine.epsilon(make_event(noise), budget.relation, budget.delta)
    assert spent.upper <= budget.epsilon * (1 + 1e-5)
    assert spent.lower <= budget.epsilon
    less = make_event(noise * (1.0 - 3.0 * tolerance))
    assert fine.epsilon(less, budget.relation, budget.delta).lower > budget.epsilon


@pytest.mark.cases(4)
@pytest.mark.parametrize("relation", [Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE])
@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "steps"),
    [
        (1.0, 1e-5, 0.01, 1000),
        (1.0, 1e-12, 0.01, 1000),
        (0.05, 1e-6, 0.01, 100),
        (30.0, 1e-6, 0.01, 100),
        (1.0, 1e-5, 1.0, 7),
        (1.0, 1e-5, 0.3, 1),
        (3.0, 1e-6, 0.9, 50),
    ],
)
def test_calibrated_noise_by_a_finer_account(relation, epsilon, delta, rate, steps):
    budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
    check(sampled(rate, steps), budget, calibrate(sampled(rate, steps), budget))


def test_the_parts_may_differ():
    budget = Budget(epsilon=4.0, delta=1e-6, relation=Relation.ADD_OR_REMOVE_ONE)
    check(heterogeneous, budget, calibrate(heterogeneous, budget))


def test_golden_sampled_noise():
    budget = Budget(epsilon=2.0, delta=1e-5, relation="add_or_remove_one")
    assert 0.95909 <= calibrate(sampled(0.01, 1000), budget) <= 0.9592


@pytest.mark.parametrize("relation", Relation)
def test_full_batches_are_answered_exactly(relation):
    budget = Budget(epsilon=1.0, delta=1e-5, relation=relation)
    for make_event, count in (
        (Gaussian, 1),
        (sampled(1.0, 25), 25),
        (lambda z: Times(Gaussian(z), 25), 25),
    ):
        exact = gaussian_noise_multiplier(budget, count)
        noise = calibrate(make_event, budget, tolerance=1e-9)
        assert exact * (1 - 1e-12) <= noise <= exact * (1 + 2e-9)
    if relation is not Relation.ADD_OR_REMOVE_ONE:
        noise = calibrate(lambda z: Tree(z, 1000), budget)
        exact = gaussian_noise_multiplier(budget, 10)
        assert exact * (1 - 1e-12) <= noise <= exact * (1 + 2e-4)


@pytest.mark.parametrize("relation", Relation)
def test_pure_noise_for_a_pure_budget(relation):
    budget = Budget(epsilon=0.5, delta=0.0, relation=relation)
    noise = calibrate(lambda b: Times(Laplace(b), 4), budget)
    least = 4.0 * relation.multiple / 0.5
    assert least <= noise <= least * (1 + 2e-4)


@pytest.mark.parametrize(
    "prover",
    [Renyi(), Basic(), GaussianDP(), Fourier(accuracy=1e-2)],
    ids=lambda prover: prover.name,
)
def test_a_prover_of_ones_own_choice(prover):
    budget = Budget(epsilon=2.0, delta=1e-5, relation="zero_out")

    def make_event(z):
        return Times(Gaussian(z), 10)

    noise = calibrate(make_event, budget, accountant=prover)
    assert prover.epsilon(make_event(noise), budget.relation, 1e-5).upper <= 2.0
    less = make_event(noise * (1 - 2e-4))
    assert prover.epsilon(less, budget.relation, 1e-5).upper > 2.0
    assert noise >= gaussian_noise_multiplier(budget, 10) * (1 - 1e-12)


def test_a_smaller_tolerance_is_closer():
    best = calibrate(sampled(0.05, 100), USUAL, tolerance=1e-7)
    for tolerance in (0.1, 1e-2, 1e-4, 1e-6):
        noise = calibrate(sampled(0.05, 100), USUAL, tolerance=tolerance)
        assert best * (1 - 3e-7) <= noise <= best * (1 + 2.0 * tolerance + 1e-6)


def test_zero_if_the_budget_is_met_without_noise():
    everything = Budget(epsilon=1.0, delta=0.02, relation="add_or_remove_one")
    # A record enters the one batch, and is seen, with probability 0.01.
    assert calibrate(sampled(0.01, 1), everything) == 0.0
    assert calibrate(sampled(0.0, 10), everything) == 0.0
    assert calibrate(lambda z: dp.NoOpDpEvent(), everything) == 0.0
    least = Budget(epsilon=1.0, delta=0.009, relation="add_or_remove_one")
    assert calibrate(sampled(0.01, 1), least) > 0.0


def test_what_no_noise_can_buy_is_said():
    pure = Budget(epsilon=1.0, delta=0.0, relation="zero_out")
    for make_event, budget in (
        (Gaussian, pure),
        (sampled(0.01, 100), pure),
        (lambda z: Together([Gaussian(z), Laplace(0.5)]), USUAL),
        (lambda z: Together([Gaussian(z), dp.NonPrivateDpEvent()]), USUAL),
        (lambda z: Gaussian(1.0), USUAL),
        (lambda z: dp.NonPrivateDpEvent(), USUAL),
    ):
        with pytest.raises(ValueError, match=r"budget cannot be met by any noise up to 2\^64"):
            calibrate(make_event, budget)


@pytest.mark.parametrize(
    ("make_event", "options", "message"),
    [
        (Gaussian, {"tolerance": 0.2}, r"tolerance must lie in \[1e-9, 0.1\], got 0.2"),
        (Gaussian, {"tolerance": 1e-10}, r"tolerance must lie in .* got 1e-10"),
        (Gaussian, {"tolerance": "1"}, r"tolerance must be a real number, got '1'"),
        (lambda z: dp.UnsupportedDpEvent(), {}, r"no accountant supports UnsupportedDp"),
        (Laplace, {"accountant": GaussianDP()}, r"Gaussian DP does not support Laplace"),
        (Gaussian, {"accountant": NonPrivate()}, r"non-private does not support Gauss"),
        (sampled(1.5, 3), {}, r"no accountant supports PoissonSampled"),
        (Gaussian, {"accountant": "clt"}, r"accountant must be one of non-private"),
        (Gaussian, {"accountant": CLT()}, r"must prove bounds, got the estimator CLT"),
        (Gaussian, {"accountant": Fourier}, r"an Accountant or a string or None, got the class"),
        (Gaussian(1.0), {}, "make_event must be a function, got"),
        (lambda z: None, {}, "make_event must return a DpEvent, got None"),
        (Gaussian, {"budget": (1.0, 1e-5)}, "budget must be a Budget, got an obj"),
        (Gaussian, {"budget": Budget}, "got the class Budget itself"),
        (Gaussian, {"budget": TINY}, "float64 cannot resolve"),
    ],
)  # fmt: skip
def test_bad_arguments_of_calibrate_are_named(make_event, options, message):
    arguments = {"budget": USUAL, **options}
    with pytest.raises(ValueError, match=message):
        calibrate(make_event, **arguments)


@pytest.mark.parametrize("ask", [gaussian_noise_multiplier, pure_noise_multiplier, GAUSSIAN.meets])
def test_budgets_that_are_none(ask):
    for wrong, message in ((None, "None"), ("1", "('1'|type str)"), (Budget, "class Budget itse")):
        with pytest.raises(ValueError, match=f"budget must be a Budget, got .*{message}"):
            ask(wrong)


@dataclass
class Counting:
    """An accountant that counts its calls to ``epsilon``."""

    inner: object = field(default_factory=lambda: Fourier(accuracy=1e-3, two_sided=False))
    calls: int = 0
    name = "counting"

    def supports(self, event, relation):
        return self.inner.supports(event, relation)

    def epsilon(self, event, relation, delta):
        self.calls += 1
        return self.inner.epsilon(event, relation, delta)

    def __getattr__(self, name):
        return getattr(self.inner, name)


@pytest.mark.cases(6)
@pytest.mark.parametrize(
    "make_event",
    [
        sampled(0.01, 1000),
        lambda z: Laplace(z + 0.01),
        lambda z: Laplace(z**4),
        lambda z: pure_event(1.0 / max(z, 0.01)),
        lambda z: Gaussian(1e-4 * z),
        lambda z: Gaussian(1e9 * z),
        lambda z: Gaussian(float(math.ceil(z))),  # steps
        lambda z: Gaussian(10.0 if 3.0 <= z < 5.0 or z > 50.0 else 0.1),  # two ways
    ],
    ids=["sampled", "offset", "steep", "pure", "small", "large", "steps", "not monotone"],
)
@pytest.mark.parametrize("epsilon", [1e-2, 1.0, 50.0])
def test_few_calls_whatever_the_shape_of_the_event(make_event, epsilon):
    budget = Budget(epsilon=epsilon, delta=1e-6, relation="zero_out")
    counting = Counting()
    try:
        noise = calibrate(make_event, budget, accountant=counting)
    except ValueError as error:
        assert "cannot be met" in str(error)  # noqa: PT017
        assert epsilon == 1e-2
    else:
        # Even if more noise is less private, the returned noise has been checked.
        assert counting.epsilon(make_event(noise), budget.relation, 1e-6).upper <= epsilon
    assert counting.calls <= 300  # of which 240 look for the least noise above zero, if need be


def test_the_usual_case_takes_a_dozen_calls():
    budget = Budget(epsilon=1.0, delta=1e-6, relation="zero_out")
    counting = Counting(GaussianDP())
    calibrate(Gaussian, budget, accountant=counting)
    assert counting.calls <= 20


@pytest.mark.parametrize("relation", list(Relation))
def test_what_was_calibrated_reads_back_within_its_budget(relation):
    """The reported epsilon was once 1.00027 for 1, and 4.001 for 4."""
    for epsilon, rate, steps in ((1.0, 0.01, 1000), (4.0, 0.1, 100), (0.3, 0.02, 50)):
        budget, event = Budget(epsilon=epsilon, delta=1e-6, relation=relation), sampled(rate, steps)
        spent = Guarantee(event(calibrate(event, budget)), relation).epsilon(1e-6)
        assert epsilon * (1.0 - 4e-4) <= spent.lower <= spent.upper <= epsilon


def test_noise_that_the_default_accuracy_cannot_judge_meets_its_budget():
    """The upper end exceeds 1 slightly at the default accuracy. ``meets`` still returns True."""
    event, budget = sampled(0.01, 1000), Budget(epsilon=1.0, delta=1e-5, relation=ADD)
    noise = calibrate(event, budget, tolerance=1e-6)
    guarantee = Guarantee(event(noise), budget.relation)
    assert guarantee.epsilon(1e-5).upper > 1.0
    assert guarantee.meets(budget)
    assert not Guarantee(event(noise * (1.0 - 3e-6)), budget.relation).meets(budget)
    with pytest.raises(ValueError, match=r"budget\.relation must be add_or_remove_one, got zero"):
        guarantee.meets(USUAL)


def test_what_cannot_be_judged_is_not_met():
    assert not Guarantee(dp.UnsupportedDpEvent(), "zero_out").meets(USUAL)
    assert not Guarantee(dp.NonPrivateDpEvent(), "zero_out").meets(USUAL)
    assert Guarantee(dp.NoOpDpEvent(), "zero_out").meets(USUAL)


def test_accountants_have_names_here_too():
    by_name = calibrate(Gaussian, USUAL, accountant="Gaussian DP")
    assert by_name == calibrate(Gaussian, USUAL, accountant=GaussianDP())
    assert calibrate(Laplace, USUAL, accountant="renyi") > 0.0
