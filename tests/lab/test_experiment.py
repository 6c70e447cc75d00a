"""Declarations: refused with their reason, spelled out into cells, loaded from files."""

import math
import re

import builders
import numpy as np
import pytest
from builders import DECLARED
from refusals import refused

from privopt.lab import Axis, Experiment, Grid, Method, Setting, cells, choose, discover, load, run
from privopt.lab.runner.catalogue import Declarations
from privopt.privacy import gaussian_mu
from privopt.problems.datasets import VARIABLE
from privopt.spec import Relation

AXES = (Axis("n", (500, 1000, 2000), quick=(500, 1000)), Axis("epsilon", (0.5, 1.0)))


def experiment(**changes):
    return builders.experiment(**{"axes": AXES, **changes})


def test_a_relation_has_no_default():
    without = {name: value for name, value in DECLARED.items() if name != "relation"}
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'relation'"):
        Experiment(**without, base=Setting(n=1000, dim=4, epsilon=1.0))


test_a_bad_declaration_is_refused = refused(
    ({"name": "Demo"}, "name must be of small letters, digits and underscores, got 'Demo'"),
    ({"delta": None}, "exactly one of delta and epsilon_over_mu must be given, got None and None"),
    ({"epsilon_over_mu": 5.0}, "exactly one of delta and epsilon_over_mu must be given, got 1e-06"),
    ({"delta": None, "epsilon_over_mu": 0.0}, "epsilon_over_mu must be positive and finite"),
    ({"relation": "swap"}, "relation must be one of .*, got 'swap'"),
    ({"families": ()}, "families must name at least one family, got none"),
    ({"families": "linear"}, "families must be a tuple, got 'linear'"),
    ({"if_present": ("linear",)}, "families must be distinct, got linear, linear"),
    ({"algorithms": {}}, "algorithms must name at least one algorithm, got none"),
    (
        {"algorithms": {"dp_gd": {"steps": [3]}}},
        "steps must be a number, .* or None, got .* type list",
    ),
    ({"checks": ("looks",)}, "check must be one of bound, slope, law, got 'looks'"),
    ({"axes": (Axis("n", (1,)), Axis("n", (2,)))}, "axes must be distinct, got n, n"),
    ({"delta": None, "epsilon_over_mu": "5"}, "epsilon_over_mu must be positive .* got '5'"),
    ({"base": {"n": 1000}}, "base must be a Setting, got an object of type dict"),
    ({"axes": ("n",)}, "axes must be an Axis, got an object of type str"),
    ({"algorithms": ["dp_gd"]}, "algorithms must be a Method, got an object of type str"),
    ({"algorithms": (Method("a", "dp_gd"),) * 2}, "algorithms must be distinct, got a, a"),
    ({"axes": (Axis("d", (1,)),)}, r"got 'd'; did you mean dim\?"),
    ({"axes": (Axis("x", (1,)),)}, "axis must be one of n, dim, sparsity, epsilon, .*, got 'x'"),
    ({"axes": (Axis("step", (1,)),)}, r"got 'step'; did you mean steps\?"),
    ({"grids": (Axis("n", (1,)),)}, "grids must be a Grid, got an object of type Axis"),
    ({"algorithms": {"dpgd": {}}}, r"algorithm must be .* got 'dpgd'; did you mean dp_gd\?"),
    ({"algorithms": {"dp_gd": 5}}, "choices of dp_gd must be a mapping, got 5"),
    (
        {"algorithms": {"dp_gd": {"step": 3}}},
        r"choice of dp_gd .* got 'step'; did you mean steps\?",
    ),
    ({"families": ("liner",)}, r"family must be one of .*; did you mean linear\?"),
    ({"replicates": 4}, "replicates must be a mapping, got 4"),
    ({"replicates": {"quick": 4}}, r"replicates must name those of the full profile, got {'quick'"),
    ({"replicates": {"quick": 4, "full": 0}}, r"replicates\['full'\] must be .* got 0"),
    ({"replicates": {"quick": 4, "full": 4, "huge": 9}}, "profile must be one of quick, full, got"),
    of=experiment,
)


test_a_bad_axis_or_setting_is_refused = refused(
    (lambda: Axis(3, (1,)), "axis must be a str, got an object of type int"),
    (lambda: Axis("step_size", ("big",)), "step_size must be a real number, got 'big'"),
    (lambda: Grid(Axis("n", (1,))), r"axes of a grid must be two or more, distinct, got"),
    (lambda: Grid(Axis("n", (1,)), Axis("n", (2,))), "axes of a grid must be two or more"),
    (lambda: Method("Big", "dp_gd"), "label of a method must be of small letters"),
    (lambda: Axis("n", ()), "values of axis n must be distinct, got .* length 0"),
    (lambda: Axis("n", np.full(2, 1)), "values of axis n must be distinct, got .* length 2"),
    (lambda: Axis("n", np.array([1e2])), r"n must be a positive integer, got 100\.0"),
    (lambda: Axis("epsilon", (np.float64(-1.0),)), r"epsilon must be .* finite, got -1\.0"),
    (lambda: Axis("n", "abc"), "values of axis n must be a tuple, got 'abc'"),
    (lambda: Axis("n", (5,), quick="5"), "values of axis n must be a tuple, got '5'"),
    (lambda: Setting(epsilon="1"), "epsilon must be positive and finite, got '1'"),
    (lambda: Axis("n", (5,), quick=(0,)), "n must be a positive integer, got 0"),
    (lambda: Setting(epsilon=1.0, n=True), "n must be a positive integer, got True"),
)


