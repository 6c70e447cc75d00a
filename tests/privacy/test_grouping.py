"""Compositions with many distinct steps: bounds by groups of equal steps, and their cost."""

from collections import Counter

import pytest
from events import FixedSize, Gaussian, Laplace, Poisson, Response, Times, Together

from privopt import privacy
from privopt.privacy import Fourier
from privopt.privacy.flatten import bounding_events, flatten
from privopt.spec import Relation


def ramp(kind, count):
    """Return a composition of distinct steps."""
    steps = {
        "gaussian": lambda x: Poisson(0.02, Gaussian(1.0 + x)),
        "rates": lambda x: Poisson(0.01 + 0.02 * x, Gaussian(2.0 - x)),
        "laplace": lambda x: Poisson(0.05 + 0.1 * x, Laplace(5.0 + 3.0 * x)),
        "fixed": lambda x: FixedSize(100, 2, Gaussian(2.0 + x)),
        "plain": lambda x: Laplace(10.0 + x),
    }
    return Together([steps[kind](i / count) for i in range(count)])


@pytest.mark.cases(3)
@pytest.mark.parametrize("kind", ["gaussian", "rates", "laplace", "fixed", "plain"])
def test_few_groups_bracket_all_steps(kind, monkeypatch):
    relation = Relation.REPLACE_ONE if kind == "fixed" else Relation.ADD_OR_REMOVE_ONE
    event = ramp(kind, 24)
    whole = Fourier().epsilon(event, relation, 1e-5)
    monkeypatch.setattr("privopt.privacy.flatten._MAX_EVENTS", 4)
    above, below = bounding_events(event)
    assert [sum(count for _, count in flatten(each)) for each in (above, below)] == [24, 24]
    assert len(list(flatten(above))) == 4
    more, less = (Fourier().epsilon(each, relation, 1e-5) for each in (above, below))
    assert more.upper > whole.upper
    assert less.lower < whole.lower
    taken = Fourier().epsilon(event, relation, 1e-5)
    assert tuple(taken) == (less.lower, more.upper)
    assert taken.reason
    assert taken.upper < 1.2 * whole.upper


def test_equal_steps_are_counted_and_nothing_else_is_touched(monkeypatch):
    monkeypatch.setattr("privopt.privacy.flatten._MAX_EVENTS", 3)
    other = Response(0.5, 2)
    steps = [Poisson(0.1, Gaussian(1.0)) for _ in range(5)] + [other]
    above, below = bounding_events(Times(Together(steps), 10**80))
    assert above is below
    assert Counter(dict(flatten(above))) == {steps[0]: 5 * 10**80, other: 10**80}


def test_what_is_malformed_stays_unsupported():
    bad = Together([*ramp("gaussian", 200).events, Poisson(1.5, Gaussian(1.0))])
    with pytest.raises(privacy.UnsupportedEventError, match=r"1\.5"):
        privacy.epsilon(bad, 1e-5, relation="add_or_remove_one")


@pytest.mark.thorough  # of speed
def test_thousands_of_distinct_steps_are_as_much_work_as_two_hundred():
    event = ramp("gaussian", 2_000)
    for end in bounding_events(event):
        assert len(list(flatten(end))) <= 200
    coarse = Fourier(accuracy=3e-3)  # half of the allowed cost of the groups
    found = privacy.epsilon(event, 1e-5, relation="add_or_remove_one", accountant=coarse)
    assert 0.993 * found.upper < found.lower < found.upper
