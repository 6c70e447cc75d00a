"""Comparisons: runs of the lab as tables, winners, fitted exponents and figures."""

import math
from dataclasses import replace

import jax
import numpy as np
import pandas
import pytest
from PIL import Image
from typer.testing import CliRunner

import privopt
from privopt import lab, problems
from privopt.cli.commands import app
from privopt.comparison import cost_of
from privopt.comparison.experiment import _methods
from privopt.comparison.result import _winner, brief

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
QUICK = ["output_perturbation", "phased_sgd"]
KEY = jax.random.key(3)


def silent(event):
    """Ignore the event and print no output."""


def compared(problem="logistic", algorithms=QUICK, **options):
    defaults = {"budget": BUDGET, "n": 60, "dim": 3, "replicates": 6, "data_sets": 2, "key": KEY}
    return privopt.compare(problem, algorithms, **{**defaults, "progress": silent, **options})


@pytest.fixture(scope="module")
def found():
    methods = [*QUICK, "l1_recovery"]
    return compared(algorithms=methods, axis="epsilon", values=(0.5, 1.0, 2.0))


def own_problem(**facts):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(50, 3))
    features /= 1.001 * np.linalg.norm(features, axis=1, keepdims=True)
    told = privopt.ProblemClass(n=50, dim=3, lipschitz=1.0, radius=1.0, smoothness=0.25)
    labels = np.where(features[:, 0] > 0.0, 1.0, -1.0)
    return problems.logistic(features, labels, problem_class=replace(told, **facts))


# --- measurements ---------------------------------------------------------------------------------


def test_a_cell_is_the_plan_run_by_hand_to_the_digits_that_are_kept(found):
    for number, runs in enumerate(found.runs[1.0, "phased_sgd"]):
        problem = problems.synthetic("logistic").build(
            n=60, dim=3, noise_ratio=0.0, strength=float(number)
        )
        plan = privopt.phased_sgd(problem.problem_class, BUDGET)
        named = {"experiment": "compare_logistic_epsilon", "algorithm": "phased_sgd"}
        named |= {"family": "synthetic_logistic", "strength": float(number)}
        named |= {"n": 60, "dim": 3, "epsilon": 1.0}
        keys = lab.replicate_keys(lab.stream(3, role="noise", **named), 3)
        released = privopt.run_many([plan], problem, keys).released[0]
        np.testing.assert_allclose(runs, problem.excess_risk(released), rtol=2.0**-24)


def test_spread_has_two_parts_and_the_interval_is_over_data_sets(found):
    point = found.points.iloc[0]
    runs = found.runs[point["value"], point["method"]]
    means = runs.mean(axis=1)
    half = 12.706 * means.std(ddof=1) / np.sqrt(2.0)  # Student's, one degree of freedom
    assert runs.shape == (2, 3)
    assert point["upper"] - point["mean"] == pytest.approx(half, rel=1e-4)
    keys = runs.var(axis=1, ddof=1).mean()
    data = max(means.var(ddof=1) - keys / 3.0, 0.0)
    assert (point["sd_keys"], point["sd_data"]) == pytest.approx((keys**0.5, data**0.5))


@pytest.mark.thorough  # as problems of a family, above
def test_a_problem_with_fixed_data_is_compared():
    comparison = compared(own_problem(), n=40, dim=None, data_sets=None)
    assert {runs.shape for runs in comparison.runs.values()} == {(1, 6)}
    assert comparison.first.setting["n"] == 40


@pytest.mark.thorough  # as in lab/test_trials.py
def test_public_randomness_is_shared_by_groups_of_runs():
    """Differences to a method without groups are taken group by group."""
    comparison = compared(
        "sparse_mean", ["l1_recovery", "projection_mechanism"], n=200, dim=8, sparsity=2,
        replicates=32, data_sets=1,
    )  # fmt: skip
    assert comparison.runs[None, "l1_recovery"].shape == (1, 16)
    assert comparison.runs[None, "projection_mechanism"].shape == (1, 32)
    (won,) = comparison.winners()
    assert math.isfinite(won.margin.lower)


