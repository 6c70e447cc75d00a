"""Command line: messages, numbers and exit status."""

import itertools
import math
import os
import re
import subprocess
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from scipy.stats import norm
from typer.testing import CliRunner

from privopt import lab, programs
from privopt.accounting import ACCOUNTANTS, ESTIMATORS
from privopt.cli import accounting, console, device
from privopt.cli.commands import app
from privopt.privacy import Fourier, Interval, Sampler
from privopt.problems.datasets import VARIABLE
from privopt.shipped import shipped
from privopt.spec import Relation

EXPERIMENT = """
from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="{name}",
    title="A [small] demonstration",
    description="Nothing in particular.",
    algorithms={{"dp_gd": {{"steps": 5}}}},
    families=("squared_distance",),
    base=Setting(n=1000, dim=4, epsilon=1.0),
    axes=(Axis("n", (500, 1000)),),
    replicates={{"quick": 3, "full": 5}},
    relation="replace_one",
    delta={delta},
    checks=("bound",),
)
"""
CELLS = 2


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a working folder with one experiment."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "demo.py").write_text(EXPERIMENT.format(name="demo", delta=1e-6))
    return tmp_path


@pytest.fixture
def judged(monkeypatch):
    """Replace the verdicts and the report, and return the list of outcomes."""
    outcomes = ["holds", "holds"]

    def verdicts(recorded, experiments):
        facts = {
            "experiment": "demo",
            "method": "dp_gd",
            "family": "squared_distance",
            "check": "slope",
        }
        facts |= {"axis": "n", "estimate": -1.01, "lower": -1.1, "upper": -0.9, "target": -1.0}
        facts |= {"margin": 0.05}
        return [lab.Verdict(outcome=each, detail="[why]", **facts) for each in outcomes]

    monkeypatch.setattr(lab, "verdicts", verdicts, raising=False)
    monkeypatch.setattr(lab, "write_report", lambda path, **_: path / "index.html", raising=False)
    return outcomes


def privopt(*arguments, code=0):
    """Run ``privopt <arguments>``, check its exit status and return its output."""
    result = CliRunner().invoke(app, [str(each) for each in arguments])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((), "Example: privopt run --profile quick"),
        (("list",), "Example: privopt list"),
        (("new",), "privopt new mine --algorithm dp_sgd --family sphere_logistic"),
        (
            ("run",),
            "Exit status: 4 if a quick table differs from the committed one, 3 if",
        ),
        (("run",), "Default: build/results for the quick profile, results for the full one."),
        (("report",), "Example: privopt report --results results"),
        (("compare",), "Examples: privopt compare logistic --axis epsilon --n 2000 --dim 20"),
        (("epsilon",), "privopt epsilon --noise 1.1 --rate 256/60000 --steps 14062 --delta 1e-5"),
        (("noise",), "Example: privopt noise --epsilon 2 --delta 1e-5"),
    ],
)
def test_help_helps(command, words):
    assert words in re.sub(r"[\s│]+", " ", privopt(*command, "--help"))


def test_the_version_is_told():
    assert privopt("--version") == f"privopt {version('privopt')}\n"


def delta_of(mu, epsilon):
    """Return delta of a ``mu``-GDP release by Balle and Wang (2018, Theorem 8)."""
    tail = np.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2.0))
    return norm.cdf(mu / 2.0 - epsilon / mu) - tail


def cells(printed, accountant):
    """Return the cells of the line of an accountant, without its name."""
    (row,) = (line for line in printed.splitlines() if line.startswith(f"│ {accountant} "))
    return [cell.strip() for cell in row.split("│")[2:-1]]


