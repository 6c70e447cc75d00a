"""Content of messages, warnings and texts, for all public functions and parameters.

Every public function is called with a column of sentinels and with keys in the place of every
parameter. No sentinel may appear in a message, a warning or a text, and an error is a
``ValueError`` or a ``TypeError`` that names the parameter. For functions of records, neighbours
that differ in one entry must have the same outcome, because an exception that depends on one record
is a release.
"""

import enum
import importlib
import inspect
import math
import re
import typing
import warnings

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pyarrow as pa
import pytest
import selection
from selection import few

import privopt
from privopt import audit, convex, estimators, mechanisms, privacy, problems, statistics
from privopt.problems import GeneralisedLinear, Logistic

N, DIM = 60, 3
CLASS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25, sparsity=2)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
PURE = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")
KEY = jax.random.key(0)
X = np.eye(DIM, dtype=np.float32)[np.arange(N) % DIM]
Y = np.where(np.arange(N) % 2, 1.0, -1.0).astype(np.float32)
PROBLEM = problems.logistic(X, Y, problem_class=CLASS)
PLAN = privopt.dp_gd(CLASS, BUDGET, steps=3)
STEPPER = privopt.stepper(PLAN, PROBLEM)
MEAN = statistics.BoundedMean.of(0.0, 1.0, N)
GUARANTEE = privacy.Guarantee(dp.GaussianDpEvent(1.0), "replace_one")

# --- sentinels ------------------------------------------------------------------------------------

TEXTS = [f"SENTINEL-{i}" for i in range(N)]
NUMBERS = [918273.0 + i for i in range(N)]
SENTINELS = {
    "list of texts": TEXTS,
    "list of numbers": NUMBERS,
    "tuple": tuple(NUMBERS[:3]),
    "array": np.asarray(NUMBERS),
    "array of integers": np.asarray(NUMBERS).astype(int),
    "array of objects": np.array(TEXTS, object),
    "array of texts": np.array(TEXTS),
    "array on the device": jnp.asarray(NUMBERS),
    "series": pd.Series(NUMBERS),
    "series of texts": pd.Series(TEXTS),
    "nullable series": pd.Series([918273, None] * 30, dtype="Int64"),
    "data frame": pd.DataFrame({"x": TEXTS}),
    "column of arrow": pa.array(TEXTS),
    "table of arrow": pa.table({"x": TEXTS}),
    "dict of columns": {"x": TEXTS},
    "key": jax.random.key(91827364),
    "key of integers": jax.random.PRNGKey(91827364),
}
REVEALED = re.compile(r"SENTINEL|9[ ,_]?1[ ,_]?8[ ,_]?2[ ,_]?7[ ,_]?3")

# --- every public callable, with arguments that it accepts ----------------------------------------

ROOMS = [name for name in privopt.__all__ if inspect.ismodule(getattr(privopt, name, None))]
ROOMS = ["privopt", *ROOMS, "bibliography", "records", "testing", "tuning"]