def test_longer_plans_are_capped_and_named():
    comparison = compared(algorithms=["dp_gd"], max_steps=7)
    (point,) = comparison.points.itertuples()
    assert point.steps == 7
    assert "Fewer steps than the default, to limit the time: dp_gd (7)" in comparison.notes
    facts = problems.synthetic("logistic").build(n=60, dim=3, noise_ratio=0.0, strength=0.0)
    plan = privopt.dp_gd(facts.problem_class, BUDGET, steps=7)
    assert point.bound == plan.rate.upper
    seconds = cost_of(plan).seconds  # of seven steps
    by_cost = compared(algorithms=["dp_gd"], max_seconds=1.001 * seconds)
    assert by_cost.points.equals(comparison.points.assign(seconds=by_cost.points["seconds"]))
    assert compared(algorithms=["dp_gd"], max_seconds=None).limits == {}


@pytest.mark.thorough  # winners of tables are tested below
def test_the_best_of_a_grid_is_labelled_and_never_wins():
    comparison = compared(algorithms=QUICK, tune="oracle", replicates=4)
    tuned = comparison.points.query("tuned")["method"]
    assert sorted(tuned) == ["output_perturbation_best", "phased_sgd_best"]
    assert "output_perturbation_best (oracle-tuned)" in comparison.table(wide=True)
    assert "oracle-tuned" in comparison.setting
    (won,) = comparison.winners()
    assert {won.least, *won.ties} <= set(QUICK)


def test_a_privately_tuned_method_pays_and_may_win():
    names = ["output_perturbation", "l1_recovery"]  # the second one is refused, and has no twin
    comparison = compared(algorithms=names, tune="private", replicates=4, data_sets=1)
    points = comparison.points.set_index("method")
    assert sorted(points.index) == ["output_perturbation", "output_perturbation_tuned"]
    assert {*comparison.refused} == {"l1_recovery"}
    assert not points.loc["output_perturbation_tuned", "tuned"]  # which would exclude it
    bounds = points["bound"]
    assert bounds["output_perturbation_tuned"] > bounds["output_perturbation"]
    assert "tuned privately" in comparison.setting
    labels = [method.label for method in _methods(None)]
    assert "dp_gd" in labels
    assert "output_perturbation_tuned" not in labels  # it is only registered


def test_steps_may_be_the_axis():
    comparison = compared(algorithms=["dp_gd", "phased_sgd"], axis="steps", values=(2, 4))
    assert comparison.points[["value", "steps"]].values.tolist() == [[2, 2], [4, 4]]
    assert "steps" in comparison.refused["phased_sgd"]


def test_an_interrupted_comparison_continues(tmp_path):
    events = []
    options = {"results": tmp_path, "progress": events.append}
    first, second = compared(**options), compared(**options)
    started = [event for event in events if type(event).__name__ == "Started"]
    assert [(event.reused, event.total) for event in started] == [(0, 4), (4, 4)]
    assert first.recorded.runs.equals(second.recorded.runs)
    other = compared(key=jax.random.key(4))
    assert other.points["mean"][0] != first.points["mean"][0]


# --- winners, tables and figures ------------------------------------------------------------------


def test_a_winner_differs_from_all_others_and_a_tie_does_not():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(10, 1))  # of the data: cancels in differences
    noise = [0.1 * rng.normal(size=(10, 8)) for _ in range(3)]
    clear = {
        (1.0, name): shared + level + each
        for name, level, each in zip("abc", (1.0, 1.5, 2.0), noise, strict=True)
    }
    won = _winner(1.0, "abc", clear)
    assert (won.winner, won.least, won.ties) == ("a", "a", ())
    assert won.margin.lower < 0.5 < won.margin.upper  # a margin of 0.5; misses with 5 %, seed fixed
    assert won.margin.upper - won.margin.lower < 0.2
    tie = _winner(1.0, "abc", {**clear, (1.0, "b"): shared + 1.0 + noise[1]})
    assert (tie.winner, {tie.least, *tie.ties}) == ("tie", {"a", "b"})


def test_the_conclusion_names_the_values_at_which_a_method_is_best_or_tied(found):
    """Three methods at four values: ``a`` wins above 1, is tied at 1, and ``b`` wins below."""
    rng = np.random.default_rng(0)
    levels = {
        0.5: (2.0, 1.0, 9.0),
        1.0: (1.0, 1.0, 9.0),
        2.0: (1.0, 2.0, 9.0),
        4.0: (1.0, 2.0, 9.0),
    }
    runs = {
        (value, name): level + 0.01 * rng.normal(size=(5, 4))
        for value, row in levels.items()
        for name, level in zip("abc", row, strict=True)
    }
    rows = [
        {"value": value, "method": name, "mean": each.mean(), "tuned": False}
        for (value, name), each in runs.items()
    ]
    points = pandas.DataFrame(rows).sort_values(["value", "mean"])
    conclusion = replace(found, points=points, runs=runs).conclusion
    assert conclusion == (
        "b has the least excess risk on logistic regression at ε = 0.5; a and b tie for the least "
        "excess risk at ε = 1; a has the least excess risk at ε = 2, 4 (95 %, paired runs)."
    )


