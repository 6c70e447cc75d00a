"""Questions to any accountant: names, arguments, shapes, and common properties of answers."""

import math
import re
from fractions import Fraction

import dp_accounting as dp
import numpy as np
import pytest
from events import Gaussian, Laplace, Poisson, Times, Together
from refusals import refused
from selection import few

from privopt import privacy
from privopt.accounting import ACCOUNTANTS, ESTIMATORS, Approximation, named
from privopt.privacy import Fourier, Guarantee, Interval, Renyi, UnsupportedEventError
from privopt.spec import Relation

STEPS = Times(Poisson(0.01, Gaussian(1.0)), 500)
NOISE = Gaussian(2.0)
EVERYBODY = (*ACCOUNTANTS, *ESTIMATORS)


def by_name(ask):
    """A question of ``privacy`` that takes every name there is."""

    def asked(*args, accountant=None, **kwargs):
        one = named(accountant) if isinstance(accountant, str) else accountant
        return ask(*args, accountant=one, **kwargs)

    return asked


epsilon, delta = by_name(privacy.epsilon), by_name(privacy.delta)
trade_off, supports = by_name(privacy.trade_off), by_name(privacy.supports)


@pytest.mark.parametrize("each", EVERYBODY, ids=lambda each: each.name)
def test_everybody_answers_to_the_full_name(each):
    for name in (each.name, each.name.upper(), each.name.replace("é", "e")):
        assert supports(NOISE, relation="zero_out", accountant=name) == each.supports(
            NOISE, Relation.ZERO_OUT
        )
        if each.supports(NOISE, Relation.ZERO_OUT):
            assert epsilon(NOISE, 1e-5, relation="zero_out", accountant=name) == each.epsilon(
                NOISE, Relation.ZERO_OUT, 1e-5
            )


@pytest.mark.parametrize(
    ("short", "name"),
    [
        ("fourier", "Fourier"),
        ("f", "Fourier"),
        ("Rényi", "Rényi DP"),
        ("renyi", "Rényi DP"),
        ("RENYI DP", "Rényi DP"),
        ("Re\u0301nyi", "Rényi DP"),  # the accent as a character of its own
        ("zcdp", "zCDP"),
        ("gauss", "Gaussian DP"),
        ("basic", "basic composition"),
        ("moments", "moments accountant"),
        ("advanced composition (k", "advanced composition (KOV)"),
        ("clt", "CLT"),
    ],
)
def test_a_beginning_is_enough_where_it_is_the_only_one(short, name):
    (meant,) = (each for each in EVERYBODY if each.name == name)
    assert epsilon(NOISE, 1e-5, relation="zero_out", accountant=short) == meant.epsilon(
        NOISE, Relation.ZERO_OUT, 1e-5
    )


@pytest.mark.parametrize("name", ["advanced", "", "p" * 50, "fourier ", "prv", "kov", "dp"])
def test_no_name_and_no_single_beginning_is_refused(name):
    for ask in (
        lambda: epsilon(NOISE, 1e-5, relation="zero_out", accountant=name),
        lambda: delta(NOISE, 1.0, relation="zero_out", accountant=name),
        lambda: trade_off(NOISE, 0.5, relation="zero_out", accountant=name),
        lambda: supports(NOISE, relation="zero_out", accountant=name),
    ):
        with pytest.raises(ValueError, match=r"accountant must be one of .*Fourier.*CLT.*, got"):
            ask()


@pytest.mark.parametrize("wrong", [Fourier, Renyi, 3, 1.0, ["fourier"]])
def test_what_is_neither_an_instance_nor_a_name_is_refused(wrong):
    with pytest.raises(ValueError, match="accountant must be an instance or a name, got"):
        epsilon(NOISE, 1e-5, relation="zero_out", accountant=wrong)


def test_names_are_distinct_also_without_accents_and_none_begins_another():
    names = [each.name.replace("é", "e").casefold() for each in EVERYBODY]
    assert len(set(names)) == len(names)
    assert not [(a, b) for a in names for b in names if a != b and b.startswith(a)]


