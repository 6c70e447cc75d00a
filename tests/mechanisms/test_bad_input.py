"""Tests of invalid arguments of mechanisms: a host error with the name, the kind and the rule."""

from __future__ import annotations

import pytest

from privopt import mechanisms, statistics
from privopt.mechanisms import ClippedGradient, ClippedRisk, OnePass, RegularisedMinimiser
from privopt.mechanisms.objective_perturbation import PerturbedMinimiser
from privopt.spec import Budget, ProblemClass, Relation

FACTS = ProblemClass(n=50, dim=2, lipschitz=1.0, radius=2.0, smoothness=0.25)
BUDGET = Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
GRADIENT = ClippedGradient.of(FACTS)
BATCHES = mechanisms.PoissonBatches.of(5, 50, budget=BUDGET, steps=3)
ASKED = {
    "GaussianMechanism": ("sensitivity", {}),
    "NormLaplaceMechanism": ("sensitivity", {}),
    "LaplaceMechanism": ("l1_sensitivity", {}),
    "PrivateGradient": ("record_sensitivity", {"steps": 3, "batches": BATCHES}),
    "VarianceReducedGradient": (
        "record_sensitivity",
        {"difference_query": GRADIENT, "period": 2, "steps": 3, "batches": BATCHES},
    ),
    "ExponentialMechanism": ("score_range", {}),
    "SmoothCauchyMechanism": ("smooth_sensitivity", {}),
    "SmoothLaplaceMechanism": ("smooth_sensitivity", {}),
    "ProposeTestRelease": ("distance_to_instability", {"bound": 1.0}),
}


def calibrated(name, **arguments):
    room = statistics if name in statistics.__all__ else mechanisms
    return getattr(room, name).calibrated(**arguments, **ASKED[name][1])


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("mean", "an object of type str"),
        (None, "an object of type NoneType"),
        (ClippedGradient, "the class ClippedGradient itself"),
        (BUDGET, "an object of type Budget"),
    ],
)
def test_a_query_that_cannot_be_asked(name, given, kind):
    with pytest.raises(ValueError, match=f"query must have a {ASKED[name][0]}, got {kind}"):
        calibrated(name, query=given, budget=BUDGET)


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (1.0, "an object of type float"),
        (Budget, "the class Budget itself"),
        ({"epsilon": 1.0}, "an object of type dict"),
    ],
)
def test_a_budget_that_is_none(name, given, kind):
    query = type("Query", (), {ASKED[name][0]: lambda self, *_: 1.0})()
    with pytest.raises(ValueError, match=f"budget must be a Budget, got {kind}"):
        calibrated(name, query=query, budget=given)


@pytest.mark.parametrize(
    "of",
    [
        ClippedGradient.of,
        ClippedRisk.of,
        lambda facts: OnePass.of(facts, 0.1),
        lambda facts: PerturbedMinimiser.of(facts, regularisation=1.0),
        lambda facts: RegularisedMinimiser.of(facts, Relation.ZERO_OUT, regularisation=1.0),
    ],
)
@pytest.mark.parametrize("given", [BUDGET, ProblemClass, None])
def test_a_class_of_problems_that_is_none(of, given):
    with pytest.raises(ValueError, match="problem_class must be a ProblemClass, got "):
        of(given)


@pytest.mark.parametrize("period", [0, -2, True, 1.5])
def test_a_period_that_is_none(period):
    """An invalid period raises a named error and no division by zero, also in ``calibrated``."""
    message = "period must be an integer from 1 to 2147483647, got "
    by_hand = mechanisms.VarianceReducedGradient(GRADIENT, 0.1, GRADIENT, 0.1, BATCHES, period, 3)
    with pytest.raises(ValueError, match=message):
        by_hand.event(Relation.REPLACE_ONE)
    with pytest.raises(ValueError, match=message):
        mechanisms.VarianceReducedGradient.calibrated(
            GRADIENT, GRADIENT, BUDGET, 3, period=period, batches=BATCHES
        )


@pytest.mark.parametrize("relation", list(Relation))
def test_a_relation_by_name_is_that_relation(relation):
    """A comparison by identity took every name for a smaller sensitivity than its own."""
    minimiser = RegularisedMinimiser.of(FACTS, Relation.ZERO_OUT, regularisation=1.0)
    assert minimiser.sensitivity(str(relation)) == minimiser.sensitivity(relation)
    with pytest.raises(ValueError, match=r"relation must be one of .* got 'swap'"):
        minimiser.sensitivity("swap")