def test_oracle_tuned_methods_are_no_winners(found):
    points = found.points.assign(tuned=found.points["method"] == "output_perturbation")
    assert replace(found, points=points).winners() == ()


def test_a_method_that_wins_or_ties_at_every_value_is_named_once(found):
    noise = np.random.default_rng(0).normal(size=(3, 2, 2, 3))  # value, method, data set, run
    runs = {
        (value, method): level + 0.01 * noise[k, j]
        for k, value in enumerate((0.5, 1.0, 2.0))
        for j, (method, level) in enumerate(
            (("output_perturbation", 0.1), ("phased_sgd", 0.1 if value == 1.0 else 9.0))
        )
    }
    assert replace(found, runs=runs).conclusion == (
        "output_perturbation has the least excess risk on logistic regression at every ε, alone or "
        "tied (95 %, paired runs)."
    )


def test_fitted_exponents_are_slopes_of_logarithms(found):
    """The exponent is the slope of three means on a line.

    The exponent of the theorem is given if a bound is known.
    """
    values = np.array([0.5, 1.0, 2.0])
    runs = {
        (value, method): np.full((2, 3), 0.1 * value**slope)
        for value in values
        for method, slope in (("output_perturbation", -0.5), ("phased_sgd", -2.0))
    }
    frame = replace(found, runs=runs).exponents().set_index("method")
    expected = {"output_perturbation": -0.5, "phased_sgd": -2.0}
    assert frame["fitted"].to_dict() == pytest.approx(expected)
    assert frame.loc["output_perturbation", "theorem"] == pytest.approx(-2 / 3, abs=0.05)
    assert math.isnan(frame.loc["phased_sgd", "theorem"])  # a bound on the population risk


def test_the_frame_has_a_row_per_run(found):
    frame = found.frame()
    assert isinstance(frame, pandas.DataFrame)
    assert len(frame) == 2 * 3 * 6
    wanted = {"method", "epsilon", "data_set", "replicate", "value", "upper", "zero"}
    assert wanted <= set(frame.columns)
    means = frame.groupby(["epsilon", "method"])["value"].mean()
    for point in found.points.itertuples():
        assert means[point.value, point.method] == pytest.approx(point.mean, rel=1e-12)


def test_the_table_is_a_matrix_of_means_in_80_columns(found):
    text = found.table()
    assert max(map(len, text.splitlines())) <= 80
    lines = text.splitlines()
    assert lines[0].startswith("Excess risk, logistic regression: n = 60, d = 3, δ = 1e-06, repl")
    row = next(line for line in lines if line.startswith("output_perturbation"))
    for entry, value in zip(row.split()[1:], (0.5, 1.0, 2.0), strict=True):
        at = found.points[found.points["value"] == value].set_index("method")
        point = at.loc["output_perturbation"]
        assert entry.lstrip("*").split("±") == [
            brief(point["mean"]),
            brief(point["upper"] - point["mean"], 1),
        ]
        assert entry.startswith("*") == (at["mean"].idxmin() == "output_perturbation")
    assert text.count("*") == 4  # one in the caption
    assert found.table(bold=str.upper).count("*") == 0
    assert "1 method does not apply (--why, or why=True)" in text
    assert "Refused" not in text
    assert "Refused: l1_recovery (sparsity must be declared" in found.table(why=True)
    assert found.conclusion.endswith("(95 %, paired runs).")
    assert " the least excess risk on logistic regression " in found.conclusion
    assert "Fitted exponents of ε (theorem): " in text


def test_the_wide_table_has_all_numbers_bounds_of_other_quantities_and_refusals(found):
    text = found.table(wide=True)
    assert "6 runs on 2 data sets, default hyperparameters" in text
    assert "Refused: l1_recovery (sparsity must be declared" in text
    assert "Bound on the population risk, not on the empirical risk: phased_sgd" in text
    assert "zero predictor" in text
    assert "doubles the sensitivity of a sum, compared with zero-out" in text
    methods = found.points["method"]
    for method in QUICK:
        rows = [line.split() for line in text.splitlines() if line.split()[1:2] == [method]]
        means = found.points.loc[methods == method, "mean"].map(brief)
        assert [row[2] for row in rows] == list(means)