@pytest.mark.parametrize(("relation", "moves"), [("zero_out", 1), ("replace_one", 2)])
def test_epsilon_is_the_accountants_rounded_outwards(relation, moves):
    arguments = ("--noise", 2, "--steps", 16, "--delta", 1e-6, "--relation", relation)
    printed = privopt("epsilon", *arguments)
    guarantee, *bounds = cells(printed, "Gaussian DP")
    lower, upper = map(float, bounds)
    mu = moves * 4.0 / 2.0
    assert delta_of(mu, lower) > 1e-6 > delta_of(mu, upper)
    assert upper - lower < 1e-6
    assert guarantee == "yes"
    assert f"{relation}: epsilon at delta = 1e-06" in printed
    assert f"Certified at delta = 1e-06: {bounds[0]} <= epsilon <= {bounds[1]}" in printed


MNIST = ["--noise", "1.1", "--rate", "256/60000", "--steps", "14062", "--delta", "1e-5"]


def test_every_accountant_answers_or_is_named_as_silent():
    printed = privopt("epsilon", *MNIST, "--relation", "add_or_remove_one")
    silent = printed.split("Without an answer: ")[1]
    for each in (*ACCOUNTANTS, *ESTIMATORS):
        if each.name != "non-private":
            assert (f"│ {each.name} " in printed) != (each.name in silent)
    assert "1.1, 14062 steps on Poisson samples of rate 256/60000" in printed


def test_guarantees_come_first_the_tightest_on_top_then_estimates():
    printed = privopt("epsilon", *MNIST, "--relation", "add_or_remove_one")
    rows = [line.split("│")[1:-1] for line in printed.splitlines() if line.startswith("│")]
    rows = [[cell.strip() for cell in row] for row in rows]
    proved = [float(upper) for _, kind, _, upper, _ in rows if kind == "yes"]
    assert proved == sorted(proved)
    assert [kind for _, kind, *_ in rows] == ["yes"] * len(proved) + ["no: estimate"]
    assert rows[0][0] == "Fourier"
    assert 2.380 < float(rows[0][2]) < 2.38143 < 2.38160 < float(rows[0][3]) < 2.384


def test_an_estimate_below_the_certified_lower_bound_is_marked():
    printed = privopt("epsilon", *MNIST, "--relation", "add_or_remove_one")
    assert cells(printed, "CLT") == ["no: estimate", "", "about 2.324", "under-reports"]
    # Without sampling the estimate is exact but for rounding, and nothing is marked.
    plain = privopt("epsilon", "--noise", 1.1, "--steps", 60, "--delta", 1e-5)
    assert "under-reports" not in plain


def test_without_a_relation_there_is_a_section_for_each():
    printed = privopt("epsilon", *MNIST)
    starts = [printed.index(f"{relation.value}: epsilon at") for relation in Relation]
    assert starts == sorted(starts)
    replaced, added, _ = (printed[a:b] for a, b in itertools.pairwise([*starts, None]))
    assert float(cells(replaced, "Fourier")[1]) > 1.5 * float(cells(added, "Fourier")[2])


def test_the_accuracy_is_that_of_the_fourier_accountant():
    arguments = ("epsilon", *MNIST, "--relation", "zero_out", "--accuracy")
    for accuracy in (1e-2, 1e-4):
        lower, upper = map(float, cells(privopt(*arguments, accuracy), "Fourier")[1:3])
        assert 0.05 * accuracy < upper / lower - 1.0 < 2.0 * accuracy


def test_no_steps_and_no_record_in_a_batch_cost_nothing():
    for arguments in (("--steps", 0), ("--steps", 9, "--rate", 0), ("--steps", 0, "--rate", 0.5)):
        for sampler in ("poisson", "shuffled") if "--rate" in arguments else ("poisson",):
            printed = privopt(
                "epsilon", "--noise", 1, "--delta", 1e-6, *arguments, "--sampler", sampler
            )
            assert printed.count("epsilon <= 0\n") == 3


def test_samplers_are_those_of_the_theorems():
    assert {each.value for each in accounting.Sampler} == {each.value for each in Sampler}


