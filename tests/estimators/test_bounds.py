"""Private bounds of columns: their accuracy and their share of the budget."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from privopt import Budget
from privopt.estimators import Number, Table, approximate_bounds
from privopt.mechanisms import LaplaceMechanism
from privopt.statistics import Histogram

BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
KEY = jax.random.key(0)


def test_bounds_hold_nearly_all_records_and_go_into_a_table():
    rng = np.random.default_rng(0)
    frame = {"income": np.exp(rng.normal(7.0, 1.0, 20_000)), "balance": rng.normal(0, 50, 20_000)}
    frame["income"][:5] = np.nan, np.inf, 1e300, -1e300, 5e-324
    columns, rest = approximate_bounds(frame, ["income", "balance"], BUDGET, KEY, share=0.2)
    assert rest == dataclasses.replace(BUDGET, epsilon=rest.epsilon)
    for name, number in columns.items():
        inside = (frame[name] >= number.lower) & (frame[name] <= number.upper)
        assert inside.mean() > 0.98
        assert number.upper - number.lower < 2**18  # of 2^64
    assert columns["balance"].lower == -columns["balance"].upper
    assert np.isfinite(Table(columns).features(frame)).all()


@pytest.mark.cases(8)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
@pytest.mark.parametrize("columns", [1, 3, 7])
@pytest.mark.parametrize("relation", ["replace_one", "zero_out", "add_or_remove_one"])
def test_bounds_and_the_rest_are_within_the_budget(monkeypatch, share, columns, relation):
    """Sum the privacy losses of all mechanisms that add noise."""
    losses, add = [], LaplaceMechanism.add_noise

    def counted(mechanism, key, answer):
        losses.append(mechanism.query.l1_sensitivity(relation) / mechanism.scale)
        return add(mechanism, key, answer)

    monkeypatch.setattr(LaplaceMechanism, "add_noise", counted)
    budget = Budget(epsilon=0.7, delta=0.0, relation=relation)
    frame = {str(place): np.ones(3) for place in range(columns)}
    _, rest = approximate_bounds(frame, list(frame), budget, KEY, share=share)
    assert len(losses) == columns
    assert 0.999 * budget.epsilon < sum(losses) + rest.epsilon <= budget.epsilon


@pytest.mark.parametrize("records", [[], [np.nan], [np.inf, -0.0], [1e-45]])
def test_few_records_are_no_error_and_too_few_to_be_told(records):
    edges = Histogram.logarithmic(1.0, 2.0, 64, mirrored=True).edges
    columns, _ = approximate_bounds({"x": np.array(records, float)}, ["x"], BUDGET, KEY)
    assert columns["x"] == Number(edges[0], edges[-1])


@pytest.mark.thorough  # as on histograms, in statistics
@pytest.mark.parametrize("factor", [1.0, 0.25])
def test_an_attack_on_the_bounds(factor, epsilon_lower_bound):
    """Attack two neighbours by 100,000 draws of the planned noise, and of a quarter as a control.

    The score is the log-likelihood of the two bins that can contain the record.
    """
    histogram = Histogram.logarithmic(1.0, 2.0, 8, mirrored=True)
    mechanism = LaplaceMechanism.calibrated(histogram, dataclasses.replace(BUDGET, delta=0.0))
    used = mechanism._replace(scale=factor * mechanism.scale)
    one, two = (np.asarray(histogram.answer(jnp.array([size, 3.0]))) for size in (0.5, 100.0))
    draw = jax.vmap(used.add_noise, (0, None))
    scores = [
        abs(noisy - two).sum(axis=1) - abs(noisy - one).sum(axis=1)
        for noisy in (
            np.asarray(draw(jax.random.split(jax.random.key(seed), 100_000), answer))
            for seed, answer in enumerate((one, two))
        )
    ]
    bound = epsilon_lower_bound(*scores)
    assert (bound <= 1.0) is (factor == 1.0)
    assert bound > 0.75


@pytest.mark.parametrize(
    ("choices", "rule"),
    [
        ({"names": "age"}, "names must be a sequence of columns, got an object of type str"),
        ({"names": ["agee"]}, "names must be columns of frame, .* at place 0; did you mean age"),
        ({"names": ["age", 31337]}, "names must be columns of frame, .* at place 1$"),
        ({"names": ["age", np.ones(3)]}, "names must be columns of frame, .* at place 1$"),
        ({"names": np.array(["31337"])}, "names must be a sequence of columns, .* type ndarray"),
        ({"frame": [31337]}, "frame must be a data frame or a dict"),
        ({"share": 1.0}, "share must be between 0 and 1, got 1.0"),
        ({"share": [31337]}, "share must be positive"),
        ({"smallest": -1}, "smallest must be positive"),
        ({"smallest": np.array([31337.0])}, "smallest must be positive"),
        ({"bins": 200}, "bins must keep the last edge below 1e\\+30, got 200"),
        ({"bins": 2.5}, "bins must be an integer"),
        ({"bins": [31337]}, "bins must be an integer"),
        ({"budget": 1.0}, "budget must be a Budget"),
        ({"key": 31337}, "key must be a single typed key"),
        ({"key": np.array([0, 31337], np.uint32)}, "key must be a single typed key"),
        ({"key": jax.random.split(KEY, 2)}, "key must be a single typed key"),
        ({"frame": {"age": np.array(["31337"])}}, "column 'age' must be numeric, got texts"),
    ],
)
def test_bad_input_is_refused_by_name(choices, rule):
    arguments = {"frame": {"age": np.ones(3)}, "names": ["age"], "budget": BUDGET, "key": KEY}
    with pytest.raises(ValueError, match=rule) as refusal:
        approximate_bounds(**arguments | choices)
    assert "31337" not in str(refusal.value)


@pytest.mark.parametrize("entry", [None, np.nan, np.inf, "text", b"text", [1.0], {}, 10**400, True])
def test_one_entry_of_an_untyped_column_is_no_error(entry):
    """Check that the bounds are those of the other records."""
    columns, _ = approximate_bounds({"x": [3.0] * 99 + [entry]}, ["x"], BUDGET, KEY)
    assert columns == approximate_bounds({"x": [3.0] * 99}, ["x"], BUDGET, KEY)[0]


def test_equal_columns_have_noise_of_their_own(monkeypatch):
    """Check that noisy histograms of equal columns differ; equal noise would cancel."""
    noisy, add = [], LaplaceMechanism.add_noise

    def kept(mechanism, key, answer):
        noisy.append(np.asarray(add(mechanism, key, answer)))
        return jnp.asarray(noisy[-1])

    monkeypatch.setattr(LaplaceMechanism, "add_noise", kept)
    frame = {name: np.arange(50.0) for name in "abc"}
    approximate_bounds(frame, list("abc"), BUDGET, KEY)
    for one, two in ((0, 1), (0, 2), (1, 2)):
        assert np.all(noisy[one] != noisy[two])
