"""Tests of mechanisms with changed fields: each has an event or raises an error with its name."""

import pytest
from changes import changed, fields_of, numbers, other_kinds, others

from privopt.discrete import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from privopt.mechanisms import GaussianMechanism, LaplaceMechanism, NormLaplaceMechanism
from privopt.privacy import Guarantee
from privopt.spec import Budget
from privopt.statistics import (
    BoundedMean,
    BoundedScores,
    BoundedSum,
    Count,
    ExponentialMechanism,
    Histogram,
    Median,
    ProposeTestRelease,
    SmoothLaplaceMechanism,
    SparseVector,
    Thresholdout,
)

BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
PURE = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
MEAN = BoundedMean.of(0.0, 1.0, 100)
MECHANISMS = {
    "gaussian": GaussianMechanism.calibrated(MEAN, BUDGET),
    "laplace": LaplaceMechanism.calibrated(Histogram((0.0, 1.0, 2.0)), PURE),
    "laplace sum": LaplaceMechanism.calibrated(BoundedSum.of(0.0, 1.0), PURE),
    "norm laplace": NormLaplaceMechanism.calibrated(MEAN, PURE),
    "exponential": ExponentialMechanism.calibrated(BoundedScores.of(1.0), PURE),
    "smooth laplace": SmoothLaplaceMechanism.calibrated(Median.of(0.0, 1.0), BUDGET),
    "propose test release": ProposeTestRelease.calibrated(Median.of(0.0, 1.0), 0.1, BUDGET),
    "sparse vector": SparseVector.calibrated(
        Count(), Budget(epsilon=1.0, delta=0.0, relation="zero_out"), answers=2
    ),
    "thresholdout": Thresholdout.calibrated(MEAN, 0.1, PURE, answers=2),
    "discrete gaussian": DiscreteGaussianMechanism.calibrated(MEAN, BUDGET, dim=1),
    "discrete laplace": DiscreteLaplaceMechanism.calibrated(MEAN, PURE, dim=1),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_changed_field_has_an_event_or_is_refused(name):
    """A mechanism with halved scales never claims as much privacy as before."""
    mechanism, events, refusals = MECHANISMS[name], 0, 0
    relation = "zero_out" if name == "sparse vector" else "replace_one"
    ways = (fields_of, other_kinds), (numbers, others)
    changes = [(p, x) for find, vary in ways for p, own in find(mechanism) for x in vary(own) if p]
    for path, value in changes:
        try:
            other = changed(mechanism, path, value)
            other.event(relation)
        except ValueError:
            refusals += 1
        else:
            events += 1
    assert min(events, refusals) >= 5
    spent = Guarantee(mechanism.event(relation), relation).epsilon(1e-6).upper
    for path, own in numbers(mechanism):
        if "scale" in path[-1]:
            half = Guarantee(changed(mechanism, path, 0.5 * own).event(relation), relation)
            assert half.epsilon(1e-6).upper > spent, path


@pytest.mark.parametrize("spacing", [-1.0, -(2.0**-20), 0.0, 3.0, float("nan"), float("inf"), None])
@pytest.mark.parametrize("name", ["discrete gaussian", "discrete laplace"])
def test_a_spacing_that_is_no_lattice_claims_nothing(name, spacing):
    """A negative one made the sensitivity negative, and the event that of no release."""
    mechanism = MECHANISMS[name]._replace(spacing=spacing)
    for use in (lambda: mechanism.event("replace_one"), lambda: mechanism.release(0.0)):
        with pytest.raises(ValueError, match="spacing must be "):
            use()
