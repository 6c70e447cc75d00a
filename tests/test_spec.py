"""Public numbers: accepted values, refused values and messages."""

import copy
import dataclasses
import math
import pickle
import re
from fractions import Fraction

import dp_accounting as dp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privopt.spec import Budget, ProblemClass, Relation

NAN, INF = math.nan, math.inf


def budget(**changes) -> Budget:
    return Budget(**({"epsilon": 1.0, "delta": 1e-6, "relation": "replace_one"} | changes))


def problem_class(**changes) -> ProblemClass:
    return ProblemClass(**({"n": 100, "dim": 5, "lipschitz": 1.0, "radius": 2.0} | changes))


def test_multiple_is_how_many_unit_contributions_one_change_moves():
    """Test a sum of n unit vectors with one record changed by the relation."""
    before, after, nothing = np.array([1.0, 0.0]), np.array([-1.0, 0.0]), np.zeros(2)
    moved = {
        Relation.REPLACE_ONE: np.linalg.norm(before - after),
        Relation.ADD_OR_REMOVE_ONE: np.linalg.norm(before),
        Relation.ZERO_OUT: np.linalg.norm(before - nothing),
    }
    assert {relation: relation.multiple for relation in Relation} == moved


@pytest.mark.parametrize("relation", ["replace_one", "add_or_remove_one", "zero_out"])
def test_relation_is_taken_by_its_public_name(relation):
    taken = budget(relation=relation).relation
    assert isinstance(taken, Relation)
    assert taken == relation
    assert budget(relation=taken) == budget(relation=relation)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": 0.0}, "epsilon must be positive and finite, got 0.0"),
        ({"epsilon": True}, "epsilon must be a real number, got True"),
        ({"epsilon": "1"}, "epsilon must be a real number, got '1'"),
        ({"epsilon": 1j}, "epsilon must be a real number, got an object of type complex"),
        ({"delta": 1.0}, "delta must lie in [0, 1), got 1.0"),
        ({"relation": "replace"}, "relation must be one of replace_one, add_or_remove_one, zero_"),
    ],
)
def test_budget_refuses(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        budget(**changes)


def test_sizes_may_be_whole_floats():
    facts = problem_class(n=200.0, dim=5.0, sparsity=2.0)
    assert facts == problem_class(n=200, dim=5, sparsity=2)
    assert type(facts.n) is type(facts.dim) is type(facts.sparsity) is int


def test_swapped_epsilon_and_delta_are_reported():
    with pytest.warns(UserWarning, match=r"delta is larger than epsilon, got 0.5 > 1e-05"):
        budget(epsilon=1e-5, delta=0.5)
    with pytest.raises(ValueError, match=r"got 1.0: are epsilon and delta swapped\?"):
        budget(epsilon=1e-5, delta=1.0)


@pytest.mark.parametrize(
    ("construct", "name", "field"), [(budget, "eps", "epsilon"), (problem_class, "d", "dim")]
)
def test_usual_names_of_fields_are_suggested(construct, name, field):
    message = f"unexpected keyword argument '{name}'; did you mean {field}?"
    with pytest.raises(TypeError, match=re.escape(message)):
        construct(**{name: 1})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n must be a positive integer, got 0"),
        ({"n": 100.5}, "n must be a positive integer, got 100.5"),
        ({"dim": -3}, "dim must be a positive integer, got -3"),
        ({"lipschitz": 0.0}, "lipschitz must be positive (inf: not declared), got 0.0"),
        ({"convex": 1}, "convex must be True or False, got 1"),
        (
            {"convex": False, "strong_convexity": 0.5},
            "strong_convexity must be 0 without convexity, got 0.5",
        ),
        ({"radius": 0.0}, "radius must be positive (inf: no constraint), got 0.0"),
        ({"radius": "2"}, "radius must be a real number, got '2'"),
        ({"smoothness": -1.0}, "smoothness must be non-negative and finite, or None, got -1.0"),
        ({"smoothness": INF}, "smoothness must be non-negative and finite, or None, got inf"),
        ({"strong_convexity": -0.1}, "strong_convexity must be non-negative and finite, got -0.1"),
        ({"sparsity": 0}, "sparsity must be a positive integer, got 0"),
        ({"sparsity": 6}, "sparsity must not exceed dim, got 6 > 5"),
        (
            {"smoothness": 1.0, "strong_convexity": 2.0},
            "strong_convexity must not exceed smoothness, got 2.0 > 1.0",
        ),
        (
            {"strong_convexity": 0.6},
            "none is longer than L; got 0.6 * 2.0 > 1.0",
        ),
    ],
)
def test_problem_class_refuses(changes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        problem_class(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"radius": INF},
        {"smoothness": 0.0},
        {"strong_convexity": 0.5},
        {"lipschitz": 2.0, "smoothness": 1.0, "strong_convexity": 1.0},
        {"lipschitz": INF, "radius": INF, "strong_convexity": 3.0},
        {"sparsity": 5},
        {"n": 1, "dim": 1},
    ],
)
def test_problem_class_accepts_the_edge_of_each_rule(changes):
    facts = problem_class(**changes)
    assert {name: getattr(facts, name) for name in changes} == changes


