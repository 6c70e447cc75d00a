"""Types of numbers at every function that takes records: accepted, or refused by name.

An array of an accepted type gives an answer with the charged sensitivity, also for the smallest and
the largest number of the type. The absolute value of the smallest integer is not positive, and sums
in short floats have rounding errors of many times their sensitivity.
"""

import functools
import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import scipy.sparse
from ml_dtypes import finfo
from selection import few

import privopt
from privopt import convex, estimators, problems, statistics
from privopt.convex import GeneralisedLinear, Logistic
from privopt.estimators.unit_rows import UnitRows, features_of

N, DIM = 6, 2
RELATION = "replace_one"
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation=RELATION)
CLASS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=1e4)
KEY = jax.random.key(0)

NUMPY = [np.dtype(each) for each in "?bBhHiIqQefdgFDG"] + [
    np.dtype(each) for each in ("U4", "S4", "M8[s]", "m8[s]", "V4", object)
]
OF_JAX = [
    np.dtype(getattr(ml_dtypes, name))
    for name in dir(ml_dtypes)
    if isinstance(getattr(ml_dtypes, name), type)
    and issubclass(getattr(ml_dtypes, name), np.generic)
]
# A type of each family: the rule for records depends on the family, and the widths of a family
# differ in their extreme entries only. Those of 1 and 8 bytes have the most extreme ones.
FAMILIES = (
    *("bool", "int8", "uint64", "float16", "float32", "float64", "complex64"),
    *("<U4", "timedelta64[s]", "object", "bfloat16", "int4", "float8_e4m3fn"),
)
DTYPES = [
    np.dtype(name) for name in few([str(each) for each in dict.fromkeys(NUMPY + OF_JAX)], FAMILIES)
]
FLOATS = ("float32", "float64")


def extremes(dtype):
    """Return the smallest, the largest and special entries of a type; the first is a usual one."""
    if dtype == np.bool_:
        return [True, False]
    if dtype.kind in "iu" or "int" in dtype.name:
        limits = ml_dtypes.iinfo(dtype)
        edges = [int(limits.min), int(limits.min) + 1, int(limits.max) - 1, int(limits.max)]
        return [0, *edges]
    if "float" in dtype.name:
        limits = np.finfo(dtype) if dtype.kind == "f" and dtype.itemsize > 1 else finfo(dtype)
        edges = [limits.min, limits.max, limits.smallest_subnormal, limits.tiny]
        return [1.0, *edges, -1.0, 0.0, math.nan, math.inf, -math.inf]
    if dtype.hasobject:
        return [1.0, "text", None, 10**400, -(2**63), math.nan]
    return [np.zeros((), dtype), np.ones((), dtype)]


def neighbours(dtype, *, columns):
    """Yield arrays of records that differ from the first in one record."""
    usual, *others = extremes(dtype)
    shape = (N, columns) if columns else (N,)
    yield np.full(shape, usual, dtype)
    with np.errstate(all="ignore"):
        for entry in others:
            for place in [2, (2, 0)] if columns else [2]:
                array = np.full(shape, usual, dtype)
                array[place] = entry
                yield array


# --- entrances: what an array of records is answered, without noise, and how far one may move it --

SIGNS = np.where(np.arange(N) % 2, 1.0, -1.0)
UNIT = np.eye(DIM)[np.arange(N) % DIM]


@functools.cache
def a_step(facts=CLASS):
    """Return a plan of one step without noise, and the sensitivity of its release."""
    plan = privopt.dp_gd(facts, BUDGET, steps=1, step_size=1.0, output="last")
    return plan.with_noise(0.0), plan.params.mechanism.query.sensitivity(RELATION)


def fitted(loss, data, facts=CLASS, **options):
    plan, sensitivity = a_step(facts)
    problem = problems.Problem(loss=loss, data=data, problem_class=facts, **options)
    return privopt.run(plan, problem, KEY).released, sensitivity


def floating(array, default=np.float64):
    """Return the dtype of labels for an array: the dtype of computations with its entries."""
    return array.dtype if array.dtype.name in FLOATS else np.dtype(default)


