"""Recommendations: ranks, refusals, what was measured, and the smallest n and epsilon."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import privopt
from privopt import ALGORITHMS, Budget, ProblemClass, lab, recommend, recommendation
from privopt.cli.commands import app
from privopt.problems import GeneralisedLinear
from privopt.recommendation import LOSSES, Plates, problem_class_of
from privopt.recommendation.known_losses import provided
from privopt.recommendation.what_if import reach, smallest
from privopt.tuning import is_tuned

ROOT = Path(__file__).parents[1]
FACTS = ProblemClass(n=4000, dim=20, lipschitz=1.0, radius=10.0, smoothness=0.25)
BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
QUICK = ("dp_gd", "phased_sgd", "output_perturbation", "objective_perturbation", "dp_ftrl")
COMMAND = ["recommend", "--n", "4e3", "--dim", "20", "--epsilon", "1", "--loss", "logistic"]
COMMAND += ["--relation", "replace_one"]


def command(*arguments, code=0):
    """What ``privopt`` prints, which must end with that exit status."""
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def whole():
    """What is recommended for the class, of all algorithms that are planned by default."""
    return recommend(FACTS, BUDGET, loss="logistic", results=ROOT / "results")


# --- the table ------------------------------------------------------------------------------------


def test_every_private_algorithm_has_its_place(whole):
    named = [row["method"] for row in whole.table()]
    named += [*whole.unbounded, *whole.refused, *whole.left_out]
    private = [name for name, x in ALGORITHMS.items() if x.private and not is_tuned(x)]
    assert sorted(named) == sorted(private)
    assert whole.left_out == recommendation.recommendation.SLOW
    assert whole.unbounded == {"noisy_adam": "the update is not plain descent"}


def test_ranks_are_those_of_planned_bounds(whole):
    """Sorted here by hand, within a quantity: a population bound has no rank among empirical."""
    bounds = {}
    for name in QUICK:
        rate = ALGORITHMS[name].plan(FACTS, BUDGET).rate
        bounds.setdefault(rate.quantity.value, []).append((rate.upper, name))
    assert len(bounds) == 2
    rows = [row for row in whole.table() if row["method"] in QUICK]
    for quantity, expected in bounds.items():
        told = [(x["certified"], x["method"]) for x in rows if x["quantity"] == quantity]
        assert told == sorted(expected)
    for listed in whole.ranked.values():
        assert len({each.quantity for each in listed}) == 1
    assert [row["rank"] for row in whole.table()] == [
        *range(1, len(whole.ranked["empirical risk"]) + 1),
        *range(1, len(whole.ranked["population risk"]) + 1),
    ]


def test_reasons_are_the_plans_own(whole):
    for name in ("exponential_mechanism", "l1_recovery", "linf_output_perturbation"):
        with pytest.raises(ValueError, match=re.escape(whole.refused[name])):
            ALGORITHMS[name].plan(FACTS, BUDGET)
    pure = recommend(FACTS, replace(BUDGET, delta=0.0), algorithms=QUICK)
    assert [row["method"] for row in pure.table()] == [
        "objective_perturbation",
        "output_perturbation",
    ]
    assert "delta must be positive" in pure.refused["dp_gd"]


def test_a_bound_of_part_of_the_class_is_not_ranked_beside_the_others():
    sparse, names = replace(FACTS, sparsity=4), ["dp_gd", "projection_mechanism"]
    found = recommend(sparse, BUDGET, algorithms=names)
    told = "its bound is for problems that provide mean"
    assert found.refused == {"projection_mechanism": told}
    found = recommend(sparse, BUDGET, loss="logistic", algorithms=names)
    assert "needs mean" in found.refused["projection_mechanism"]
    means = problem_class_of("squared_distance", n=4000, dim=20, radius=1.0, sparsity=4)
    found = recommend(means, BUDGET, loss="squared_distance", algorithms=names)
    assert [row["method"] for row in found.table()] == ["projection_mechanism", "dp_gd"]


def test_what_the_loss_must_be_is_told_where_it_is_not_known():
    names = ["objective_perturbation"]
    (row,) = recommend(FACTS, BUDGET, algorithms=names).table()
    assert row["remarks"] == ("for losses of one linear prediction alone",)
    (row,) = recommend(FACTS, BUDGET, loss="logistic", algorithms=names).table()
    assert row["remarks"] == ()


def test_seconds_and_memory_follow_from_public_sizes():
    plan = ALGORITHMS["dp_gd"].plan(FACTS, BUDGET)
    (row,) = recommend(FACTS, BUDGET, algorithms=["dp_gd"]).table()
    steps = plan.params.mechanism.steps
    assert (row["steps"], row["memory"]) == (steps, 4 * 4000 * 20)
    assert row["seconds"] == pytest.approx(steps * (2e-5 + (4000 * 20 + 20) / 1.5e9))


@pytest.mark.parametrize("name", sorted({*ALGORITHMS} - {"gradient_descent"}))
def test_every_plan_has_a_cost(name):
    if name in ("projection_mechanism", "l1_recovery", "linf_output_perturbation"):
        facts = ProblemClass(n=500, dim=3, lipschitz=1.0, radius=1.0, smoothness=0.2, sparsity=1)
    else:
        facts = ProblemClass(n=500, dim=3, lipschitz=1.0, radius=1.0, smoothness=0.2)
    choices = {"steps": 50} if "steps" in ALGORITHMS[name].choices else {}
    if name == "bias_reduced_sgd":
        choices = {"steps": 4, "base": 125, "body": "none"}
    cost = recommendation.cost.cost_of(ALGORITHMS[name].plan(facts, BUDGET, **choices))
    assert 0.0 < cost.seconds < 1.0
    assert cost.memory >= 4 * 500


# --- what was measured ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "loss", "n", "dim", "epsilon", "strengths"),
    [
        ("objective_perturbation", "logistic", 1700, 64, 0.9, 1),
        ("dp_gd", "linear", 2800, 16, 0.4, 5),
    ],
)
def test_the_nearest_plate_is_read_as_the_lab_reads_it(name, loss, n, dim, epsilon, strengths):
    """The largest mean over the strengths and its bound, by the lab's own reader and a loop."""
    facts, budget = replace(FACTS, n=n, dim=dim), replace(BUDGET, epsilon=epsilon)
    plate = Plates(ROOT / "results").nearest(ALGORITHMS[name].plan(facts, budget), loss)
    _, cells, runs = lab.read(ROOT / "results" / plate.experiment)
    values = runs.to_pandas().groupby("cell")["value"].mean()
    rows = [
        row
        for row in cells.to_pylist()
        if (row["method"], row["family"], row["trial"]) == (name, plate.family, "measured")
        and (row["n"], row["dim"], row["epsilon"]) == (plate.n, plate.dim, plate.epsilon)
        and row["searched"] is None
    ]
    worst = max(rows, key=lambda row: values[row["cell"]])
    assert len(rows) == strengths
    assert plate.ratio == pytest.approx(values[worst["cell"]] / worst["upper"], rel=1e-12)
    assert plate.start == pytest.approx(values[worst["cell"]] / worst["start_value"], rel=1e-12)
    assert loss in plate.family
    assert max(n / plate.n, plate.n / n, epsilon / plate.epsilon, plate.epsilon / epsilon) < 1.3


