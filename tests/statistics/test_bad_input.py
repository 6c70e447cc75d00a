"""What no statistic can be calibrated from: a host error with the name, the kind and the rule."""

from __future__ import annotations

import pytest

from privopt import statistics
from privopt.spec import Budget, Relation
from privopt.statistics import (
    BoundedMean,
    BoundedScores,
    BoundedSum,
    Bounds,
    Count,
    Histogram,
)

BUDGET = Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
ASKED = {
    "ExponentialMechanism": ("score_range", {}),
    "SmoothLaplaceMechanism": ("smooth_sensitivity", {}),
    "ProposeTestRelease": ("distance_to_instability", {"bound": 1.0}),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("mean", "an object of type str"),
        (None, "an object of type NoneType"),
        (BoundedSum, "the class BoundedSum itself"),
        (BUDGET, "an object of type Budget"),
    ],
)
def test_a_query_that_cannot_be_asked(name, given, kind):
    answer, others = ASKED[name]
    with pytest.raises(ValueError, match=f"query must have a {answer}, got {kind}"):
        getattr(statistics, name).calibrated(query=given, budget=BUDGET, **others)


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
    answer, others = ASKED[name]
    query = type("Query", (), {answer: lambda self, *_: 1.0})()
    with pytest.raises(ValueError, match=f"budget must be a Budget, got {kind}"):
        getattr(statistics, name).calibrated(query=query, budget=given, **others)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bounds.of("0", 1.0), "lower must be a real number, got '0'"),
        (lambda: BoundedSum.of(0.0, None), "upper must be a real number, got None"),
        (lambda: BoundedScores.of("1"), "change must be a real number, got '1'"),
        (lambda: Histogram.logarithmic("1", 2.0, 3, mirrored=True), "scale must be .* got '1'"),
    ],
)
def test_numbers_that_are_none(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("relation", list(Relation))
def test_a_relation_by_name_is_that_relation(relation):
    """A comparison by identity took every name for a smaller sensitivity than its own."""
    bins = Histogram.logarithmic(1.0, 2.0, 3, mirrored=False)
    mean = BoundedMean.of(0.0, 1.0, 8)
    for asked in (
        BoundedScores.of(1.0, monotone=True).score_range,
        BoundedSum.of(0.0, 1.0).l1_sensitivity,
        Count().sensitivity,
        bins.sensitivity,
        bins.l1_sensitivity,
        mean.sensitivity,
        mean.l1_sensitivity,
    ):
        assert asked(str(relation)) == asked(relation)
        with pytest.raises(ValueError, match=r"relation must be one of .* got 'swap'"):
            asked("swap")
