"""Tests of optimisers as arguments of methods: recorded by name and numbers, and compared."""

import json
import subprocess
import sys

import builders
import jax
import optax
import pytest

import privopt
from privopt.convex import StepSizes, Update
from privopt.lab import Experiment, Method, load, read, run
from privopt.lab.runner.method import text
from privopt.lab.runner.run import _cell_tasks as tasks_of

COMMON = {"steps": 4}


def mine(learning_rate, b1):
    return optax.adam(learning_rate, b1=b1)


ANEW = {  # made anew by every call
    "adam(0.1)": lambda: optax.adam(0.1),
    "adam(0.2)": lambda: optax.adam(0.2),
    "a schedule": lambda: optax.adam(optax.cosine_decay_schedule(0.1, 10)),
    "another": lambda: optax.adam(optax.cosine_decay_schedule(0.1, 11)),
    "a rule": lambda: optax.adam(lambda count: 0.1 / (1 + count)),
    "clipped": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1)),
    "clipped at 2": lambda: optax.chain(optax.clip_by_global_norm(2.0), optax.sgd(0.1)),
    "injected": lambda: optax.inject_hyperparams(optax.adam)(learning_rate=0.3),
    "every second": lambda: optax.MultiSteps(optax.sgd(0.1), 2).gradient_transformation(),
    "every third": lambda: optax.MultiSteps(optax.sgd(0.1), 3).gradient_transformation(),
    "matrices": lambda: optax.contrib.muon(0.1),
    "other matrices": lambda: optax.contrib.muon(0.1, beta=0.5),
    "unsigned": lambda: optax.trace(0.9),
    "a factory": lambda: Update.of(lambda learning_rate: optax.sgd(learning_rate)),
    "my factory": lambda: Update.of(mine, b1=0.5),
    "my other factory": lambda: Update.of(mine, b1=0.25),
}


def told(make):
    return text(Method("one", "dp_gd", {"update": make()}).choices["update"])


def test_what_a_name_does_not_tell_a_digest_does():
    texts = {name: told(make) for name, make in ANEW.items()}
    assert len(set(texts.values())) == len(texts)
    assert {name: told(ANEW[name]) for name in [*ANEW][::3]}.items() <= texts.items()
    assert texts["adam(0.1)"].startswith("an optimiser object ")
    assert texts["my factory"].startswith("mine(b1=0.5) ")