@pytest.mark.parametrize("axis", ["epsilon", None])
def test_the_figure_is_written_and_nothing_is_cut_off(found, axis, tmp_path):
    shown = found if axis else compared()
    figure = shown.plot(tmp_path / "new" / "picture.png")
    with Image.open(tmp_path / "new" / "picture.png") as image:
        wide, high = image.size
    width, height = figure.get_size_inches() * figure.dpi
    assert wide / high == pytest.approx(width / height, rel=0.01)
    place = figure.axes[0]
    texts = [*figure.texts, *place.texts, place.yaxis.label]
    texts += [] if axis else place.get_yticklabels()
    for text in filter(lambda text: text.get_text(), texts):
        box = text.get_window_extent()
        assert min(box.x0, box.y0) > -1.0, text.get_text()
        assert box.x1 < width, text.get_text()
        assert text.get_fontsize() >= 8.0


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"problem": "logistc"}, "problem must be one of .*; did you mean logistic"),
        (
            {"problem": 3},
            "problem must be a string or a Family or a Problem, got",
        ),
        (
            {"problem": "medians", "data_sets": None},
            "problem must have one strength, got medians",
        ),
        (
            {"problem": "sparse_same_sines", "sparsity": 2, "data_sets": None},
            "certified opt",
        ),
        ({"algorithms": ["dp_dg"]}, "algorithms must be one of .*; did you mean dp_gd"),
        ({"axis": "d"}, "axis of synthetic_logistic must be one of .*got 'd'; did you mean dim"),
        ({"axis": "n", "values": (50,)}, r"values must be two or more along an axis, got \(50,\)"),
        ({"values": (50, 60)}, "values must be left out without an axis"),
        ({"axis": "eps"}, "did you mean epsilon"),
        ({"problem": "logreg"}, "did you mean logistic"),
        ({"algorithms": ["l1_recovery", "projection_mechanism"]}, "l1_recovery: .*; projection_m"),
        ({"data_sets": 4}, "data_sets must divide replicates = 6, got 4"),
        ({"budget": 1.0}, "budget must be a Budget"),
        ({"tune": "best"}, "tune must be one of oracle, private, got 'best'"),
        (
            {"problem": own_problem(), "n": 40},
            "data_sets must be left out for logistic, whose data are fixed",
        ),
        (
            {"problem": own_problem(), "data_sets": None, "axis": "dim"},
            "axis of logistic must be one of n, epsilon, steps, got 'dim'",
        ),
        (
            {"problem": own_problem(convex=False), "data_sets": None},
            "problem must be convex and without a start of its own to have a certified optimum",
        ),
    ],
)
def test_bad_input_is_named_before_anything_is_compiled(options, words):
    with pytest.raises(ValueError, match=words):
        compared(**options)


# --- the command ----------------------------------------------------------------------------------

COMMAND = ["compare", "logistic", *QUICK, "l1_recovery", "--axis", "epsilon", "--values", "0.5,2"]
COMMAND += ["--n", "60", "--dim", "3", "--replicates", "4", "--data-sets", "2"]


def test_the_command_prints_the_table_and_writes_the_figure(tmp_path):
    options = [*COMMAND, "--results", str(tmp_path / "kept")]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    *previews, whole = result.output.split("Preview on one data set. More runs follow.")
    one_shot, first = (" ".join(each.split()) for each in previews)
    assert "2 runs, default hyperparameters" in one_shot
    assert "phased_sgd" not in one_shot
    assert "phased_sgd" in first
    assert "4 runs on 2 data sets, default hyperparameters" in " ".join(whole.split())
    assert "output_perturbation" in whole
    assert (tmp_path / "kept" / "compare_logistic_epsilon.png").stat().st_size > 5000
    assert result.output.count("1 method does not apply (--why, or why=True)") == 2
    assert "sparsity must be" not in result.output
    again = CliRunner().invoke(app, [*options, "--wide"])
    assert "8 of them there already" in again.output
    assert "bound on the population risk" in again.output.lower()
    assert "sparsity must be declared" in CliRunner().invoke(app, [*options, "--why"]).output


def test_the_command_refuses_in_one_line():
    result = CliRunner().invoke(app, ["compare", "logistic", "--axis", "d", "--n", "9"])
    assert result.exit_code == 2
    assert "did you mean dim?" in result.output
    assert "Traceback" not in result.output