GIVEN = {  # by the name of a parameter
    "X": X,
    "algorithm": "dp_gd",
    "alpha": 0.3,
    "alphas": [0.1, 0.5],
    "answer": jnp.zeros(()),
    "answers": 2,
    "array": X,
    "attacked": audit.mechanism_pair("laplace_mean", PURE),
    "batch_size": 12,
    "batches": mechanisms.AllRecords(),
    "budget": BUDGET,
    "canaries": 100,
    "categories": ("a", "b"),
    "classes": (-1, 1),
    "clip_norm": 1.0,
    "columns": {"age": estimators.Number(0, 100)},
    "constraint": convex.L2Ball(2.0),
    "data": (X, Y),
    "data_norm": 1.0,
    "delta": 1e-5,
    "dim": DIM,
    "dtype": np.float32,
    "epochs": 2,
    "epsilon": 1.0,
    "event": dp.GaussianDpEvent(1.0),
    "execution": privopt.Execution(),
    "failure": 0.01,
    "features": X,
    "frame": {"age": np.linspace(0.0, 90.0, N)},
    "gap": 1,
    "guesses": 50,
    "hits": 5,
    "k": 2,
    "key": KEY,
    "keys": jax.random.split(KEY, 3),
    "labels": Y,
    "learning_rate": 0.1,
    "level": 0.5,
    "lipschitz": 1.0,
    "loss": GeneralisedLinear(Logistic()),
    "lower": 0.0,
    "make_event": dp.GaussianDpEvent,
    "measurements": 2,
    "modulus": 0.5,
    "most": 3,
    "mu": 1.0,
    "n": N,
    "informative": 4,
    "name": "demo",
    "names": ["age"],
    "ndim": 1,
    "noise_std": 0.5,
    "noise_variance": 1.0,
    "norm": "l2",
    "order": "random",
    "orders": [2.0, 3.0],
    "output": convex.Average(),
    "plan": PLAN,
    "plans": [PLAN],
    "points": X,
    "probabilities": np.full(N, 1.0 / N),
    "problem": PROBLEM,
    "problem_class": CLASS,
    "query": mechanisms.ClippedGradient.of(CLASS),
    "radius": 2.0,
    "rate": 0.1,
    "read": lambda rows: (X[rows], Y[rows]),
    "records": jnp.asarray(Y),
    "regularisation": 0.5,
    "relation": "replace_one",
    "right": 30,
    "risk": PROBLEM.objective,
    "sampler": "poisson",
    "scalar": Logistic(),
    "shape": (3,),
    "size": N,
    "smoothness": 0.25,
    "sparsity": 2,
    "step_size": 0.1,
    "steps": 5,
    "stream": 0,
    "strong_convexity": 0.0,
    "bounds_y": (0.0, 1.0),
    "threshold": 0.1,
    "times": 3,
    "trials": 10,
    "upper": 1.0,
    "users": np.arange(N) % 6,
    "values": np.ones(3),
    "width": 0.1,
    "x": np.ones(3, np.float32),
    "y": Y,
}
OWN = {  # by the name of a callable: other arguments
    "audit.one_run": {"budget": privopt.Budget(epsilon=1.0, delta=1e-5, relation="zero_out")},
}
COSTLY = {  # calls that compile or run for long: refused before, or not called with these arguments
    "audit.audit",
    "audit.one_run",
    "audit.worst_pair",
    "estimators.PrivateModel",
    "lab.run",
    "lab.work",
    "mechanisms.clipped_batch_sum",
    "privopt.compare",
    "privopt.recommend",
    "privopt.run",
    "privopt.run_many",
    "privopt.run_stream",
    "estimators.approximate_bounds",
    "testing.check_algorithm",
}
# Sentinels that a costly function accepts, so that all of it runs: with ``--all`` only.
ACCEPTED = {"key": {"key"}, "harmless": set(SENTINELS)}
NAMED_ON_PURPOSE = {  # lists of names that the programmer chose, the wrong one of which is printed
    ("bibliography.bibtex", "keys"),
    ("lab.Axis", "values"),
    ("lab.Analysis", "needs"),
    ("lab.Analysis", "parts"),
    ("lab.Analysis", "profiles"),
    ("lab.Analysis", "uses"),
    ("lab.Listing", "checks"),
    ("comparison.plans", "algorithms"),
    ("privopt.compare", "algorithms"),
    ("privopt.recommend", "algorithms"),
}
OTHER_NAME = {  # refused by the name of the whole to which the parameter belongs
    ("records.as_array", "values"),
    ("records.as_column", "values"),
    ("records.as_floats", "values"),
    ("records.check_answer", "answer"),
    ("records.check_floating", "dtype"),
    ("records.on_device", "values"),
    ("records.places_of", "values"),
    ("estimators.Table", "columns"),
}
INSIDE = ("lab.", "comparison.", "convex.", "mechanisms.")  # rooms of parts that are declared


def public():
    """Yield the name and the object of every public callable that is called with arguments."""
    visited = set()
    for room in ROOMS:
        module = importlib.import_module("privopt" if room == "privopt" else f"privopt.{room}")
        for name in getattr(module, "__all__", ()):
            each = getattr(module, name)
            if not callable(each) or inspect.ismodule(each) or id(each) in visited:
                continue
            visited.add(id(each))
            if inspect.isclass(each) and (
                getattr(each, "_is_protocol", False)
                or issubclass(each, enum.Enum | BaseException)
                or (issubclass(each, tuple) and hasattr(each, "_fields"))  # holds what it is given
            ):
                continue
            if typing.get_origin(each) or each in (typing.Any,):
                continue
            yield f"{room}.{name}", each