def test_batches_of_fixed_size_are_amplified_where_a_record_is_replaced():
    arguments = ("--noise", 4, "--rate", "100/5000", "--steps", 500, "--delta", 1e-6)
    printed = privopt("epsilon", *arguments, "--sampler", "without_replacement")
    starts = [printed.index(f"{relation.value}: epsilon at") for relation in Relation]
    replaced, added, zeroed = (printed[a:b] for a, b in itertools.pairwise([*starts, None]))
    event = SelfComposedDpEvent(
        SampledWithoutReplacementDpEvent(5000, 100, GaussianDpEvent(4.0)), 500
    )
    proved = Fourier().epsilon(event, Relation.REPLACE_ONE, 1e-6)
    lower, upper = map(float, cells(replaced, "Fourier")[1:3])
    assert lower == pytest.approx(proved.lower, rel=1e-8)
    assert upper == pytest.approx(proved.upper, rel=1e-8)
    for section, moves, words in (
        (added, 2, "removes another one"),
        (zeroed, 1, "no theorem amplifies without_replacement sampling under zero_out"),
    ):
        assert "No amplification claimed: " in section
        assert words in section
        (upper,) = map(float, cells(section, "Gaussian DP")[1:])
        mu = moves * math.sqrt(500) / 4.0
        assert delta_of(mu, upper) < 1e-6 < delta_of(mu, upper - 1e-5)


@pytest.mark.parametrize(
    ("relation", "square"), [("replace_one", 4.0), ("zero_out", 1.0), ("add_or_remove_one", 5.0)]
)
def test_shuffled_batches_are_not_amplified(relation, square):
    """Test 14062 batches, which begin 61 epochs of 234 complete ones."""
    printed = privopt("epsilon", *MNIST, "--sampler", "shuffled", "--relation", relation)
    assert "No amplification claimed: no theorem amplifies shuffled batches" in printed
    assert "61 epochs of 234 batches" in printed
    (upper,) = map(float, cells(printed, "Gaussian DP")[1:])
    mu = math.sqrt(61 * square) / 1.1
    assert delta_of(mu, upper) < 1e-5 < delta_of(mu, upper - 1e-4)
    assert f"Certified at delta = 1e-05: epsilon <= {upper:.9g}\n" in printed
    assert "CLT" not in printed


@pytest.mark.parametrize(
    ("count", "rate", "epochs"),
    [("100", "1/10", 10), ("101", "1/10", 11), ("7", "1", 7), ("7", "0.6", 7), ("9", "0.3", 3)],
)
def test_epochs_of_disjoint_batches(count, rate, epochs):
    each = accounting.Steps.parse(count, rate, accounting.Sampler.SHUFFLED)
    event, reason = each.event(1.0, Relation.ZERO_OUT)
    assert event == SelfComposedDpEvent(GaussianDpEvent(1.0), epochs)
    assert f"{epochs} epoch" in reason


def test_delta_may_be_asked_as_well():
    arguments = ("--noise", 2, "--delta", 1e-6, "--epsilon", 1, "--relation", "zero_out")
    printed = privopt("epsilon", *arguments)
    assert "zero_out: epsilon at delta = 1e-06" in printed
    assert "zero_out: delta at epsilon = 1" in printed
    lower, upper = map(float, cells(printed.split("delta at epsilon")[1], "Gaussian DP")[1:3])
    assert lower <= delta_of(0.5, 1.0) <= upper


def test_a_fraction_is_a_number():
    told = [
        privopt("epsilon", "--noise", 2, "--delta", delta, "--relation", "zero_out")
        for delta in ("1/50000", "2e-5")
    ]
    assert told[0] == told[1]