@pytest.mark.parametrize(
    "spoken", [lambda: Budget(epsilon=1.0, delta=0.0), lambda: Budget(1.0, 0.0, "zero_out")]
)
def test_nothing_about_a_budget_is_implicit(spoken):
    with pytest.raises(TypeError):
        spoken()


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("replace", "replace_one"),
        ("REPLACE_ONE", "replace_one"),
        ("REPLACE_SPECIAL", "zero_out"),
        (dp.NeighboringRelation.REPLACE_SPECIAL, "zero_out"),
        (dp.NeighboringRelation.ADD_OR_REMOVE_ONE, "add_or_remove_one"),
    ],
)
def test_a_relation_by_another_name_is_refused_with_ours(given, hint):
    with pytest.raises(ValueError, match=f"relation must be one of .*; did you mean {hint}\\?"):
        budget(relation=given)


def test_numbers_of_any_real_type_become_plain_ones():
    spent = budget(epsilon=np.float32(0.5), delta=Fraction(1, 4))
    facts = problem_class(n=np.int64(7), dim=np.int32(3), lipschitz=1, sparsity=np.int8(2))
    assert [type(x) for x in (spent.epsilon, spent.delta, facts.lipschitz)] == [float] * 3
    assert [type(x) for x in (facts.n, facts.dim, facts.sparsity)] == [int] * 3
    assert (spent.epsilon, spent.delta, facts.n) == (0.5, 0.25, 7)


@pytest.mark.parametrize("make", [budget, problem_class])
def test_values_are_frozen_equal_by_content_and_can_be_stored(make):
    value = make()
    field = dataclasses.fields(value)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, 3)
    assert value == make()
    assert len({value, make(), copy.copy(value), pickle.loads(pickle.dumps(value))}) == 1
    assert dataclasses.replace(value, **{field: 3}) == make(**{field: 3})


def test_a_replaced_value_is_validated_again():
    with pytest.raises(ValueError, match="epsilon must be positive and finite, got -1"):
        dataclasses.replace(budget(), epsilon=-1.0)


@given(radius=st.floats(min_value=1e-300, max_value=1e300))
def test_diameter_is_twice_the_radius(radius):
    assert problem_class(radius=radius).diameter == 2.0 * radius


def test_whole_space_has_infinite_diameter():
    assert problem_class(radius=INF).diameter == INF


@given(epsilon=st.floats(), delta=st.floats())
def test_budget_takes_exactly_the_valid_numbers(epsilon, delta):
    if 0.0 < epsilon < INF and 0.0 <= delta < 1.0:
        spent = budget(epsilon=epsilon, delta=delta)
        assert (spent.epsilon, spent.delta) == (epsilon, delta)
    else:
        with pytest.raises(ValueError, match=r"epsilon must be positive|delta must lie in"):
            budget(epsilon=epsilon, delta=delta)