def features(array):
    return fitted(GeneralisedLinear(Logistic()), (array, SIGNS.astype(floating(array))))


def labels(array):
    return fitted(GeneralisedLinear(convex.Squared()), (UNIT.astype(floating(array)), array))


def sparse_features(array):
    try:
        matrix = scipy.sparse.csr_array(array)
    except (TypeError, ValueError) as error:
        raise ValueError("scipy.sparse has no such matrix") from error
    return fitted(GeneralisedLinear(Logistic()), (matrix, SIGNS.astype(floating(array))))


def points(array):
    return fitted(convex.Distance(), array)


def product(w, x):
    return (w * x).sum()


def layer_above(v, hidden, y):
    return ((hidden - y).sum() + v).sum()


# Functions of the module: a function that is defined anew for each array is compiled anew.
FIRST_LAYER = convex.FirstLayer(layer_above)


def own_loss(array):
    return fitted(product, array)


def first_layer(array):
    facts = replace(CLASS, dim=DIM + 1, radius=math.inf)
    start = np.zeros((DIM, 1), floating(array)), np.zeros(1, floating(array))
    released, sensitivity = fitted(
        FIRST_LAYER, (array, SIGNS.astype(floating(array))), facts, start=start
    )
    return jnp.concatenate([leaf.ravel() for leaf in released]), sensitivity


def linear(array):
    plan, sensitivity = a_step()
    problem = problems.linear(array, problem_class=CLASS)
    return privopt.run(plan, problem, KEY).released, sensitivity


def stream(array):
    plan, sensitivity = a_step()
    signs = SIGNS.astype(floating(array))
    result = privopt.run_stream(
        plan, GeneralisedLinear(Logistic()), lambda rows: (array[rows], signs[rows]), KEY
    )
    return result.released, sensitivity


def step(array):
    plan, sensitivity = a_step()
    signs = SIGNS.astype(floating(array))
    data = UNIT.astype(floating(array)), signs
    problem = problems.Problem(loss=GeneralisedLinear(Logistic()), data=data, problem_class=CLASS)
    stepper = privopt.stepper(plan, problem)
    state = stepper.init(KEY)
    numbers = np.asarray(stepper.rows(state)[0])
    return stepper.released(stepper.step(state, (array[numbers], signs[numbers]))), sensitivity


def query(each):
    return lambda array: (each.answer(array), each.sensitivity(RELATION))


def median(array):
    """Return the logarithm of the smooth sensitivity; its sensitivity is the smoothing."""
    smoothing = 0.1
    smooth = statistics.Median.of(0.0, 2.0).smooth_sensitivity(array, smoothing)
    return jnp.log(smooth), smoothing + 2.0**-18


def gap(array):
    query = statistics.Thresholdout.calibrated(MEAN, 0.1, BUDGET, answers=1).gap
    training = jnp.zeros(3, floating(array))
    return query.answer(training, array), query.l1_sensitivity(RELATION)


def unit_rows(array):
    """Return rows: unchanged rows do not change, and the others have norm 1."""
    return UnitRows(1.0, intercept=True).of(features_of(array)), 2.0


def answers(array):
    model = estimators.LinearRegression(budget=BUDGET, data_norm=1.0, bounds_y=(-1.0, 1.0))
    return np.nan_to_num(model._targets(array)), 2.0  # NaN makes a record null


def table(array):
    declared = estimators.Table({"x": estimators.Number(-1, 1)})
    return declared.features({"x": array}), 2.0 * declared.norm


def category(array):
    declared = estimators.Table({"x": estimators.Category((0, 1), other=True)})
    return declared.features({"x": array}), 2.0 * declared.norm


