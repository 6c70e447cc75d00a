"""Our accountants keep the contract of dp-accounting's, and calibrate its mechanisms."""

import math

import dp_accounting as dp
import pytest
from dp_accounting import privacy_accountant_test

from privopt.accounting import ACCOUNTANTS, Basic, DpAccountant
from privopt.privacy import Fourier, GaussianDP, Guarantee, Renyi
from privopt.privacy.flatten import flatten
from privopt.spec import Relation

RELATIONS = {
    dp.NeighboringRelation.ADD_OR_REMOVE_ONE: Relation.ADD_OR_REMOVE_ONE,
    dp.NeighboringRelation.REPLACE_ONE: Relation.REPLACE_ONE,
    dp.NeighboringRelation.REPLACE_SPECIAL: Relation.ZERO_OUT,
}
ADD = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
EVERY_RELATION = pytest.mark.parametrize("relation", dp.NeighboringRelation)


class Unknown(dp.DpEvent):
    pass


class TestContract(privacy_accountant_test.PrivacyAccountantTest):
    """Contract tests of dp-accounting for a privacy accountant."""

    def _make_test_accountants(self):
        provers = (None, *ACCOUNTANTS[1:])
        return [DpAccountant(relation, each) for relation in RELATIONS for each in provers]


def test_a_non_private_part_does_not_hide_an_unknown_one():
    accountant = DpAccountant(ADD)
    both = dp.ComposedDpEvent([dp.NonPrivateDpEvent(), Unknown()])
    assert not accountant.supports(both)
    with pytest.raises(dp.UnsupportedEventError, match="Unknown"):
        accountant.compose(both)


def test_what_is_no_event_is_refused_by_type():
    with pytest.raises(TypeError, match="must be `DpEvent`"):
        DpAccountant(ADD).compose(1.0)


@pytest.mark.parametrize("count", [0, -1, 1.5])
def test_counts_are_positive_integers(count):
    with pytest.raises((ValueError, TypeError)):
        DpAccountant(ADD).compose(dp.GaussianDpEvent(1.0), count)


def test_a_relation_must_be_given_and_be_one():
    with pytest.raises(TypeError):
        DpAccountant()
    for wrong in ("add_or_remove_one", Relation.ZERO_OUT, None, 1):
        with pytest.raises(ValueError, match="neighboring_relation must be"):
            DpAccountant(wrong)


@EVERY_RELATION
def test_answers_are_the_certified_upper_ends(relation):
    step = dp.PoissonSampledDpEvent(0.02, dp.GaussianDpEvent(1.2))
    for each in (Fourier(), Renyi(), Fourier(accuracy=1e-5)):
        accountant = DpAccountant(relation, each).compose(step, 100)
        event, ours = dp.SelfComposedDpEvent(step, 100), RELATIONS[relation]
        assert accountant.get_epsilon(1e-6) == each.epsilon(event, ours, 1e-6).upper
        assert accountant.get_delta(1.0) == each.delta(event, ours, 1.0).upper
        assert accountant.neighboring_relation is relation
        assert accountant.get_epsilon(1) == 0.0
    assert 0.0 <= DpAccountant(relation, Renyi()).compose(step).get_delta(math.inf) <= 1e-300


@EVERY_RELATION
def test_the_ledger_is_what_was_composed_in_any_grouping(relation):
    gauss, noise = dp.GaussianDpEvent(3.0), dp.LaplaceDpEvent(4.0)
    one = DpAccountant(relation).compose(gauss).compose(gauss).compose(noise, 3).compose(gauss)
    other = DpAccountant(relation).compose(
        dp.ComposedDpEvent([dp.SelfComposedDpEvent(gauss, 3), dp.SelfComposedDpEvent(noise, 3)])
    )
    assert one.ledger == dp.ComposedDpEvent(
        [dp.SelfComposedDpEvent(gauss, 2), dp.SelfComposedDpEvent(noise, 3), gauss]
    )
    for target in (1e-8, 1e-4):
        assert one.get_epsilon(target) == pytest.approx(other.get_epsilon(target), rel=1e-9)
        proved = Guarantee(one.ledger, RELATIONS[relation]).epsilon(target)
        assert proved.lower <= one.get_epsilon(target)


def test_reading_and_asking_change_nothing():
    accountant = DpAccountant(ADD).compose(dp.GaussianDpEvent(2.0), 4)
    before = accountant.ledger, accountant.get_epsilon(1e-6)
    accountant.get_delta(1.0)
    accountant.supports(dp.LaplaceDpEvent(1.0))
    accountant.supports(Unknown())
    with pytest.raises(dp.UnsupportedEventError):
        accountant.compose(Unknown())
    with pytest.raises(ValueError, match="delta must"):
        accountant.get_epsilon(-1.0)
    assert (accountant.ledger, accountant.get_epsilon(1e-6)) == before


@pytest.mark.parametrize("wrong", [-0.1, 1.5, math.nan, "a", None, 1e-310])
def test_arguments_out_of_range_are_refused(wrong):
    with pytest.raises(ValueError, match="delta must"):
        DpAccountant(ADD).get_epsilon(wrong)
    if wrong not in (1.5, 1e-310):
        with pytest.raises(ValueError, match="epsilon must"):
            DpAccountant(ADD).get_delta(wrong)


class OneKind(Renyi):
    """Understands equal releases alone."""

    def supports(self, event, relation):
        return len({leaf for leaf, _ in flatten(event)}) <= 1 and super().supports(event, relation)


def test_events_that_go_alone_but_not_together_are_refused_when_asked():
    accountant = DpAccountant(ADD, OneKind())
    accountant.compose(dp.GaussianDpEvent(1.0)).compose(dp.GaussianDpEvent(2.0))
    with pytest.raises(dp.UnsupportedEventError, match="Rényi DP does not support"):
        accountant.get_epsilon(1e-5)
    with pytest.raises(dp.UnsupportedEventError, match="Rényi DP does not support"):
        accountant.get_delta(1.0)


@EVERY_RELATION
@pytest.mark.parametrize(
    "each", [None, GaussianDP(), Renyi(), Basic()], ids=lambda each: type(each).__name__
)
def test_its_calibration_works_with_ours(relation, each):
    noise = dp.calibrate_dp_mechanism(
        lambda: DpAccountant(relation, each),
        lambda z: dp.SelfComposedDpEvent(dp.GaussianDpEvent(z), 4),
        target_epsilon=2.0,
        target_delta=1e-5,
        bracket_interval=dp.ExplicitBracketInterval(0.5, 100.0),
        tol=1e-3,
    )

    def spent(z):
        event = dp.SelfComposedDpEvent(dp.GaussianDpEvent(z), 4)
        return DpAccountant(relation, each).compose(event).get_epsilon(1e-5)

    assert spent(noise) <= 2.0 < spent(noise - 2e-3)
    exact = Guarantee(dp.SelfComposedDpEvent(dp.GaussianDpEvent(noise), 4), RELATIONS[relation])
    assert exact.epsilon(1e-5).lower <= 2.0