def test_a_point_that_axes_share_is_one_cell():
    found = {(c.n, c.budget.epsilon): c.axes for c in cells(experiment(), "full") if c.strength < 2}
    assert found == {
        (500, 1.0): ("n",),
        (1000, 1.0): ("n", "epsilon"),
        (2000, 1.0): ("n",),
        (1000, 0.5): ("epsilon",),
    }


def test_profiles_differ_in_values_and_replicates():
    quick, full = cells(experiment(), "quick"), cells(experiment(), "full")
    assert {c.n for c in quick} == {500, 1000}
    assert ({c.replicates for c in quick}, {c.replicates for c in full}) == ({4}, {8})
    with pytest.raises(ValueError, match="profile must be one of quick, full, got 'slow'"):
        cells(experiment(), "slow")


def test_without_quick_replicates_an_experiment_is_of_the_full_profile_alone(tmp_path):
    long = experiment(replicates={"full": 8})
    assert (experiment().profiles, long.profiles) == (("quick", "full"), ("full",))
    assert {c.replicates for c in cells(long, "full")} == {8}
    for order in (
        lambda: cells(long, "quick"),
        lambda: run(long, profile="quick", seed=0, results=tmp_path / "results"),
    ):
        message = "must be full for demo, got 'quick': privopt run demo --profile full"
        with pytest.raises(ValueError, match=message):
            order()
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"profile": "slow"}, "profile must be one of quick, full, got 'slow'"),
        ({"profile": "ful"}, r"got 'ful'; did you mean full\?"),
        ({"seed": "0"}, "seed must be an integer from .* got '0'"),
        ({"seed": 2**63 - 1}, "seed must be an integer from .* got"),
        ({"experiment": "demo"}, "experiment must be an Experiment, got an object of type str"),
    ],
)
def test_a_bad_order_to_run_is_refused_before_a_folder_is_made(changes, message, tmp_path):
    given = {"experiment": experiment(), "profile": "quick", "seed": 0, **changes}
    with pytest.raises(ValueError, match=message):
        run(**given, results=tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_every_strength_of_a_family_is_a_cell():
    assert sorted({c.strength for c in cells(experiment(), "quick")}) == [1, 2, 4, 8, math.inf]


def test_without_axes_the_base_is_the_only_point():
    assert {(c.n, c.axes) for c in cells(experiment(axes=()), "quick")} == {(1000, ())}


def test_the_ratio_of_epsilon_to_mu_is_kept_along_an_axis():
    tied = experiment(delta=None, epsilon_over_mu=5.0)
    for epsilon in (0.125, 0.5, 2.0):
        budget = tied.budget(epsilon)
        assert budget.relation is Relation.REPLACE_ONE
        mu = gaussian_mu(budget.epsilon, budget.delta)
        assert math.isclose(epsilon / mu, 5.0, rel_tol=1e-6)


def test_real_data_fix_the_dimension_and_limit_the_size():
    real = experiment(
        families=("breast_cancer_logistic", "digits_logistic"),
        base=Setting(epsilon=1.0),
        axes=(Axis("n", (500, 1000)), Axis("epsilon", (0.5, 1.0))),
    )
    assert {(c.family, c.n, c.dim) for c in cells(real, "quick")} == {
        ("breast_cancer_logistic", 500, 30),
        ("breast_cancer_logistic", 569, 30),
        ("digits_logistic", 500, 64),
        ("digits_logistic", 1000, 64),
        ("digits_logistic", 1797, 64),
    }


def test_where_nothing_is_left_to_run_the_experiment_is_refused(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    absent = experiment(families=(), if_present=("a9a_logistic",), base=Setting(epsilon=1.0))
    beyond = experiment(
        families=("digits_logistic",), base=Setting(epsilon=1.0), axes=(Axis("n", (2000, 4000)),)
    )
    for given, why in (
        (absent, f"nothing to run: a9a_logistic is left out: a9a needs .* {VARIABLE}"),
        (beyond, "n = 2000, 4000 is left out of digits_logistic, which has 1797 records"),
    ):
        with pytest.raises(ValueError, match=why):
            run(given, profile="quick", seed=0, results=tmp_path / "results")
    assert not list((tmp_path / "results").rglob("*.parquet"))


@pytest.mark.parametrize(
    ("base", "family", "message"),
    [
        (Setting(epsilon=1.0, dim=2), "linear", "base.n must be given for linear, got None"),
        (Setting(epsilon=1.0, n=2), "linear", "base.dim must be given for linear, got None"),
        (Setting(epsilon=1.0, dim=9), "digits_logistic", "dim must be 64 for digits_logistic"),
        (Setting(epsilon=1.0, n=9999), "digits_logistic", "n must be at most 1797 for digits"),
    ],
)
def test_sizes_that_a_family_lacks_are_refused(base, family, message):
    with pytest.raises(ValueError, match=message):
        cells(experiment(base=base, families=(family,), axes=()), "quick")


def test_absent_data_fail_unless_declared_optional(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    a9a = ("a9a_logistic",)
    with pytest.raises(FileNotFoundError, match=VARIABLE):
        cells(experiment(families=a9a, base=Setting(epsilon=1.0)), "quick")
    optional = experiment(if_present=a9a)
    assert {c.family for c in cells(optional, "quick")} == {"linear"}
    monkeypatch.setenv(VARIABLE, str(tmp_path / "misspelt"))
    with pytest.raises(FileNotFoundError, match=f"{VARIABLE} must name a folder"):
        cells(optional, "quick")


SOURCE = f"""
from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(**{DECLARED},
    base=Setting(n=1000, dim=4, epsilon=1.0))
"""
TWO = SOURCE.replace("experiment = Experiment(**{", 'one = Experiment(name="one", **{').replace(
    "'name': 'demo', ", ""
)
TWO += """
from dataclasses import replace

other = replace(
    one, name='other',
    relation="zero_out",
)
"""


def test_an_experiment_file_is_found_and_loaded(tmp_path):
    path = tmp_path / "demo.py"
    path.write_text(SOURCE)
    (tmp_path / "_shared.py").write_text("")
    (tmp_path / "family").mkdir()
    two = tmp_path / "family" / "two.py"
    two.write_text(TWO)
    assert discover(tmp_path) == (path, two)
    assert [each.title for each in load(path)] == ["A demonstration"]
    assert [(each.name, each.relation) for each in load(two)] == [
        ("one", "replace_one"),
        ("other", "zero_out"),
    ]
    assert Declarations(tmp_path).paths == {"demo": path, "one": two, "other": two}
    assert discover(tmp_path / "absent") == ()


def test_experiments_of_one_file_are_chosen_by_name(tmp_path):
    (tmp_path / "demo.py").write_text(SOURCE)
    (tmp_path / "two.py").write_text(TWO)
    for names, expected in (
        ((), ["demo", "one", "other"]),
        (("other", "demo"), ["other", "demo"]),
        ((f"{tmp_path}/two.py",), ["one", "other"]),
    ):
        chosen, left_out = choose(names, tmp_path, "full")
        assert [each.name for each in chosen] == expected
        assert not left_out
    with pytest.raises(FileNotFoundError, match=r"experiment two; .*there are: demo, one, other"):
        choose(("two",), tmp_path, "full")


def test_a_study_that_lacks_its_data_is_left_out_or_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    source = """from privopt.lab import Analysis
found = Analysis(name="{0}", title="", description="", parts={{"p": None}}, needs=("{0}",))
"""
    for name in ("mnist", "digits"):
        (tmp_path / f"{name}.py").write_text(source.format(name))
    chosen, left_out = choose((), tmp_path, "full")
    assert [each.name for each in chosen] == ["digits"]
    ((why, names),) = left_out.items()
    assert why.startswith(f"mnist needs the environment variable {VARIABLE}")
    assert names == ["mnist"]
    with pytest.raises(ValueError, match="mnist has nothing to run: mnist needs"):
        choose(("mnist",), tmp_path, "full")
    (tmp_path / "mnist.py").write_text(source.format("emnist"))
    with pytest.raises(ValueError, match=r"needs must be one of .*, got 'emnist'"):
        choose((), tmp_path, "full")


@pytest.mark.parametrize(
    ("name", "source", "message"),
    [
        ("demo", "x = 1\ny = x +", "demo.py, line 2: SyntaxError"),
        ("demo", "x = 1\n\nraise KeyError('k')", "demo.py, line 3: KeyError: 'k'"),
        ("demo", SOURCE.replace("0.000001", "2.0").replace("1e-06", "2.0"), "line 4: .*delta must"),
        ("demo", "experiment = 3", "must declare an Experiment(...) or Analysis(...), got none"),
    ],
)
def test_a_bad_experiment_file_is_refused_with_its_place(tmp_path, name, source, message):
    path = tmp_path / f"{name}.py"
    path.write_text(source)
    with pytest.raises(ValueError, match=message.replace("(...)", re.escape("(...)"))):
        load(path)


def test_a_missing_experiment_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.py: no such experiment"):
        load(tmp_path / "absent.py")