def test_where_nothing_is_proved_the_reason_is_printed():
    run = ("--noise", 1, "--rate", 0.1, "--steps", 10**400, "--relation", "zero_out")
    printed = privopt("epsilon", *run, "--delta", 1e-6)
    assert re.search(r"Nothing is proved: \w+", printed)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--relation zero_out --delta 1e-6", "--noise"),
        ("--noise 2 --relation swap --delta 1e-6", "'swap'"),
        ("--noise 2", "one of --delta and --epsilon must be given, got neither"),
        ("--noise 0 --delta 0.1", "noise must be positive and finite, got 0"),
        ("--noise -1 --delta 0.1", "noise must be positive and finite, got -1"),
        ("--noise nan --delta 0.1", "noise must be positive and finite, got nan"),
        ("--noise much --delta 0.1", "noise must be a number, got much"),
        ("--noise 1 --delta 1/0", "delta must be a number, got 1/0"),
        ("--noise 1 --delta 1", "delta must lie in [0, 1), got 1"),
        ("--noise 1 --delta -1e-9", "delta must lie in [0, 1), got -1e-9"),
        ("--noise 1 --delta 1e-301", "delta must be 0 or at least 1e-300"),
        ("--noise 1 --delta 1e-999", "delta must be 0 or at least 1e-300"),
        ("--noise 1 --epsilon -1", "epsilon must be non-negative and finite, got -1"),
        ("--noise 1 --delta 0.1 --steps -1", "steps must be a non-negative integer, got -1"),
        ("--noise 1 --delta 0.1 --steps 1.5", "steps must be a non-negative integer, got 1.5"),
        ("--noise 1 --delta 0.1 --steps many", "steps must be a non-negative integer, got many"),
        ("--noise 1 --delta 0.1 --rate 3/2", "rate must lie in [0, 1], got 3/2"),
        ("--noise 1 --delta 0.1 --rate -0.1", "rate must lie in [0, 1], got -0.1"),
        ("--noise 1 --delta 0.1 --rate 1/0", "rate must be a fraction a/b or a decimal number"),
        ("--noise 1 --delta 0.1 --rate nan", "rate must be a fraction a/b or a decimal number"),
        ("--noise 1 --delta 0.1 --sampler shuffled", "rate must be given for shuffled batches"),
        (
            "--noise 1 --delta 0.1 --rate 0.1 --sampler without_replacement",
            "rate must be batch size/data size for without_replacement, got 0.1",
        ),
        ("--noise 1 --delta 0.1 --accuracy 0.5", "accuracy must lie in [1e-9, 0.1], got 0.5"),
    ],
)
def test_a_bad_question_is_refused(arguments, words):
    printed = privopt("epsilon", *arguments.split(), code=2)
    assert words in re.sub(r"[\s│]+", " ", printed)
    assert "Traceback" not in printed
    if "privopt: " in printed:
        assert printed.count("\n") == 1


def test_proofs_that_contradict_each_other_are_no_fault_of_the_user(monkeypatch):
    monkeypatch.setattr(Fourier, "epsilon", lambda *_: Interval(99.0, 100.0))
    arguments = ["epsilon", "--noise", "1", "--delta", "1e-6", "--relation", "zero_out"]
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, ArithmeticError)
    assert "proofs contradict each other" in str(result.exception)


BUDGET = ["noise", "--epsilon", "2", "--delta", "1e-5", "--rate", "0.01", "--steps", "1000"]


def test_noise_is_the_smallest_that_is_certified_as_printed():
    lines = privopt(*BUDGET, "--relation", "add_or_remove_one").splitlines()
    (row,) = (line for line in lines if "add_or_remove_one" in line)
    z, lower, upper = map(float, row.split("│")[2:5])
    assert 0.95910 <= z <= 0.95910 + 2e-4
    assert 2.0 * (1.0 - 4e-4) <= lower <= upper <= 2.0
    event = SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(z)), 1000)
    accountant = Fourier(1e-5, two_sided=False)
    assert accountant.epsilon(event, Relation.ADD_OR_REMOVE_ONE, 1e-5).upper <= 2.0


def test_noise_without_a_relation_is_said_for_each():
    printed = privopt(*BUDGET, "--sampler", "shuffled")
    rows = [line.split("│") for line in printed.splitlines() if line.startswith("│")]
    noises = {cells[1].strip(): float(cells[2]) for cells in rows}
    assert list(noises) == [relation.value for relation in Relation]
    assert noises["replace_one"] == pytest.approx(2.0 * noises["zero_out"], rel=1e-3)
    assert all(float(cells[4]) <= 2.0 and not cells[3].strip() for cells in rows)
    assert printed.count("no amplification claimed") == 3