def test_a_plate_is_of_the_same_algorithm_quantity_and_purity(whole):
    plates = Plates(ROOT / "results")
    for row in whole.table():
        if (plate := row["plate"]) is not None:
            assert plate.algorithm == row["method"]
            cells = lab.read(ROOT / "results" / plate.experiment).cells.to_pylist()
            assert row["quantity"] in {cell["quantity"] for cell in cells}
    pure = ALGORITHMS["output_perturbation"].plan(FACTS, replace(BUDGET, delta=0.0))
    cells = lab.read(ROOT / "results" / plates.nearest(pure).experiment).cells
    assert set(cells["delta"].to_pylist()) == {0.0}


def test_both_orders_are_told(whole):
    rows = [row for row in whole.table() if row["quantity"] == "empirical risk"]
    for row in rows:
        assert row["measured"] == pytest.approx(row["certified"] * row["plate"].ratio)
    by_hand = sorted(rows, key=lambda row: row["measured"])
    assert [row["rank_measured"] for row in by_hand] == list(range(1, len(rows) + 1))


def test_a_default_far_from_its_tuned_twin_is_told(whole):
    """Of ``phased_sgd`` on its hard family the committed report says 2.14 to 2.38."""
    facts = replace(FACTS, n=2200, dim=64)
    budget = replace(BUDGET, epsilon=0.5)
    plan = ALGORITHMS["phased_sgd"].plan(facts, budget)
    plate = Plates(ROOT / "results").nearest(plan, "linear")
    assert plate.experiment == "phased_sgd"
    assert 2.0 < plate.tuned < 2.6
    found = recommend(
        facts, budget, loss="linear", algorithms=["phased_sgd"], results=ROOT / "results"
    )
    (row,) = found.table()
    assert any("oracle-tuned twin" in remark for remark in row["remarks"])


