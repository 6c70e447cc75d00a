"""Users as records: grouping, sensitivity of a whole user, and bad input."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import privopt
from privopt.problems import GeneralisedLinear, Logistic, Problem, UserLoss, Users, by_user
from privopt.spec import Budget, ProblemClass

N, DIM, MOST = 40, 3, 4
FACTS = ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25)
BUDGET = Budget(epsilon=2.0, delta=1e-5, relation="replace_one")
LOGISTIC = GeneralisedLinear(Logistic())


def table(seed=0):
    """Records of users of unequal size, in any order."""
    rng = np.random.default_rng(seed)
    users = np.concatenate([np.arange(N), rng.integers(0, N, 3 * N)])
    rng.shuffle(users)
    features = rng.normal(size=(users.size, DIM))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return (features, rng.choice([-1.0, 1.0], users.size)), users


def problem(data, users, most=MOST, mean=False):
    kept = by_user(data, users, n=N, most=most)
    return Problem(loss=UserLoss(LOGISTIC, mean), data=kept, problem_class=FACTS)


def gradient_at_zero(query, risk):
    return query.gradient_of(risk)(jnp.zeros(DIM))


@pytest.mark.parametrize("mean", [False, True])
def test_risk_and_gradient_are_those_of_a_loop_over_users(mean):
    (features, labels), users = table()
    risk, point = (
        problem((features, labels), users, mean=mean).objective,
        np.array([0.3, -1.0, 0.5]),
    )
    value, slope = 0.0, np.zeros(DIM)
    for user in range(N):
        mine = np.flatnonzero(users == user)[:MOST]
        weight = 1.0 / (len(mine) if mean else MOST)
        for i in mine:
            margin = labels[i] * (features[i] @ point)
            value += weight * np.log1p(np.exp(-margin)) / N
            slope -= weight * labels[i] * features[i] / (1.0 + np.exp(margin)) / N
    found, gradient = jax.jit(jax.value_and_grad(risk.value))(point)
    assert float(found) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-10)


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("dp_gd", {"steps": 5}),
        ("dp_sgd", {"steps": 5, "batch_size": 8}),
        ("noisy_adam", {"steps": 5}),
    ],
)
def test_a_record_too_many_changes_nothing_and_one_within_does(name, choices):
    """A record beyond the limit has no effect for any value.

    Every sampler draws batches of users.
    """
    (features, labels), users = table()
    plan = privopt.ALGORITHMS[name].plan(FACTS, BUDGET, **choices)
    full = int(np.argmax(np.bincount(users)))
    assert (users == full).sum() >= MOST
    few = int(np.argmin(np.bincount(users)))
    assert (users == few).sum() < MOST
    key = jax.random.key(0)
    before = privopt.run(plan, problem((features, labels), users), key).released
    for strange in (np.full(DIM, 1e30), np.full(DIM, np.nan), features[0]):
        found = []
        for user in (full, few):
            more = (np.vstack([features, strange]), np.append(labels, 1.0))
            changed = problem(more, np.append(users, user))
            found.append(np.asarray(privopt.run(plan, changed, key).released))
        np.testing.assert_array_equal(found[0], np.asarray(before))
        if strange is features[0]:
            assert (found[1] != np.asarray(before)).any()


def test_a_user_moves_the_clipped_gradient_by_no_more_than_one_record_may():
    """The records of a user all change at once, to huge and invalid values too.

    Equal records attain the bound.
    """
    (features, labels), users = table()
    query = privopt.dp_gd(FACTS, BUDGET, steps=1).params.mechanism.query
    mine, sums = np.flatnonzero(users == users[0]), jax.jit(gradient_at_zero)

    def gradient(own):
        changed = features.copy()
        changed[mine] = own
        return np.asarray(sums(query, problem((changed, labels), users).objective))

    labels[mine] = 1.0
    for scale in (1e-45, 1.0, 1e38):
        moved = gradient(scale * np.eye(DIM)[0]) - gradient(-scale * np.eye(DIM)[0])
        assert np.linalg.norm(moved) <= query.sensitivity("replace_one")
    assert np.isfinite(gradient(np.nan)).all()
    most = gradient(1e38 * np.eye(DIM)[0]) - gradient(-1e38 * np.eye(DIM)[0])
    assert np.linalg.norm(most) == pytest.approx(query.sensitivity("replace_one"), rel=1e-5)


def test_a_week_of_a_user_is_a_unit_and_a_user_is_a_group_of_weeks():
    """Number a unit ``user weeks + week``; all records of a user in one week change at once."""
    (features, labels), users = table()
    weeks = 3
    units = users * weeks + np.arange(users.size) % weeks
    facts = ProblemClass(n=N * weeks, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25)
    plan = privopt.dp_gd(facts, BUDGET, steps=1)
    query, labels[:], sums = plan.params.mechanism.query, 1.0, jax.jit(gradient_at_zero)

    def gradient(mine, scale):
        changed = features.copy()
        changed[mine] = scale * np.eye(DIM)[0]
        kept = by_user((changed, labels), units, n=N * weeks, most=MOST)
        risk = Problem(loss=UserLoss(LOGISTIC, mean=True), data=kept, problem_class=facts).objective
        return np.asarray(sums(query, risk))

    sensitivity = query.sensitivity("replace_one")
    for mine, most in ((units == units[0], 1), (users == users[0], weeks)):
        change = np.linalg.norm(gradient(mine, 1e38) - gradient(mine, -1e38))
        assert change == pytest.approx(min(most, len(set(units[mine]))) * sensitivity, rel=1e-5)
    whole = plan.guarantee.group(weeks).mu()
    assert whole.lower == pytest.approx(weeks * plan.guarantee.mu().upper, rel=1e-6)


@pytest.mark.parametrize("typed", [list, np.asarray])
@pytest.mark.parametrize("other", [0, 3, -1, 2**40, 0.5, np.nan, np.inf])
@pytest.mark.filterwarnings("error")
def test_no_user_decides_an_exception(typed, other):
    """A user without a record is a null record, and so is the record of a user beyond the last."""
    users = typed([0, other, 2, 2])
    kept = by_user(jnp.array([1.0, 2.0, 3.0, 4.0]), users, n=3, most=2)
    own = [1.0, 2.0] if other == 0 else [1.0, 0.0]
    assert kept.records.tolist() == [own, [0.0, 0.0], [3.0, 4.0]]
    assert kept.present.tolist() == [[True, other == 0], [False, False], [True, True]]


def test_a_table_without_records_has_null_users():
    kept = by_user(jnp.ones((0, 2)), np.zeros(0, int), n=2, most=3)
    assert kept.records.shape == (2, 3, 2)
    assert not kept.present.any()
    assert not kept.records.any()


def test_bad_input_is_refused_by_name():
    data = jnp.arange(4.0)
    for users, n, rule in (
        ([0, 1, 2], 3, r"users must have shape \(4,\), one for each record, got shape \(3,\)"),
        (np.array(["0", "1", "2", "2"]), 3, "users must be numeric, got texts"),
        ([0, 1, 2, 2], 0, "n must be a positive integer, got 0"),
    ):
        with pytest.raises(ValueError, match=rule):
            by_user(data, users, n=n, most=2)
    with pytest.raises(ValueError, match="most must be a positive integer, got 0"):
        by_user(data, [0, 1, 2, 2], n=3, most=0)
    nobody = Users(jnp.ones((2, 1)), jnp.zeros(2, bool))
    assert float(UserLoss(lambda w, x: (w * x).sum(), True)(jnp.ones(1), nobody)) == 0.0