def test_no_noise_where_none_is_needed():
    printed = privopt(*BUDGET, "--steps", 0, "--relation", "zero_out")
    assert [float(cell) for cell in cells(printed, "zero_out")] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--epsilon 0 --delta 1e-5", "epsilon must be positive and finite, got 0.0"),
        ("--epsilon 1 --delta 2", "delta must lie in [0, 1), got 2"),
        ("--epsilon 1 --delta 0", "delta must be positive: no Gaussian noise is private"),
        ("--epsilon 1 --delta 1e-5 --rate 2", "rate must lie in [0, 1], got 2"),
        ("--epsilon 1 --delta 1e-5 --tolerance 1", "tolerance must lie in [1e-9, 0.1], got 1.0"),
    ],
)
def test_a_bad_budget_is_refused(arguments, words):
    printed = privopt("noise", *arguments.split(), code=2)
    assert words in printed
    assert printed.count("\n") == 1


@pytest.mark.parametrize(
    ("value", "lower", "upper"),
    [
        (1 / 3, "0.333333333", "0.333333334"),
        (1e-20 / 7, "1.42857142e-21", "1.42857143e-21"),
        (2.0, "2", "2"),
        (float("inf"), "inf", "inf"),
    ],
)
def test_digits_round_outwards(value, lower, upper):
    assert console.digits(value, ROUND_FLOOR) == lower
    assert console.digits(value, ROUND_CEILING) == upper