def bound(label, method, **arguments):
    return label, (method, arguments)


def methods():
    """Yield public methods that take records, answers, states or keys."""
    state, laplace = STEPPER.init(KEY), mechanisms.LaplaceMechanism.calibrated(MEAN, PURE)
    sparse = statistics.SparseVector.calibrated(MEAN, PURE, answers=2)
    holdout = statistics.Thresholdout.calibrated(MEAN, 0.1, PURE, answers=2)
    smooth = statistics.SmoothLaplaceMechanism.calibrated(statistics.Median.of(0.0, 1.0), BUDGET)
    cauchy = statistics.SmoothCauchyMechanism.calibrated(statistics.Median.of(0.0, 1.0), PURE)
    stable = statistics.ProposeTestRelease.calibrated(statistics.Median.of(0.0, 1.0), 0.1, BUDGET)
    choice = statistics.ExponentialMechanism.calibrated(statistics.BoundedScores.of(1.0), PURE)
    table = estimators.Table(
        {"age": estimators.Number(0, 100), "who": estimators.Category(("a", "b"))}
    )
    records, batch = jnp.asarray(Y), (X, Y)
    yield bound("Stepper.init", STEPPER.init, key=KEY)
    yield bound("Stepper.step", STEPPER.step, state=state, batch=batch)
    yield bound("Stepper.rows", STEPPER.rows, state=state)
    yield bound("Stepper.released", STEPPER.released, state=state)
    yield bound("Problem.risk", PROBLEM.risk, point=np.zeros(DIM))
    yield bound("Problem.first", PROBLEM.first, n=10)
    yield bound("Plan.with_noise", PLAN.with_noise, factor=0.5)
    yield bound("Guarantee.epsilon", GUARANTEE.epsilon, delta=1e-5)
    yield bound("Guarantee.delta", GUARANTEE.delta, epsilon=1.0)
    yield bound("Guarantee.trade_off", GUARANTEE.trade_off, alpha=0.3)
    yield bound("Guarantee.times", GUARANTEE.times, k=3)
    yield bound("Guarantee.group", GUARANTEE.group, k=2)
    yield bound("Guarantee.meets", GUARANTEE.meets, budget=BUDGET)
    yield bound("Guarantee.then", GUARANTEE.then, other=GUARANTEE)
    yield bound("Table.features", table.features, frame={"age": NUMBERS[:2], "who": ["a", "b"]})
    for query in (
        MEAN,
        statistics.BoundedSum.of(0.0, 1.0),
        statistics.BoundedVariance.of(0.0, 1.0, size=N),
        statistics.Count(),
        statistics.CountedMean.of(0.0, 1.0),
        statistics.Histogram((0.0, 1.0, 2.0)),
    ):
        label = f"{type(query).__name__}.answer"
        yield bound(label, query.answer, records=records, present=jnp.ones(N, bool))
    yield bound("Median.answer", statistics.Median.of(0.0, 1.0).answer, records=records)
    yield bound("LaplaceMechanism.add_noise", laplace.add_noise, key=KEY, answer=jnp.zeros(()))
    yield bound("ExponentialMechanism.select", choice.select, key=KEY, scores=jnp.zeros(3))
    yield bound("SmoothLaplaceMechanism.release", smooth.release, key=KEY, records=records)
    yield bound("SmoothCauchyMechanism.release", cauchy.release, key=KEY, records=records)
    yield bound("ProposeTestRelease.release", stable.release, key=KEY, records=records)
    yield bound("SparseVector.init", sparse.init, key=KEY)
    yield bound(
        "SparseVector.update",
        sparse.update,
        state=sparse.init(KEY),
        answer=jnp.zeros(()),
        threshold=0.0,
    )
    yield bound(
        "Thresholdout.update",
        holdout.update,
        state=holdout.init(KEY),
        training=records,
        holdout=records,
    )


PUBLIC, METHODS = dict(public()), dict(methods())