test_bad_arguments_are_named_with_value_and_rule = refused(
    (lambda: epsilon(NOISE, 1.0, relation="zero_out"), r"delta must lie in \[0, 1\), got 1.0"),
        (lambda: epsilon(NOISE, math.nan, relation="zero_out"), "delta must be a real.* got nan"),
        (lambda: epsilon(NOISE, 1e-310, relation="zero_out"), "float64 cannot resolve.*1e-310"),
        (lambda: delta(NOISE, -0.1, relation="zero_out"), "epsilon must be non-neg.* got -0.1"),
        (lambda: delta(NOISE, math.nan, relation="zero_out"), "epsilon must be a real.* got nan"),
        (lambda: trade_off(NOISE, 1.1, relation="zero_out"), r"alphas must lie in .* got 1.1"),
        (lambda: trade_off(NOISE, [math.nan], relation="zero_out"), r"alphas must lie in \[0, 1\]"),
        (lambda: trade_off(NOISE, "half", relation="zero_out"), "alphas must be real.* got 'half'"),
        (lambda: trade_off(NOISE, [[0.1], [0.1, 0.2]], relation="zero_out"), "alphas must be real"),
        (lambda: epsilon(NOISE, 0.1, relation="swap"), "relation must be one of .*got 'swap'"),
        (lambda: supports(NOISE, relation=2, accountant="f"), "relation must be one of .*got 2"),
        (lambda: epsilon(1.0, 0.1, relation="zero_out"), "event must be a dp_accounting.DpEvent"),
        (lambda: trade_off(None, 0.1, relation="zero_out"), "event must be a dp_accounting.DpEv"),
)  # fmt: skip


def test_a_relation_must_be_given():
    with pytest.raises(TypeError, match="relation"):
        epsilon(NOISE, 1e-5)
    with pytest.raises(TypeError, match="positional"):
        epsilon(NOISE, 1e-5, "zero_out")


@pytest.mark.parametrize("relation", Relation)
def test_a_relation_may_be_given_by_name(relation):
    for name in (relation, relation.value, str(relation)):
        assert epsilon(NOISE, 1e-5, relation=name) == Guarantee(NOISE, relation).epsilon(1e-5)


def test_an_unsupported_part_is_named():
    event = Together([NOISE, Times(dp.UnsupportedDpEvent(), 4)])
    with pytest.raises(UnsupportedEventError, match="Fourier does not support UnsupportedDpEvent"):
        epsilon(event, 1e-5, relation="zero_out", accountant="fourier")
    with pytest.raises(UnsupportedEventError, match="under replace_one"):
        delta(event, 1.0, relation="replace_one", accountant=Renyi())
    assert issubclass(UnsupportedEventError, ValueError)


@pytest.mark.parametrize("number", [Fraction(1, 1000), np.float64(1e-3), np.float32(1e-3)])
def test_any_real_number_will_do(number):
    expected = epsilon(NOISE, float(number), relation="zero_out")
    assert epsilon(NOISE, number, relation="zero_out") == expected
    assert delta(NOISE, number, relation="zero_out") == delta(
        NOISE, float(number), relation="zero_out"
    )


LAPLACE = Laplace(2.0)
STRANGE_TO = [  # who does not know them
    (NOISE, {"non-private", "pure DP"}),
    (STEPS, {"non-private", "pure DP", "Gaussian DP", "zCDP"}),
    (LAPLACE, {"non-private", "Gaussian DP"}),
    (dp.NoOpDpEvent(), {"non-private"}),
]
ASKED = [
    pytest.param(event, each, id=f"{i}-{each.name}")
    for i, (event, strangers) in enumerate(STRANGE_TO)
    for each in ACCOUNTANTS
    if each.name not in strangers
]


@pytest.mark.parametrize(("event", "each"), ASKED)
def test_delta_zero_and_almost_one(event, each):
    relation = Relation.ZERO_OUT
    pure = {LAPLACE: 0.5, dp.NoOpDpEvent(): 0.0}.get(event, math.inf)
    lower, upper = each.epsilon(event, relation, 0.0)
    assert lower <= pure
    assert upper >= pure * (1 - 1e-12)
    assert each.epsilon(event, relation, 1.0 - 2.0**-53).lower <= 1e-12
    # At 1e-300 the Fourier accountant tries every window before it gives up, for up to a minute.
    for target in few((1e-300, 1e-250, 0.999), (1e-250, 0.999)):
        answer = each.epsilon(event, relation, target)
        assert 0.0 <= answer.lower <= answer.upper <= upper * (1 + 1e-9)


@pytest.mark.cases(8)
@pytest.mark.parametrize(("event", "each"), [*((event, None) for event, _ in STRANGE_TO), *ASKED])
def test_a_trade_off_keeps_the_shape_and_is_one(event, each):
    if each is not None and event == STEPS and "composition" in each.name:
        return  # seconds; their own files look at them
    alphas = np.linspace(0.0, 1.0, 41)
    curve = trade_off(event, alphas, relation="add_or_remove_one", accountant=each)
    assert curve.dtype == np.float64
    assert curve.shape == (41,)
    assert np.all((curve >= 0.0) & (curve <= 1.0 - alphas + 1e-15))
    assert np.all(np.diff(curve) <= 1e-12)
    assert np.all(np.diff(curve, 2) >= -1e-9)
    again = trade_off(
        event, alphas.reshape(1, 41, 1), relation="add_or_remove_one", accountant=each
    )
    assert again.shape == (1, 41, 1)
    np.testing.assert_array_equal(again.ravel(), curve)
    single = trade_off(event, 0.5, relation="add_or_remove_one", accountant=each)
    assert single.shape == ()
    assert float(single) == curve[20]
    assert trade_off(event, [], relation="add_or_remove_one", accountant=each).shape == (0,)