def test_what_comes_with_the_package_is_told_where_nothing_is_recorded(
    whole, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    found = recommend(FACTS, BUDGET, loss="logistic")
    assert str(found) == str(whole)
    assert Plates.of(None).folder == ROOT / "results"
    (tmp_path / "results").mkdir()  # of something else
    assert Plates.of(None).folder == ROOT / "results"
    assert Plates.of(tmp_path / "results").missing


def test_the_small_table_says_what_the_tables_say(whole, tmp_path):
    """It is the committed one, which a wheel carries without the tables."""
    committed = Plates(ROOT / "results")
    (tmp_path / "measured.parquet").write_bytes((ROOT / "results/measured.parquet").read_bytes())
    alone = Plates(tmp_path)
    assert alone._rows == committed._rows, "make report writes results/measured.parquet anew"
    assert str(recommend(FACTS, BUDGET, loss="logistic", results=tmp_path)) == str(whole)
    assert (ROOT / "results" / "measured.parquet").stat().st_size < 100_000


def test_the_small_table_is_written_beside_the_tables(demonstration, tmp_path):
    lab.run(demonstration.experiment, profile="quick", seed=0, results=tmp_path / "results")
    made = Plates(tmp_path / "results")
    made.write()
    (tmp_path / "other").mkdir()
    written = (tmp_path / "results" / "measured.parquet").read_bytes()
    (tmp_path / "other" / "measured.parquet").write_bytes(written)
    assert Plates(tmp_path / "other")._rows == made._rows != []


def test_without_plates_a_sentence_says_so(tmp_path):
    found = recommend(FACTS, BUDGET, algorithms=["dp_gd"], results=tmp_path)
    (row,) = found.table()
    assert (row["measured"], row["rank_measured"], row["plate"]) == (None, None, None)
    assert f"Nothing measured is told: {tmp_path} has no recorded experiment." in " ".join(
        line.strip() for line in str(found).splitlines()
    )


def test_a_vacuous_bound_predicts_nothing():
    hopeless = replace(FACTS, n=30, dim=200)
    (row,) = recommend(
        hopeless, BUDGET, algorithms=["dp_gd"], results=ROOT / "results"
    ).table()  # fmt: skip
    assert row["measured"] is None
    assert row["remarks"][0] == "bound no smaller than the public centre's"


# --- what would lower the bound -------------------------------------------------------------------


def test_the_ends_of_the_range():
    assert smallest(lambda x: x > 0, 5.0, 0.01, 100.0) == 0.01
    assert smallest(lambda x: x > 1e3, 5.0, 0.01, 100.0) is None
    assert smallest(lambda x: x >= 100, 5.0, 0.01, 100.0) == 100


@pytest.mark.parametrize("target", [None, 0.3, 0.01])
def test_the_target_is_reached_there_and_not_below(target):
    plan = ALGORITHMS["dp_gd"].plan(FACTS, BUDGET)
    goal = target or 0.5 * plan.rate.upper
    found = reach(plan, goal)

    def bound(n=FACTS.n, epsilon=1.0):
        facts, budget = replace(FACTS, n=n), replace(BUDGET, epsilon=epsilon)
        return ALGORITHMS["dp_gd"].plan(facts, budget).rate.upper

    unit = 10 ** (len(str(found.n)) - 2)
    assert bound(n=found.n) <= goal < bound(n=found.n - unit)
    unit = 10.0 ** (math.floor(math.log10(found.epsilon)) - 1)
    assert bound(epsilon=found.epsilon) <= goal < bound(epsilon=found.epsilon - unit)


def test_a_recommendation_asks_for_half_of_its_best_or_for_what_is_wanted():
    names = ["dp_gd", "output_perturbation"]
    halved = recommend(FACTS, BUDGET, algorithms=names)
    assert halved.reach.target == 0.5 * halved.best.certified
    assert halved.reach.method == "dp_gd"
    wanted = recommend(FACTS, BUDGET, algorithms=names, accuracy=0.02)
    assert wanted.reach.target == 0.02
    assert wanted.reach.n > halved.reach.n


def test_looser_assumptions_are_told_where_they_take_a_fifth_off():
    kinked = replace(FACTS, smoothness=None)
    pure = recommend(kinked, replace(BUDGET, delta=0.0), algorithms=["output_perturbation"])
    told = {each.assumption: each for each in pure.what_ifs}
    assert [*told] == [
        "a public bound |w| <= 5",
        "delta = 6.25e-08 in place of 0",
        "smoothness 1, kinks rounded",
        "zero_out in place of replace_one",
    ]
    assert all(each.bound <= 0.8 * pure.best.certified for each in told.values())
    budget = replace(BUDGET, delta=1.0 / FACTS.n**2)
    private = ALGORITHMS["dp_gd"].plan(kinked, budget).rate.upper
    assert told["delta = 6.25e-08 in place of 0"].bound <= private
    zeroed = replace(BUDGET, relation="zero_out")
    assert "zero_out" not in str(recommend(FACTS, zeroed, algorithms=["dp_gd"]).what_ifs)


def test_an_assumption_that_buys_less_is_not_told():
    """Half the noise takes less than a fifth off a bound that steps lead."""
    kinked = replace(FACTS, smoothness=None)
    found = recommend(kinked, BUDGET, algorithms=["dp_gd"])
    zeroed = ALGORITHMS["dp_gd"].plan(kinked, replace(BUDGET, relation="zero_out")).rate.upper
    assert 0.8 < zeroed / found.best.certified < 1.0
    assert [each.assumption for each in found.what_ifs if "zero_out" in each.assumption] == []


# --- losses by name -------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_constants_of_known_losses_are_those_of_the_problems(loss):
    """A problem of extreme records of that loss passes the problem's own check."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True) * (1.0 + 1e-12)
    y = np.where(rng.random(50) < 0.5, -1.0, 1.0)
    facts = problem_class_of(loss, n=50, dim=4, radius=2.0)
    if LOSSES[loss] is None:
        problem = privopt.problems.squared_distance(x, problem_class=facts)
    else:
        problem = privopt.problems.Problem(
            loss=GeneralisedLinear(LOSSES[loss]), data=(x, y), problem_class=facts
        )
    problem.check()
    assert problem.provides == provided(loss, facts)


# --- the command ----------------------------------------------------------------------------------


def test_the_command_prints_the_recommendation(whole, monkeypatch):
    monkeypatch.chdir(ROOT)
    told = command(*COMMAND, "--delta", "1e-6", "--results", ROOT / "results")
    assert told == f"{whole}\n"
    assert max(map(len, told.splitlines())) <= 100
    assert "delta = 1/n^2 = 6.25e-08, by default." in command(*COMMAND)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"--n": "-5"}, "n must be a positive integer, got -5"),
        ({"--loss": "logistics"}, "did you mean logistic?"),
        ({"--relation": "replace"}, "Invalid value for '--relation'"),
    ],
)
def test_bad_options_are_refused_by_name(changed, message):
    given = {**dict(zip(COMMAND[1::2], COMMAND[2::2], strict=True)), **changed}
    told = command("recommend", *(part for pair in given.items() for part in pair), code=2)
    assert message in told


def test_the_relation_is_told_where_the_command_leaves_it_out():
    assert command(*COMMAND[:-2]) == command(*COMMAND)
    assert "-DP, replace_one, logistic" in command(*COMMAND)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": "logit"}, "did you mean logistic?"),
        ({"accuracy": -1.0}, "accuracy must be positive and finite, got -1.0"),
        ({"algorithms": ["dpgd"]}, "did you mean dp_gd?"),
        ({"algorithms": ["gradient_descent"]}, "algorithms must be one of"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        recommend(FACTS, BUDGET, **arguments)
    with pytest.raises(ValueError, match="problem_class must be a ProblemClass"):
        recommend(BUDGET, BUDGET)
    with pytest.raises(ValueError, match="budget must be a Budget"):
        recommend(FACTS, 1.0)
