"""Event of correlated noise: one Gaussian mechanism with the sensitivity of its encoder."""

import dp_accounting as dp
import numpy as np
import pytest
from builders import worst_pattern

import privopt
from privopt.core.parameters import scaled
from privopt.factorisations import FACTORISATIONS
from privopt.mechanisms import (
    AllRecords,
    ClippedGradient,
    FixedSizeBatches,
    OrderedBatches,
    PoissonBatches,
    PrivateGradient,
    ShuffledBatches,
    TreeNoise,
    noise_of,
)
from privopt.mechanisms.noise import DenseNoise, HonakerNoise, RestartedNoise, SeriesNoise
from privopt.mechanisms.noise import noise as shared
from privopt.privacy import gaussian_mu
from privopt.spec import Relation

N, DIM, STEPS = 12, 3, 12
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=5.0)
QUERY = ClippedGradient.of(FACTS)
BATCHES = {
    "one pass": OrderedBatches.of(1, N),
    "three passes": OrderedBatches.of(3, N, epochs=3),
    "passes of a batch": OrderedBatches.of(5, N, epochs=4, order="random"),
    "shuffled": ShuffledBatches.of(3, N),
    "all": AllRecords(),
}
CORRELATED = [name for name in FACTORISATIONS if name != "independent"]


def brute_force(noise, batches, steps):
    encoder = noise.factorisation(steps).encoder()
    return worst_pattern(encoder, *batches.participation(steps, Relation.ZERO_OUT))


@pytest.mark.parametrize("batches", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("name", CORRELATED)
def test_the_sensitivity_is_that_of_the_worst_steps_of_a_record(name, batches):
    noise = noise_of(name, STEPS)
    event = noise.event(batches, 3.0, STEPS, Relation.ZERO_OUT)
    expected = 3.0 / brute_force(noise, batches, STEPS)
    assert isinstance(event, dp.GaussianDpEvent)
    assert event.noise_multiplier <= expected
    assert event.noise_multiplier == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("period", [4, 5])
@pytest.mark.parametrize("name", ["tree", "honaker", "toeplitz", "optimal"])
def test_restarted_noise_pays_for_every_epoch(name, period):
    noise, batches = RestartedNoise(noise_of(name, period), period), OrderedBatches.of(3, N, 3)
    event = noise.event(batches, 1.0, STEPS, Relation.ZERO_OUT)
    assert event.noise_multiplier == pytest.approx(
        1.0 / brute_force(noise, batches, STEPS), rel=1e-8
    )


def test_only_the_steps_that_a_record_can_have_count():
    """Two steps that are exactly 2 apart share no row of this ``C``; 3 apart they would."""
    noise, batches = SeriesNoise([1.0, 0.0, 0.0, 0.9], [1.0]), OrderedBatches.of(6, N, epochs=4)
    event = noise.event(batches, 1.0, 8, Relation.ZERO_OUT)
    found = 1.0 / event.noise_multiplier
    assert found == pytest.approx(brute_force(noise, batches, 8), rel=1e-8)
    assert found < 0.9 * noise.factorisation(8).sensitivity(4, 2)


def test_dp_accounting_knows_the_tree_of_a_single_pass():
    """The tree of dp-accounting, restarted, has the Gaussian's epsilon for ``floor(log2 T) + 1``.

    ``T`` is the number of steps.
    """
    for steps in (1, 2, 7, 8, 100):
        event = TreeNoise().event(OrderedBatches.of(1, steps), 4.0, steps, Relation.ZERO_OUT)
        tree = dp.SingleEpochTreeAggregationDpEvent(4.0, steps)
        orders = np.arange(2.0, 64.0)
        found, expected = (
            dp.rdp.RdpAccountant(orders, dp.NeighboringRelation.REPLACE_SPECIAL)
            .compose(each)
            .get_epsilon(1e-6)
            for each in (event, tree)
        )
        assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", CORRELATED)
@pytest.mark.parametrize("relation", ["zero_out", "replace_one"])
def test_noise_is_calibrated_in_closed_form(name, relation):
    """``sigma = m sens C/(b mu)``, rounded up to float32 by less than 1e-6, and it is enough."""
    budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation=relation)
    batches, noise = OrderedBatches.of(3, N, epochs=3), noise_of(name, STEPS)
    made = PrivateGradient.calibrated(QUERY, budget, STEPS, batches, noise)
    sensitivity = brute_force(noise, batches, STEPS)
    least = (
        budget.relation.multiple * sensitivity * made.record_sensitivity / gaussian_mu(1.0, 1e-5)
    )
    assert least <= made.scale <= least * (1.0 + 1e-6)
    guarantee = privopt.Guarantee(made.event(budget.relation), budget.relation)
    assert guarantee.meets(budget)
    assert not privopt.Guarantee(scaled(made, 0.999).event(budget.relation), budget.relation).meets(
        budget
    )


def test_sensitivities_are_computed_once_for_equal_noise(monkeypatch):
    asked = []
    plain = SeriesNoise.factorisation
    monkeypatch.setattr(
        SeriesNoise, "factorisation", lambda self, steps: asked.append(steps) or plain(self, steps)
    )
    shared._sensitivity.cache_clear()
    for tail in (0.5, 0.5, 0.25, 0.5):
        noise = SeriesNoise(np.array([1.0, tail]), np.ones(1))
        for multiplier in (1.0, 2.0):
            noise.event(AllRecords(), multiplier, 7, Relation.ZERO_OUT)
    assert asked == [7, 7]
    SeriesNoise(np.ones(1), np.array([1.0, 0.5])).event(AllRecords(), 1.0, 7, Relation.ZERO_OUT)
    noise.event(AllRecords(), 1.0, 8, Relation.ZERO_OUT)
    assert asked == [7, 7, 7, 8]


@pytest.mark.parametrize("noise", [TreeNoise(), SeriesNoise([1.0], [1.0, -0.5]), HonakerNoise(3)])
def test_no_steps_cost_nothing(noise):
    for batches in BATCHES.values():
        event = noise.event(batches, 2.0, 0, Relation.ZERO_OUT)
        assert privopt.Guarantee(event, "zero_out").epsilon(0.0).upper == 0.0


@pytest.mark.parametrize(
    ("noise", "batches", "steps", "relation", "reason"),
    [
        (
            TreeNoise(),
            PoissonBatches(0.5, 6.0, N, N),
            3,
            "zero_out",
            "covers this, got .* PoissonB",
        ),
        (TreeNoise(), FixedSizeBatches(6, N), 3, "replace_one", "covers this, got .* FixedS"),
        (TreeNoise(), OrderedBatches.of(3, N), 5, "zero_out", "steps must be at most 4"),
        (TreeNoise(), OrderedBatches.of(3, N), 4, "add_or_remove_one", "relation must be replace"),
        (TreeNoise(), ShuffledBatches.of(3, N), 4, "add_or_remove_one", "relation must be replace"),
        (TreeNoise(), AllRecords(), -1, "zero_out", "steps must be an integer from 0 on"),
        (HonakerNoise(3), AllRecords(), 8, "zero_out", "steps must be at most 7 for a tree"),
        (DenseNoise(np.eye(3)), AllRecords(), 4, "zero_out", "steps must be at most 3"),
        (RestartedNoise(HonakerNoise(2), 4), AllRecords(), 8, "zero_out", "at most 3 for a tree"),
    ],
)
def test_pairs_that_no_theorem_covers_are_refused(noise, batches, steps, relation, reason):
    with pytest.raises(ValueError, match=reason):
        noise.event(batches, 1.0, steps, Relation(relation))
