"""Arguments of audits: each is checked before any run, and messages do not contain its content."""

from functools import partial

import jax
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent
from refusals import refused

import privopt
from privopt.audit import (
    audit,
    curves,
    finding,
    least_runs,
    mechanism_pair,
    picture,
    replay,
    worst_pair,
)
from privopt.audit.distinguishing import _innovations
from privopt.privacy import Guarantee

KEY = jax.random.key(0)
BUDGET = privopt.Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
CLAIM = Guarantee(GaussianDpEvent(1.0), "zero_out")
SAMPLES = np.random.default_rng(0).normal(size=(2, 40, 3))
COLUMN = ["PERSON-A", 31337.0]


@pytest.fixture(scope="module")
def pair():
    return worst_pair("output_perturbation", BUDGET)


def with_defaults(call, **defaults):
    return lambda **arguments: call(**defaults | arguments)


test_an_attack_is_refused = refused(
    ({"attacked": COLUMN}, "attacked must answer name, guarantee, .* got an object of type list"),
    ({"attacked": CLAIM}, "attacked must answer name, guarantee"),
    ({"key": 31337}, "key must be a single typed key"),
    ({"key": np.array([0, 31337], np.uint32)}, "key must be a single typed key"),
    ({"key": jax.random.split(KEY, 2)}, "key must be a single typed key"),
    ({"runs": 2.5}, "runs must be a positive integer, got 2.5"),
    ({"runs": COLUMN}, "runs must be a positive integer, got an object of type list"),
    ({"failure": 0.0}, "failure must be above 0 and below 1, got 0.0"),
    ({"failure": COLUMN}, "failure must be a real number, got an object of type list"),
    ({"failure": "PERSON-A"}, "failure must be a real number"),
    ({"progress": 3}, "progress must be a function"),
    of=with_defaults(audit, attacked=worst_pair("output_perturbation", BUDGET), key=KEY, runs=5000),
)
test_samples_are_refused = refused(
    ({"one": COLUMN}, "one must be an array of numbers, got an object of type list"),
    ({"two": np.array(COLUMN, object)}, "two must be an array of numbers"),
    ({"one": [[1.0], [2.0, 3.0]]}, "one must be an array, got rows of different shapes"),
    ({"one": SAMPLES[0, :, 0]}, r"one must have shape \(runs, numbers\) .* got \(40,\)"),
    ({"one": SAMPLES[0, :7]}, r"at least 8 runs, got \(7, 3\)"),
    ({"one": SAMPLES[0, :, :0]}, r"got \(40, 0\)"),
    ({"two": SAMPLES[1, :39]}, r"two must have the shape of one, \(40, 3\), got \(39, 3\)"),
    ({"two": np.where(SAMPLES[1] > 2.0, np.nan, SAMPLES[1])}, "two must be finite, got NaN or inf"),
    ({"guarantee": 1.0}, "guarantee must be a Guarantee, got an object of type float"),
    ({"failure": 2.0}, "failure must be above 0 and below 1, got 2.0"),
    of=with_defaults(finding, one=SAMPLES[0], two=SAMPLES[1], guarantee=CLAIM, failure=0.01),
)
test_runs_of_nothing_are_refused = refused(
    ({"guarantee": COLUMN}, "guarantee must be a Guarantee, got an object of type list"),
    ({"failure": -1}, "failure must be above 0 and below 1, got -1"),
    of=with_defaults(least_runs, guarantee=CLAIM, failure=0.01),
)
test_a_replay_is_refused = refused(
    ({"pair": COLUMN}, "pair must be a Pair, got an object of type list"),
    ({"key": 31337}, "key must be a single typed key"),
    of=with_defaults(replay, pair=worst_pair("output_perturbation", BUDGET), key=KEY),
)
test_pairs_are_refused = refused(
    (partial(worst_pair, COLUMN, BUDGET), "algorithm must be one of .* got an object of type list"),
    (partial(worst_pair, "dp_gd", 1.0), "budget must be a Budget"),
    (partial(mechanism_pair, COLUMN, BUDGET), "name must be one of .* got an object of type list"),
    (partial(mechanism_pair, "laplace_mean", 1.0), "budget must be a Budget"),
    (partial(picture, [], "title"), "audits must be a sequence of at least one Audit"),
    (partial(curves, COLUMN, "title"), "audits must be an Audit, got an object of type str"),
    (partial(picture, 3, "title"), "audits must be a sequence of at least one Audit"),
)


def test_sentinels_are_in_no_message(pair):
    calls = {
        "attacked": partial(audit, COLUMN, key=KEY),
        "runs": partial(audit, pair, key=KEY, runs=COLUMN),
        "failure": partial(audit, pair, key=KEY, failure=np.array(COLUMN, object)),
        "key": partial(audit, pair, key=np.array([31337, 31337], np.uint32)),
        "pair": partial(replay, COLUMN, key=KEY),
        "guarantee": partial(least_runs, COLUMN, 0.1),
        "audits": partial(picture, COLUMN, "title"),
        "title": partial(picture, [pair], COLUMN),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError) as refusal:  # noqa: PT011, the message is examined
            call()
        assert name in str(refusal.value) or "audits" in str(refusal.value)
        assert "PERSON" not in str(refusal.value)
        assert "31337" not in str(refusal.value)


def regressions(spread):
    """Return the innovations by one regression each, on the independent earlier numbers."""
    places, columns = [], []
    for i in range(len(spread)):
        weights = np.linalg.solve(spread[np.ix_(places, places)], spread[places, i])
        if spread[i, i] - weights @ spread[places, i] > 1e-9 * spread[i, i]:
            column = np.zeros(len(spread))
            column[i], column[places] = 1.0, -weights
            columns.append(column)
            places.append(i)
    return np.array(columns).reshape(-1, len(spread)).T


@pytest.mark.parametrize("size", [1, 2, 12, 30])
def test_innovations_are_residuals_of_regressions(size):
    """One number is the sum of the others, and one is constant."""
    rows = np.cumsum(np.random.default_rng(size).normal(size=(size, 50)), axis=0)
    rows = np.vstack([rows, rows.sum(axis=0), np.zeros(50), rows[:1]])
    spread = rows @ rows.T / 50.0
    weights = _innovations(spread)
    assert weights.shape == (size + 3, size)
    np.testing.assert_allclose(weights, regressions(spread), atol=1e-8)
    covariance = weights.T @ spread @ weights
    diagonal = np.diag(np.diag(covariance))
    np.testing.assert_allclose(covariance, diagonal, atol=1e-9 * spread.max())


def test_innovations_of_many_numbers_are_found_in_cubic_time():
    """One regression per number took minutes for 1,000 numbers."""
    import time

    rows = np.random.default_rng(0).normal(size=(600, 700))
    spread, start = rows @ rows.T / 700.0, time.process_time()
    assert _innovations(spread).shape == (600, 600)
    assert time.process_time() - start < 10.0