@pytest.mark.thorough  # as the digest of a cell does
def test_another_process_tells_the_same():
    code = "\n".join(
        (
            "import optax",
            "from privopt.lab import Method",
            "from privopt.lab.runner.method import text",
            "for made in (optax.adam(0.1), optax.contrib.muon(0.1)):",
            "    print(text(Method('one', 'dp_gd', {'update': made}).choices['update']))",
        )
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == [told(ANEW["adam(0.1)"]), told(ANEW["matrices"])]


@pytest.mark.parametrize(
    ("optimiser", "expected"),
    [
        (optax.adam, "adam()"),
        (Update.of(optax.sgd, momentum=0.9, nesterov=True), "sgd(momentum=0.9, nesterov=True)"),
        (optax.sm3, "sm3()"),
    ],
)
def test_factories_of_optax_are_told_by_name_and_numbers(optimiser, expected):
    assert told(lambda: optimiser) == expected


def test_what_is_no_optimiser_is_refused():
    rule = "update must be a number, a text, step sizes, an optimiser or None, got an object of"
    with pytest.raises(ValueError, match=rule):
        Method("one", "dp_gd", {"update": [optax.adam]})
    with pytest.raises(ValueError, match="update must need only noisy gradients and parameters"):
        Method("one", "dp_gd", {"update": optax.lbfgs()})
    with pytest.raises(ValueError, match="must try two or more distinct values of update"):
        Method("one", "dp_gd", search={"update": (optax.adam, Update.of(optax.adam))})


def declared(**methods):
    return builders.experiment(
        algorithms={label: ("dp_gd", {**COMMON, **choices}) for label, choices in methods.items()},
        families=("squared_distance",),
        replicates={"quick": 2, "full": 2},
    )


METHODS = {
    "adam": {"update": Update.of(optax.adam, b1=0.8), "step_size": 0.1},
    "adagrad": {"update": optax.adagrad, "step_size": StepSizes.linear_decay(0.1)},
    "momentum": {"update": Update.of(optax.sgd, momentum=0.9)},
    "made": {"update": optax.adam(0.1)},
}


def finished(experiment: Experiment, results):
    return run(experiment, profile="quick", seed=0, results=results, progress=lambda event: None)


@pytest.mark.thorough  # an edited optimiser is tested below
def test_methods_that_differ_in_their_optimiser_are_swept_and_resumed(tmp_path):
    first = finished(declared(**METHODS), tmp_path)
    rows = read(first.folder).cells.to_pylist()
    assert (first.refused, first.reused) == (0, 0)
    choices = {row["method"]: json.loads(row["choices"]) for row in rows}
    assert choices["adam"] == {"steps": 4, "step_size": 0.1, "update": "adam(b1=0.8)"}
    assert choices["momentum"]["update"] == "sgd(momentum=0.9)"
    assert choices["made"]["update"] == told(lambda: optax.adam(0.1))
    assert "update" in read(first.folder).frame()
    again = finished(declared(**{**METHODS, "made": {"update": optax.adam(0.1)}}), tmp_path)
    assert again.reused == again.cells == first.cells
    other = finished(declared(**{**METHODS, "made": {"update": optax.adam(0.2)}}), tmp_path)
    assert other.reused == other.cells - other.cells // len(METHODS)


def test_a_made_optimiser_with_step_sizes_is_a_row_with_the_reason(tmp_path):
    both = {"update": optax.adam(0.1), "step_size": 0.1}
    result = finished(declared(both=both, plain={}), tmp_path)
    rows = read(result.folder).cells.to_pylist()
    (reason,) = {row["refused"] for row in rows} - {None}
    assert reason.startswith("step_size must be left out with update")


OWN = """
import optax
from privopt.convex import Update
from privopt.lab import Experiment, Setting

def mine(learning_rate):
    return optax.chain(optax.scale(1.5), optax.sgd(learning_rate))

experiment = Experiment(
    name="mine", title="", description="",
    algorithms={
        "mine": ("dp_gd", {"steps": 3, "step_size": 0.1, "update": mine}),
        "plain": ("dp_gd", {"steps": 3, "step_size": 0.1}),
    },
    families=("squared_distance",), base=Setting(n=1000, dim=4, epsilon=1.0),
    replicates={"quick": 2, "full": 2}, relation="replace_one", delta=1e-6,
)
"""


def test_an_edited_optimiser_changes_the_keys_of_its_cells_and_no_others(tmp_path):
    """Cells with another key are run again, see test_cache_key.py."""
    path = tmp_path / "mine.py"

    def keys(source):
        path.write_text(source)
        tasks = tasks_of(*load(path), "quick", 0, lambda event: None)
        return {task.label: task.key for task in tasks}

    first = keys(OWN)
    assert keys(OWN.replace("rate):", "rate):  # a remark")) == first
    edited = keys(OWN.replace("1.5", "0.5"))
    changed = {label for label in first if edited[label] != first[label]}
    assert changed == {label for label in first if label.startswith("mine on ")} != set()


@pytest.mark.thorough  # as step sizes, in test_search.py
def test_optimisers_may_be_searched_for(tmp_path):
    best = Method("best", "dp_gd", {**COMMON, "step_size": 0.1}, search={
        "update": (optax.sgd, Update.of(optax.adam, b1=0.5))
    })  # fmt: skip
    experiment = builders.experiment(
        algorithms=(best,), families=("squared_distance",), replicates={"quick": 2, "full": 2}
    )
    rows = read(finished(experiment, tmp_path).folder).cells.to_pylist()
    chosen = {json.loads(row["searched"])["chosen"]["update"] for row in rows}
    assert chosen <= {"sgd()", "adam(b1=0.5)"}


@pytest.mark.thorough  # as any methods are
def test_optimisers_are_compared():
    methods = [Method(label, "dp_gd", {**COMMON, **each}) for label, each in METHODS.items()]
    compared = privopt.compare(
        "logistic", methods, n=50, dim=2, replicates=4, data_sets=2, key=jax.random.key(0),
        budget=privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one"),
        progress=lambda event: None, tune="oracle",
    )  # fmt: skip
    assert compared.refused == {}
    searched = set(compared.points.query("tuned")["method"])
    assert searched == {"momentum_best"}  # the only one whose step size is left open