def test_accounting_loads_nothing_that_it_does_not_need():
    code = """
import sys
from privopt.cli.commands import app
for arguments in (
    "epsilon --noise 1.1 --rate 0.01 --steps 100 --delta 1e-6 --relation zero_out",
    "noise --epsilon 1 --delta 1e-6 --relation zero_out",
):
    app(arguments.split(), standalone_mode=False)
heavy = ("jax", "matplotlib", "pyarrow", "pandas", "privopt.lab")
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_list_shows_what_there_is_and_what_is_missing(folder, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    (folder / "experiments" / "broken.py").write_text("x = ")
    printed = re.sub(r"\s+", " ", privopt("list"))
    for words in (
        "dp_gd",
        "squared_distance",
        "A [small] demonstration",
        "broken.py, line 1: SyntaxError",
    ):
        assert words in printed
    assert f"a9a needs the environment variable {VARIABLE}" in printed
    monkeypatch.chdir(folder / "experiments")
    monkeypatch.setattr("privopt.lab.runner.catalogue.shipped", lambda name: folder / "none")
    assert "No experiments in experiments/" in privopt("list")
    monkeypatch.setattr("privopt.lab.runner.catalogue.shipped", lambda name: folder / name)
    assert "A [small] demonstration" in privopt("list")


def test_from_another_folder_the_experiments_are_those_of_the_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ours = shipped("experiments")
    assert (ours / "first_order" / "dp_gd.py").is_file()
    printed = privopt("list")
    assert f"Experiments in {ours}/" in re.sub(r"\s+", " ", printed)
    assert "│ dp_gd " in printed
    assert "no experiment dmeo; in" in privopt("run", "dmeo", code=2)


def test_a_new_experiment_is_one_and_none_is_written_over(folder):
    made = folder / "experiments" / "mine.py"
    assert "privopt run mine" in privopt("new", "mine", "--algorithm", "dp_sgd")
    (mine,) = lab.load(made)
    assert (mine.name, mine.family_names) == ("mine", ("linear",))
    made.write_text("")
    for name, told in (("mine", "exists"), ("my-own", "NAME must be a Python name")):
        assert told in privopt("new", name, code=2)
    assert "algorithm must be one of" in privopt("new", "other", "--algorithm", "dp_sdg", code=2)
    assert made.read_text() == ""


def test_run_ends_with_verdicts_report_and_status(folder, judged):
    printed = privopt("run")
    assert f"demo: {CELLS}/{CELLS} cells" in printed
    assert f"{CELLS} cells, 0 of them from other runs" in printed
    assert (
        "demo: dp_gd on squared_distance, slope in n: -1.01 [-1.1, -0.9], theorem -1: holds"
        in printed
    )
    assert "2 of 2 exponents hold." in printed
    assert printed.rstrip().endswith("Report: build/results/index.html")
    assert (folder / "build" / "results" / "demo" / "cells.parquet").exists()
    assert not (folder / "results").exists()
    judged[0] = "refuted"
    again = privopt("run", folder / "experiments" / "demo.py", "--no-report", code=3)
    assert f"{CELLS} cells, {CELLS} of them from other runs" in again
    assert "Report" not in again
    judged[0] = "undecided"
    undecided = privopt("run", "demo", code=0)
    assert "[why]" in undecided
    assert "1 of 2 exponents hold, 1 undecided." in undecided
    assert "equal the committed" not in undecided  # where nothing is committed


def test_of_several_experiments_only_what_does_not_hold_is_listed(folder, judged):
    source = EXPERIMENT.format(name="again", delta=1e-6)
    (folder / "experiments" / "again.py").write_text(source)
    judged[0] = "undecided"
    printed = privopt("run")
    for words in ("experiment 1 of 2, again: 2 cells", "experiment 2 of 2, demo: 2/2 cells"):
        assert words in printed
    assert printed.count("slope in n") == printed.count("undecided ([why])") == 2
    assert "2 of 4 exponents hold, 2 undecided." in printed


def test_a_defect_of_one_experiment_is_raised_after_the_others(folder, judged, monkeypatch):
    source = EXPERIMENT.format(name="again", delta=1e-6)
    (folder / "experiments" / "again.py").write_text(source)
    run = lab.run

    def crash_once(experiment, **options):
        if experiment.name == "again":
            raise AttributeError("a defect")
        return run(experiment, **options)

    monkeypatch.setattr(lab, "run", crash_once)
    result = CliRunner().invoke(app, ["run"])
    assert (result.exit_code, str(result.exception)) == (1, "a defect")
    assert "again has failed: AttributeError: a defect" in result.output
    assert "2 of 2 exponents hold" in result.output  # of the second experiment, demo
    assert (folder / "build" / "results" / "demo" / "cells.parquet").is_file()


def git(folder, *arguments):
    who = ("-c", "user.name=n", "-c", "user.email=e")
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def last_line(printed):
    return printed.splitlines()[-1]


def test_a_quick_run_compares_with_small_tables_and_leaves_the_work_tree_clean(folder, judged):
    git(folder, "init")
    (folder / ".gitignore").write_text("build/\n")
    privopt("run", "--profile", "full")  # what a quick run must not touch
    recorded = privopt("run", "--record")
    equal = "1 of 1 experiments equal the committed tables"
    assert recorded.splitlines()[-2:] == ["Report: build/results/index.html", equal]
    assert [path.name for path in (folder / "results" / "quick").iterdir()] == ["demo.parquet"]
    git(folder, "add", ".")
    git(folder, "commit", "-m", "Results")
    assert last_line(privopt("run")) == equal
    assert git(folder, "status", "--short") == ""
    other = privopt("run", "--seed", 1)  # nothing of this seed is committed
    assert last_line(other) == "Report: build/results/index.html"
    (folder / "experiments" / "more.py").write_text(EXPERIMENT.format(name="more", delta=1e-6))
    told = "1 of 2 experiments equal the committed tables; not compared: more"
    assert last_line(privopt("run")) == told
    changed = EXPERIMENT.format(name="demo", delta=1e-5)
    (folder / "experiments" / "demo.py").write_text(changed)
    differs = privopt("run", "demo", code=4)
    assert "demo: delta differs in 2 of 2 rows, first of method=dp_gd, family=squared_" in differs
    assert last_line(differs) == "0 of 1 experiments equal the committed tables; different: demo"
    assert "quick profile, got full" in privopt("run", "--profile", "full", "--record", code=2)


def test_a_quick_run_never_replaces_a_full_table(folder, judged):
    privopt("run", "--profile", "full")
    before = (folder / "results" / "demo" / "runs.parquet").read_bytes()
    (folder / "experiments" / "more.py").write_text(EXPERIMENT.format(name="more", delta=1e-6))
    printed = privopt("run", "--results", "results")
    assert "demo was not run: results/demo holds the table of the full profile" in printed
    assert "more: 2/2 cells" in printed  # the run goes on
    assert (folder / "results" / "demo" / "runs.parquet").read_bytes() == before
    named = privopt("run", "demo", "--results", "results", code=2)
    assert "experiments must not lose recorded tables, got demo" in named


def test_profile_seed_and_results_are_used(folder, judged):
    privopt("run", "--profile", "full", "--seed", 5, "--results", "elsewhere")
    table = lab.read(folder / "elsewhere" / "demo").table()
    assert table.num_rows == CELLS * 5
    assert set(table["root_seed"].to_pylist()) == {5}
    assert not (folder / "results").exists()
    assert not (folder / "build").exists()


def long(folder, name):
    source = EXPERIMENT.format(name=name, delta=1e-6).replace('"quick": 3, ', "")
    (folder / "experiments" / f"{name}.py").write_text(source)


def test_what_is_of_the_full_profile_alone_is_left_out_of_the_quick_one_and_told(folder, judged):
    for name in ("large", "long"):
        long(folder, name)
    printed = privopt("run")
    assert printed.startswith("Left out, of the full profile alone: large, long\n")
    assert [path.name for path in (folder / "build" / "results").glob("*/")] == ["demo"]
    named = privopt("run", "demo", "long", code=2)
    assert "for long, got 'quick': privopt run long --profile full" in named
    full = privopt("run", "long", "--profile", "full")
    assert f"{CELLS} cells, 0 of them from other runs" in full
    assert "left out" not in full


def test_what_lacks_its_data_is_left_out_and_told_or_refused_by_name(folder, judged, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    source = EXPERIMENT.format(name="census", delta=1e-6)
    source = source.replace('("squared_distance",)', "()").replace(
        "axes=", 'if_present=("a9a_logistic",),axes='
    )
    (folder / "experiments" / "census.py").write_text(source)
    printed = privopt("run")
    assert f"Left out, a9a needs the environment variable {VARIABLE}" in printed
    assert [path.name for path in (folder / "build" / "results").glob("*/")] == ["demo"]
    assert "census has nothing to run: a9a needs" in privopt("run", "census", code=2)


def test_verdicts_are_printed_though_the_report_cannot_be_written(folder, judged, monkeypatch):
    def refuse(*_, **__):
        raise lab.ResultsError("the disk is read-only")

    monkeypatch.setattr(lab, "write_report", refuse)
    printed = privopt("run", code=2)
    assert "2 of 2 exponents hold." in printed
    assert "the disk is read-only" in printed


def test_a_crash_is_no_refuted_verdict(folder, judged, monkeypatch):
    def crash(recorded, experiments):
        raise RuntimeError("a defect")

    monkeypatch.setattr(lab, "verdicts", crash)
    result = CliRunner().invoke(app, ["run"])
    assert (result.exit_code, str(result.exception)) == (1, "a defect")


def foreign(folder):
    (folder / "build" / "results").mkdir(parents=True)
    (folder / "build" / "results" / "thesis.tex").write_text("")


def taken(folder):
    (folder / "build").mkdir()
    (folder / "build" / "results").write_text("")


def empty(folder):
    (folder / "experiments" / "demo.py").unlink()


def twice(folder):
    (folder / "demo.py").write_text(EXPERIMENT.format(name="demo", delta=1e-6))


@pytest.mark.parametrize(
    ("spoil", "arguments", "words"),
    [
        (foreign, (), "holds other files and no .privopt. Nothing was touched"),
        (taken, (), "results must be a folder, got the file build/results"),
        (empty, (), "no experiments in experiments/: name a file, or change folder"),
        (None, ("dmeo",), "no experiment dmeo; in experiments/ there are: demo"),
        (None, ("x.py",), "x.py: no such experiment"),
        (twice, ("demo", "demo.py"), "experiments must have distinct names, got demo, demo"),
        (None, ("--profile", "slow"), "'slow'"),
        (None, ("--devices", "0"), "--devices"),
        (None, ("--seed", 2**63), "seed must be an integer from -2^63 to 2^63 - 2, got"),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_status_two(folder, judged, spoil, arguments, words):
    if spoil is not None:
        spoil(folder)
    printed = privopt("run", *arguments, code=2)
    assert words in re.sub(r"[\s│]+", " ", printed)
    assert "Traceback" not in printed


def test_refused_plans_are_told_and_stop_nothing(folder, judged):
    (folder / "experiments" / "demo.py").write_text(EXPERIMENT.format(name="demo", delta=0.0))
    printed = re.sub(r"\s+", " ", privopt("run"))
    reason = "delta must be positive for the Gaussian noise of dp_gd, got 0.0"
    assert f"demo: all {CELLS} plans are refused: {reason}" in printed
    assert f"{CELLS} refused" in printed


def test_traceback_on_demand(folder, judged):
    foreign(folder)
    result = CliRunner().invoke(app, ["--traceback", "run"])
    assert isinstance(result.exception, lab.ResultsError)


def test_report_needs_results(folder, judged):
    assert "is no results folder of privopt" in privopt("report", code=2)
    privopt("run", "--profile", "full")
    assert privopt("report") == "Report: results/index.html\n"


@pytest.mark.parametrize(
    ("flags", "devices", "expected"),
    [
        (None, None, "--xla_force_host_platform_device_count=3"),
        ("--other", None, "--other --xla_force_host_platform_device_count=3"),
        ("--xla_force_host_platform_device_count=7", None, None),
        (
            "--xla_force_host_platform_device_count=7 --other",
            2,
            "--other --xla_force_host_platform_device_count=2",
        ),
    ],
)
def test_host_devices_are_the_cores_unless_the_user_says(monkeypatch, flags, devices, expected):
    monkeypatch.setattr(device, "sys", SimpleNamespace(modules={}))
    monkeypatch.setattr(device, "core_count", lambda: 3)
    if flags is None:
        monkeypatch.delenv("XLA_FLAGS")
    else:
        monkeypatch.setenv("XLA_FLAGS", flags)
    device.prepare(devices, cache=False)
    assert os.environ["XLA_FLAGS"].split() == (expected or flags).split()


def test_cores_are_counted():
    assert 1 <= device.core_count() <= os.cpu_count()


@pytest.mark.parametrize(
    ("told", "cache", "expected"),
    [(None, True, "home/privopt/programs-"), (None, False, None), ("mine", True, "mine")],
)
def test_programs_are_kept_unless_the_user_says(monkeypatch, told, cache, expected):
    monkeypatch.setattr(device, "sys", SimpleNamespace(modules={}))
    found = {"XDG_CACHE_HOME": "home"}
    for module in (device, programs):
        monkeypatch.setattr(module, "os", SimpleNamespace(environ=found))
    monkeypatch.setattr(device, "core_count", lambda: 3)
    found |= {device._CACHE: told} if told else {}
    device.prepare(None, cache)
    folder = found.get(device._CACHE)
    assert folder is None if expected is None else folder.startswith(expected)


def test_a_second_process_compiles_nothing_again(tmp_path):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment |= {
        "XDG_CACHE_HOME": str(tmp_path),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    code = (
        "from privopt.cli.device import prepare; prepare(None, True)\n"
        "import jax; hits = []; jax.monitoring.register_event_listener("
        "lambda event, **_: hits.append(event.endswith('cache_hits')))\n"
        "jax.numpy.ones(3) + 1; print(any(hits))"
    )
    command = [sys.executable, "-c", code]
    ran = [subprocess.run(command, env=environment, capture_output=True, text=True) for _ in "ab"]
    assert [each.stdout.strip() for each in ran] == ["False", "True"], ran[0].stderr