def test_by_default_the_best_proof_counts():
    best = epsilon(STEPS, 1e-5, relation="zero_out")
    assert best == Guarantee(STEPS, "zero_out").epsilon(1e-5)
    for each in ACCOUNTANTS:
        if each.supports(STEPS, Relation.ZERO_OUT):
            single_bound = epsilon(STEPS, 1e-5, relation="zero_out", accountant=each)
            assert isinstance(single_bound, Interval)
            assert best.lower <= single_bound.upper
            assert best.upper <= single_bound.upper * (1 + 2e-3)


def test_settings_of_an_instance_count():
    narrow = epsilon(STEPS, 1e-5, relation="zero_out", accountant=Fourier(accuracy=1e-6))
    wide = epsilon(STEPS, 1e-5, relation="zero_out", accountant=Fourier(accuracy=0.05))
    single = epsilon(STEPS, 1e-5, relation="zero_out", accountant=Fourier(two_sided=False))
    assert narrow.width <= 1e-6 * narrow.upper
    assert wide.lower <= narrow.lower <= narrow.upper <= wide.upper
    assert single.lower == 0.0 < narrow.lower <= single.upper <= 1.001 * narrow.upper


@pytest.mark.parametrize("each", ESTIMATORS, ids=lambda each: each.name)
def test_an_estimate_comes_back_as_one(each):
    estimate = epsilon(STEPS, 1e-5, relation="zero_out", accountant=each)
    assert isinstance(estimate, Approximation)
    assert estimate.method == each.name
    assert isinstance(delta(STEPS, 1.0, relation="zero_out", accountant=each), Approximation)
    curve = trade_off(STEPS, [[0.1, 0.2]], relation="zero_out", accountant=each)
    assert curve.values.shape == (1, 2)


def test_what_no_accountant_understands_is_refused_by_default_and_forgotten_by_a_guarantee():
    event = Together([NOISE, Times(dp.UnsupportedDpEvent(), 4)])
    for ask in (
        lambda: epsilon(event, 1e-5, relation="zero_out"),
        lambda: delta(event, 1.0, relation="zero_out"),
        lambda: trade_off(event, 0.1, relation="zero_out"),
    ):
        with pytest.raises(
            UnsupportedEventError, match=r"no accountant supports UnsupportedDpEvent under zero"
        ):
            ask()
    assert Guarantee(event, "zero_out").epsilon(1e-5) == Interval(0.0, math.inf)
    spoilt = Together([event, dp.NonPrivateDpEvent()])
    assert epsilon(spoilt, 1e-5, relation="zero_out") == Interval(math.inf, math.inf)


def test_an_accountant_with_nothing_to_say_does_not_silence_the_next():
    """Too many steps for the Fourier accountant; Renyi divergences add up all the same."""
    often = Times(Poisson(0.1, Gaussian(1e3)), 10**12)
    fourier = epsilon(often, 1e-5, relation="zero_out", accountant="fourier")
    renyi = epsilon(often, 1e-5, relation="zero_out", accountant="renyi")
    best = epsilon(often, 1e-5, relation="zero_out")
    assert best.upper == min(fourier.upper, renyi.upper) < math.inf


@pytest.mark.parametrize(
    ("event", "rule"),
    [
        (Gaussian(-1.0), "noise_multiplier must be non-negative, got -1.0"),
        (Laplace(math.nan), "noise_multiplier must be non-negative, got nan"),
        (Poisson(1.5, Gaussian(1.0)), "sampling_probability must lie in [0, 1], got 1.5"),
        (Poisson(0.5, Gaussian(-2.0)), "noise_multiplier must be non-negative, got -2.0"),
        (Times(Gaussian(1.0), -3), "count must be a non-negative integer, got -3"),
    ],
)
def test_a_malformed_event_is_told_from_one_without_a_theorem(event, rule):
    with pytest.raises(privacy.UnsupportedEventError, match=re.escape(f": {rule}")):
        privacy.epsilon(event, 1e-5, relation="zero_out")


def test_an_accountant_that_is_nearly_named():
    with pytest.raises(ValueError, match=r"got 'furier'; did you mean Fourier\?"):
        privacy.epsilon(Gaussian(1.0), 1e-5, relation="zero_out", accountant="furier")