def call(function, arguments):
    """Return the exception of a call, or None, and all its messages."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            function(**arguments)
            error = None
        except Exception as raised:
            error = raised
    messages = [str(each.message) for each in caught]
    if error is not None:
        messages += [
            str(error),
            repr(error),
            *map(str, error.args),
            *getattr(error, "__notes__", ()),
        ]
    return error, "\n".join(messages)


def faults(label, function, arguments, parameters, *, named=True):
    """Return the faults of calls with a sentinel in the place of each parameter."""
    wrong = {}  # one line for each parameter and fault
    for name in parameters:
        for kind, sentinel in SENTINELS.items():
            if label in COSTLY and kind in ACCEPTED.get(name, ()) and not selection.ALL:
                continue
            error, messages = call(function, {**arguments, name: sentinel})
            own_faults = []
            if REVEALED.search(messages) and (label, name) not in NAMED_ON_PURPOSE:
                own_faults.append("reveals a sentinel")
            if named and error is not None and not isinstance(error, ValueError | TypeError):
                own_faults.append(f"raises {type(error).__name__}")
            elif named and error is not None and (label, name) not in OTHER_NAME:
                own_faults += [] if name in str(error) else ["does not name the parameter"]
            for fault in own_faults:
                wrong.setdefault(
                    (name, fault), f"{label}({name}= {kind}) {fault}: {messages[:200]}"
                )
    return list(wrong.values())


def parameters_of(function):
    kinds = inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL
    return [p for p in inspect.signature(function).parameters.values() if p.kind not in kinds]


@pytest.mark.cases(4)
@pytest.mark.parametrize("room", ROOMS)
def test_no_public_callable_reveals_what_it_is_given(room):
    wrong, checked = [], 0
    for label, function in PUBLIC.items():
        if label.split(".")[0] != room:
            continue
        parameters = parameters_of(function)
        arguments = {p.name: GIVEN.get(p.name, 1.0) for p in parameters if p.default is p.empty}
        arguments |= OWN.get(label, {})
        accepted = label in COSTLY or call(function, arguments)[0] is None
        is_named = accepted and not label.startswith(INSIDE)
        names = [p.name for p in parameters]
        wrong += faults(label, function, arguments, names, named=is_named)
        checked += len(names)
    assert not wrong, "\n".join(wrong[:20])
    assert checked == sum(label.split(".")[0] == room for label in PUBLIC) or checked


@pytest.mark.cases(4)
@pytest.mark.parametrize("label", METHODS)
def test_no_method_reveals_what_it_is_given(label):
    method, arguments = METHODS[label]
    error, messages = call(method, arguments)
    assert error is None, messages
    wrong = faults(label, method, arguments, arguments)
    assert not wrong, "\n".join(wrong[:20])


def test_the_checks_see_planted_defects():
    """Plant a record in a message, a wrong exception, and a message without a name."""

    def prints(data):
        raise ValueError(f"data must be better, got {data!r}")

    def warns(data):
        warnings.warn(f"odd data: {list(data)[:1]}", stacklevel=1)

    def fails(data):
        return {}[id(data)]

    def is_silent(data):
        raise ValueError("something is wrong")

    def is_right(data):
        raise ValueError("data must be better")

    defects = {
        prints: "reveals",
        warns: "reveals",
        fails: "raises KeyError",
        is_silent: "does not name",
    }
    for function, fault in defects.items():
        assert any(fault in each for each in faults("planted", function, {}, ["data"])), fault
    assert faults("planted", is_right, {}, ["data"]) == []


# --- texts of objects that hold records or keys ---------------------------------------------------

HOLDERS = {
    "DenseFeatures": lambda: convex.DenseFeatures(jnp.full((2, 2), 918273.0)),
    "SparseFeatures": lambda: convex.SparseFeatures(
        np.zeros((2, 1), int), jnp.full((2, 1), 918273.0), 2
    ),
    "EmpiricalRisk": lambda: (
        problems.linear(np.full((N, DIM), 918273.0), problem_class=CLASS).objective
    ),
    "LinearRecords": lambda: (
        problems.linear(np.full((N, DIM), 918273.0), problem_class=CLASS).objective.linear
    ),
    "Problem": lambda: problems.linear(np.full((N, DIM), 918273.0), problem_class=CLASS),
    "Users": lambda: problems.by_user(np.full(6, 918273.0), np.arange(6), n=6, most=2),
    "RunState": lambda: privopt.stepper(PLAN, PROBLEM).init(jax.random.key(91827364)),
    "SparseVectorState": lambda: statistics.SparseVector.calibrated(MEAN, PURE, answers=2).init(
        jax.random.key(91827364)
    ),
    "LogisticRegression": lambda: estimators.LogisticRegression(
        budget=BUDGET, data_norm=1.0, key=jax.random.key(91827364), classes=(-1, 1)
    ),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_no_text_of_an_object_shows_records_or_keys(name):
    holder = HOLDERS[name]()
    words = str(np.asarray(jax.random.key_data(jax.random.key(91827364)))[1])
    for text in (repr(holder), str(holder), f"{holder}", repr([holder])):
        assert not REVEALED.search(text), text
        assert words not in text
        assert "Array(" not in text


# --- neighbours: no entry decides an outcome ------------------------------------------------------


def column(entry, dtype=None):
    """Return a column of plausible entries, one of which is ``entry``."""
    entries = [1.0, -1.0] * 4
    entries[3] = entry
    return entries if dtype is None else pd.Series(entries, dtype=dtype)


def labels(entry):
    return np.array([entry, *([1.0, -1.0] * 4)[1:]])


FLOATS = (1.0, -1.0, 0.0, 0.5, 1e38, -1e300, 1e-45, math.nan, math.inf, -math.inf)
OBJECTS = (1.0, "text", None, pd.NA, math.nan, 10**400, b"bytes", (1, 2), complex(0, 1), True)
SMALL = privopt.ProblemClass(n=8, dim=2, lipschitz=1.0, radius=1.0, smoothness=0.25)
ROWS = np.eye(2)[np.arange(8) % 2]


def rows(entry):
    table = ROWS.copy()
    table[3, 1] = entry
    return table


def fitted(model, y, x=ROWS):
    return model(budget=BUDGET, data_norm=1.0, key=KEY, options={}).fit(x, y)


def stream(entry):
    small = privopt.dp_gd(SMALL, BUDGET, steps=1)
    table, targets = rows(entry), labels(1.0)
    read = lambda numbers: (table[numbers], targets[numbers])  # noqa: E731
    return privopt.run_stream(small, GeneralisedLinear(Logistic()), read, KEY)


def classifier(**changes):
    common = {"budget": BUDGET, "data_norm": 1.0, "key": KEY, "classes": (-1.0, 1.0)}
    return estimators.LogisticRegression(**{**common, **changes})


def regression():
    return estimators.LinearRegression(budget=BUDGET, data_norm=1.0, key=KEY, bounds_y=(-1.0, 1.0))


TABLE = estimators.Table({"x": estimators.Number(-1, 1), "who": estimators.Category((1.0, -1.0))})
ENTRANCES = {
    "linear, features": (lambda e: problems.linear(rows(e), problem_class=SMALL), FLOATS),
    "logistic, labels": (
        lambda e: problems.logistic(ROWS, labels(e), problem_class=SMALL), FLOATS
    ),
    "hinge, labels": (lambda e: problems.hinge(ROWS, labels(e), problem_class=SMALL), FLOATS),
    "squared, labels": (lambda e: problems.squared(ROWS, labels(e), problem_class=SMALL), FLOATS),
    "multinomial, labels": (
        lambda e: problems.multinomial(
            ROWS[:, :1], labels(e), classes=(-1.0, 1.0), problem_class=SMALL
        ),
        FLOATS,
    ),
    "logistic, a list of labels": (
        lambda e: problems.logistic(ROWS, column(e), problem_class=SMALL), OBJECTS
    ),
    "logistic, a list of labels of classes": (
        lambda e: problems.logistic(ROWS, column(e), classes=(1, -1), problem_class=SMALL), OBJECTS
    ),
    "linear, a list of rows": (
        lambda e: problems.linear(
            [[0.0, e] if i == 3 else [1.0, 0.0] for i in range(8)], problem_class=SMALL
        ),
        OBJECTS,
    ),
    "distance, points": (lambda e: problems.distance(rows(e), problem_class=SMALL), FLOATS),
    "counts": (
        lambda e: problems.linear(ROWS, counts=labels(e), problem_class=SMALL), FLOATS
    ),
    "by_user, users": (
        lambda e: problems.by_user(ROWS, np.array([e, 0, 1, 2, 3, 0, 1, 2]), n=4, most=2),
        (0, 3, 4, -1, 2**40, -(2**62)),
    ),
    "run_stream": (stream, FLOATS),
    "BoundedMean": (lambda e: MEAN.answer(labels(e)), FLOATS),
    "Count": (lambda e: statistics.Count().answer(labels(e)), FLOATS),
    "Histogram": (
        lambda e: statistics.Histogram((0.0, 1.0, 2.0)).answer(labels(e)), FLOATS
    ),
    "Median": (lambda e: statistics.Median.of(0.0, 1.0).answer(labels(e)), FLOATS),
    "Table, a list": (lambda e: TABLE.features({"x": column(e), "who": column(1.0)}), OBJECTS),
    "Table, a list of categories": (
        lambda e: TABLE.features({"x": column(1.0), "who": column(e)}), OBJECTS
    ),
    "Table, nullable": (
        lambda e: TABLE.features({"x": column(e, "Float64"), "who": column(1.0)}),
        (1.0, 2.0, None, pd.NA),
    ),
    "approximate_bounds": (
        lambda e: estimators.approximate_bounds({"x": column(e)}, ["x"], BUDGET, KEY), OBJECTS
    ),
    "classifier, rows": (lambda e: classifier().fit(rows(e), labels(1.0)), FLOATS),
    "classifier, labels": (lambda e: classifier().fit(ROWS, labels(e)), FLOATS),
    "classifier, a list": (lambda e: classifier().fit(ROWS, column(e)), OBJECTS),
    "classifier, nullable booleans": (
        lambda e: classifier(classes=None).fit(
            ROWS, pd.Series([True, False, e, *([True] * 5)], dtype="boolean")
        ),
        (True, False, None, pd.NA),
    ),
    "classifier, integers": (
        lambda e: classifier(classes=(1, 300)).fit(
            ROWS, pd.Series([1, 2, e, *([1] * 5)], dtype="float64" if e is None else "int64")
        ),
        (1, 2, None),
    ),
    "regression, answers": (lambda e: regression().fit(ROWS, labels(e)), FLOATS),
    "regression, a list": (lambda e: regression().fit(ROWS, column(e)), OBJECTS),
}  # fmt: skip


def outcome(function, entry):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            function(entry)
            error = None
        except Exception as raised:
            error = type(raised), str(raised)
    return error, [str(each.message) for each in caught]


@pytest.mark.cases(5)
@pytest.mark.parametrize("x64", few([True, False], [False]))
@pytest.mark.parametrize("name", ENTRANCES)
def test_no_entry_decides_an_outcome(name, x64):
    function, entries = ENTRANCES[name]
    with jax.enable_x64(x64):
        outcomes = [outcome(function, entry) for entry in entries]
    assert outcomes == outcomes[:1] * len(entries), dict(
        zip(map(repr, entries), outcomes, strict=True)
    )


def test_the_comparison_of_neighbours_sees_a_planted_defect():
    def strict(entry):
        if entry != entry:
            raise ValueError("data must be finite")

    def warning(entry):
        if entry != entry:
            warnings.warn("data are not finite", stacklevel=1)

    for function in (strict, warning):
        assert outcome(function, math.nan) != outcome(function, 1.0)


# --- how values get into messages -----------------------------------------------------------------


def test_values_are_shown_by_one_function():
    """Check for ``!r`` in f-strings, which prints all values, unlike ``arguments.shown``."""
    root = importlib.import_module("pathlib").Path(privopt.__file__).parent
    # Names of attributes, and a key that is hashed and never printed.
    allowed = {"arguments.py", "__init__.py", "comparison/__init__.py", "lab/runner/cache_key.py"}
    offenders = [
        f"{path.relative_to(root)}:{number}"
        for path in sorted(root.rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "!r}" in line and path.relative_to(root).as_posix() not in allowed
    ]
    assert offenders == []


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (np.float64(0.5), "0.5"),
        (True, "True"),
        (None, "None"),
        ("name", "'name'"),
        ("x" * 100, "an object of type str and length 100"),
        ([1, 2], "an object of type list and length 2"),
        (np.zeros(()), "an object of type ndarray"),
        (10**100, "an object of type int"),
        (optax.sgd, "an object of type function"),
        (int, "the class int itself"),
        (privopt.Relation.ZERO_OUT, "zero_out"),
    ],
)
def test_short_scalars_are_shown_and_nothing_else(value, text):
    from privopt.arguments import shown

    assert shown(value) == text