MEAN = statistics.BoundedMean.of(-1.0, 1.0, size=N)
MATRICES = {
    "features": features, "sparse features": sparse_features, "points": points,
    "own loss": own_loss, "first layer": first_layer, "linear": linear, "run_stream": stream,
    "Stepper.step": step, "rows of an estimator": unit_rows,
}  # fmt: skip
COLUMNS = {
    "labels": labels,
    "BoundedMean": query(MEAN),
    "BoundedSum": query(statistics.BoundedSum.of(-1.0, 1.0)),
    "Count": query(statistics.Count()),
    "Histogram": query(statistics.Histogram((-1.0, 0.0, 1.0, 2.0))),
    "Median": median,
    "Thresholdout": gap,
    "targets of an estimator": answers,
    "numbers of a table": table,
    "categories of a table": category,
}
ENTRANCES = {**MATRICES, **COLUMNS}


def outcome(entrance, array):
    """Return the answer and its sensitivity, or the error."""
    try:
        answer, sensitivity = entrance(array)
    except (TypeError, ValueError) as error:
        return error, None
    return np.asarray(answer, np.float64), sensitivity


def faults(name, entrance, dtype, convert=lambda array: array):
    """Return the differences between the outcomes on neighbours of one type."""
    columns = DIM if name in MATRICES else 0
    arrays = [convert(array) for array in neighbours(dtype, columns=columns)]
    (usual, sensitivity), *others = (outcome(entrance, array) for array in arrays)
    if isinstance(usual, Exception):
        same = all(str(other) == str(usual) for other, _ in others)
        wrong = [] if same else [f"{name} refuses some entries of {dtype}: {usual}"]
        is_named = any(rule in str(usual) for rule in REFUSALS)
        return wrong + ([] if is_named else [f"{name} does not say which types it takes: {usual}"])
    wrong = []
    for array, (other, _) in zip(arrays[1:], others, strict=True):
        if isinstance(other, Exception):
            wrong.append(f"{name} refuses an entry of {dtype}: {other}")
            continue
        distance = np.linalg.norm(other - usual)
        if not distance <= sensitivity * (1.0 + 1e-6):
            wrong.append(f"{name} moves {distance} of {sensitivity} for {dtype}: {array[2]}")
    return wrong


REFUSALS = (
    "float32 or float64",
    "must be numeric",
    "must be float",
    "must have floating leaves",
    "must hold numbers",
    "scipy.sparse has no such matrix",
)


# Two problems, a step, two statistics and a table.
DIFFERENT = (
    "linear",
    "labels",
    "Stepper.step",
    "BoundedMean",
    "Thresholdout",
    "numbers of a table",
)


@pytest.mark.parametrize("name", few(ENTRANCES, DIFFERENT))
def test_no_record_of_any_type_moves_an_answer_further_than_is_charged(name):
    for dtype in DTYPES:
        assert faults(name, ENTRANCES[name], dtype) == []


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", ENTRANCES)
def test_arrays_of_jax_are_read_as_those_of_numpy(name):
    for dtype in DTYPES:
        try:
            jnp.asarray(np.zeros(9, dtype)).astype(np.float32).block_until_ready()
        except Exception:
            continue  # JAX has no such array
        assert faults(name, ENTRANCES[name], dtype, jnp.asarray) == []


def test_the_comparison_sees_planted_defects():
    """Plant an absolute value of integers, a sum in short floats, and errors for one entry."""

    def shortened(array):
        rows = jnp.asarray(array).astype(array.dtype)
        return (rows / jnp.maximum(jnp.abs(rows), 1)).astype(np.float64).sum(0), 2.0

    def short_sum(array):
        return jnp.clip(jnp.asarray(array), -1, 1).sum() * 1000, 2.0

    def strict(array):
        if not np.isfinite(np.asarray(array)).all():
            raise ValueError("records must be float32 or float64, and finite")
        return np.zeros(()), 2.0

    def silent(array):
        raise TypeError(f"cannot use {array.dtype}")

    for entrance, dtype, fault in [
        (shortened, np.int8, "moves"),
        (short_sum, jnp.bfloat16, "moves"),
        (strict, np.float32, "refuses an entry"),
        (silent, np.float32, "does not say"),
    ]:
        result = faults("planted", entrance, np.dtype(dtype))
        assert any(fault in each for each in result), (entrance, result)
