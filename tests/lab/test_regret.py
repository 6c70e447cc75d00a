"""Tests of regret: the sum of the observer, the reference value, and the supported cases."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import experiment

import privopt
from privopt import lab
from privopt.core import Execution, run, run_many
from privopt.lab import StreamLosses
from privopt.lab.runner.measure import SweepCache, measure
from privopt.lab.runner.quantities import QUANTITIES, quantity_of
from privopt.mechanisms import BatchMean, OrderedBatches, PrivateGradient, TreeNoise
from privopt.problems import Problem, distance, family, linear
from privopt.spec import Budget, ProblemClass
from privopt.theory import Quantity, Rate, Term

N, DIM = 7, 3
FACTS = ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=1.0)
BUDGET = Budget(epsilon=4.0, delta=1e-5, relation="zero_out")
OBSERVED = Execution(observer=StreamLosses())
ROWS = np.random.default_rng(2).uniform(-0.5, 0.5, (N, DIM))
BEST = ROWS.mean(axis=0) / np.linalg.norm(ROWS.mean(axis=0))


def regret_rate(plan):
    return Rate(quantity=Quantity.REGRET, theorem="", source="", terms=(Term("noise", 9.0),))


def streamed(
    problem_class=FACTS, budget=BUDGET, *, batch_size=2, epochs=2, order="stored", **choices
):
    """Noisy descent along passes in one order, every point recorded, as a plan of regret."""
    batches = OrderedBatches.of(batch_size, problem_class.n, epochs=epochs, order=order)
    steps = epochs * batches.period
    plan = privopt.dp_gd(problem_class, budget, steps=steps, output="last", record="all", **choices)
    query = plan.params.mechanism.query
    told = PrivateGradient.calibrated(query, budget, steps, batches, TreeNoise())
    algorithm = replace(plan.algorithm, rate=regret_rate)
    return replace(plan, algorithm=algorithm, params=plan.params._replace(mechanism=told))


PROBLEMS = {
    "distances": distance(ROWS, problem_class=FACTS),
    "linear": linear(ROWS, problem_class=FACTS, minimiser=BEST),
}


def played(problem, points, batch_size):
    """``sum_t f_t(w_t)`` over the stored order, one record at a time."""
    period, total = -(-N // batch_size), 0.0
    for t, point in enumerate(points):
        for record in ROWS[t % period * batch_size :][:batch_size]:
            loss = np.linalg.norm(point - record)
            total += (-point @ record if problem.name == "linear" else loss) / batch_size
    return total


@pytest.mark.parametrize(("name", "batch_size"), [("distances", 1), ("linear", 2)])
def test_losses_are_those_met_on_the_way(name, batch_size):
    """The point before each step, on the records of its batch; the last batch may be smaller."""
    problem, plan = PROBLEMS[name], streamed(batch_size=batch_size)
    found = run(plan, problem, jax.random.key(4), execution=OBSERVED)
    points = [np.zeros(DIM), *np.asarray(found.path.points)[:-1]]
    seen = found.secret.observed
    assert seen.total + seen.missing == pytest.approx(
        played(problem, points, batch_size), rel=1e-12
    )
    assert (seen.taken, seen.places) == (2 * N, batch_size)


@pytest.mark.parametrize("make", [distance, linear])
def test_records_with_multiplicities(make):
    """Numbers 0 and 1 are of the first stored row, 2 to 5 of the third, 6 of the last."""
    risk = make(ROWS[:4], problem_class=FACTS, counts=np.array([2, 0, 4, 1])).objective
    point = jnp.asarray([0.1, 0.2, -0.3])
    batch = jnp.array([1, 2, 5, 6, 7, 0]), jnp.array([True, True, True, True, True, False])
    observer = StreamLosses()
    seen = observer.init(point, risk)
    seen = observer.update(seen, jnp.int32(0), point, BatchMean(risk, point, batch))
    losses = [
        np.linalg.norm(point - ROWS[i]) if make is distance else -float(point @ ROWS[i])
        for i in (0, 2, 2, 3)
    ]
    assert seen.total == pytest.approx(sum(losses) / 6, rel=1e-12)
    assert (seen.taken, seen.places) == (4, 6)


def test_a_regret_is_over_the_best_point_of_all_passes():
    problem, plan = PROBLEMS["linear"], streamed()
    keys = jax.random.split(jax.random.key(1), 3)
    found = run_many([plan], problem, keys, execution=OBSERVED)
    regret = QUANTITIES["regret"].measure(problem, found)
    for key, value in zip(keys, regret, strict=True):
        alone = run(plan, problem, key, execution=OBSERVED)
        points = [np.zeros(DIM), *np.asarray(alone.path.points)[:-1]]
        again = played(problem, [BEST] * 8, 2)
        assert value == pytest.approx(played(problem, points, 2) - again, abs=1e-12)


def test_all_records_in_every_step():
    plan = privopt.dp_gd(FACTS, BUDGET, steps=5)
    found = run(plan, PROBLEMS["distances"], jax.random.key(0), execution=OBSERVED)
    seen = found.secret.observed
    assert (seen.taken, seen.places) == (5, 1)
    assert QUANTITIES["regret"].rounds(plan) == 5.0


@pytest.mark.thorough  # of the last digits
def test_a_long_sum_in_float32_is_compensated():
    """Ten thousand losses of 0.1 at the start: 1e-6 of the sum is lost without compensation."""
    facts = ProblemClass(n=10_000, dim=1, lipschitz=1.0, radius=1.0)
    records = distance(np.full((1, 1), 0.1, np.float32), problem_class=facts, counts=[10_000])
    plan = streamed(facts, batch_size=1, epochs=1, order="random", step_size=1e-30)
    with jax.enable_x64(False):
        plain = run(plan, records, jax.random.key(0), execution=OBSERVED).secret.observed
    assert plain.total.dtype == np.float32
    exact = 10_000 * float(np.float32(0.1))
    assert float(plain.total) + float(plain.missing) == pytest.approx(exact, rel=1e-7)
    assert float(plain.total) != pytest.approx(exact, rel=1e-7)


def test_whole_passes_or_nothing():
    rounds = QUANTITIES["regret"].rounds
    assert rounds(streamed(batch_size=2, epochs=3)) == pytest.approx(3 * N / 2)
    plan = streamed(batch_size=2, epochs=3)
    told = replace(plan.params.mechanism, steps=11)
    with pytest.raises(ValueError, match=r"steps must be whole passes .* got 11 steps"):
        rounds(replace(plan, params=plan.params._replace(mechanism=told)))


def test_a_population_has_no_best_point_of_all_runs():
    drawn = family("linear_population").build(n=N, dim=DIM, noise_ratio=0.1, strength=4.0)
    assert quantity_of(drawn, streamed().rate).name == "population risk"
    assert quantity_of(PROBLEMS["linear"], streamed().rate).name == "regret"


def test_a_cell_is_measured_with_the_observer():
    """Values are the regrets of its runs; start and optimum are those of the whole stream."""

    def plan(problem_class, budget):
        return streamed(problem_class, budget, batch_size=4, epochs=1, order="random")

    algorithm = replace(privopt.ALGORITHMS["dp_gd"], plan=plan)
    given = experiment(
        algorithms={"dp_gd": {}},
        families=("far_distance",),
        base=lab.Setting(n=16, dim=DIM, epsilon=4.0),
        replicates={"quick": 3, "full": 3},
        relation="zero_out",
        delta=None,
        epsilon_over_mu=5.0,
    )
    (cell,) = lab.cells(given, "quick")
    cache = SweepCache(0)
    with jax.enable_x64(True):
        job = cache.prepare(cell, algorithm, family("far_distance"))
        columns, facts = measure(job, cache)
    assert job.facts["quantity"] == "regret"
    assert job.facts["upper"] == 9.0
    assert isinstance(job.problem, Problem)
    assert facts["start_value"] == pytest.approx(4.0)
    assert facts["reference_value"] == pytest.approx(0.0, abs=1e-12)
    assert columns.num_rows == 3
    assert np.all(columns["value"].to_numpy() > 1.0)  # the first batch alone is a unit away
    assert len(set(columns["value"])) == 3
