"""Values never show: problems are made of any numbers in silence, and keep the class they declare.

An exception or a message that depends on a value releases it. So every bad value has a meaning,
record by record, under which the declared constants hold; ``check``, which reads the data for
research, says how many there are, where, and which rule they break.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCOO
from refusals import refused
from selection import few

from privopt import convex, problems
from privopt.mechanisms import clipped_gradient_sum
from privopt.spec import ProblemClass

N, DIM = 6, 3
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(N, DIM))
FEATURES /= np.linalg.norm(FEATURES, axis=1, keepdims=True)
SIGNS = np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
STRANGE = (0.0, 2.0, -0.5, 7e300, -math.inf, math.nan)
CLASS = ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25)
OPTIONS = {"hinge": {"width": 4.0}, "huber": {"width": 4.0}}
MODELS = ("logistic", "hinge", "linear", "squared", "absolute", "huber")


def made(name, features=FEATURES, labels=SIGNS, **changes):
    given = {"problem_class": CLASS, **OPTIONS.get(name, {}), **changes}
    return getattr(problems, name)(features, labels, **given)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("value", STRANGE)
def test_problems_are_made_in_silence_whatever_the_values(name, value, capsys):
    labels, features, counts = SIGNS.copy(), FEATURES.copy(), np.ones(N)
    labels[2] = features[3, 1] = counts[4] = value
    made(name, features, labels, counts=counts)
    told = capsys.readouterr()
    assert told.out == told.err == ""


@jax.jit
def steepest_and_most_curved(objective, points):
    """Over every single record's loss, as methods see it, between neighbouring points."""

    def of_record(counts):
        total = clipped_gradient_sum(replace(objective, counts=counts), CLASS.lipschitz)
        return jax.vmap(total)(points)

    found = jax.lax.map(of_record, jnp.eye(N))
    moves = jnp.linalg.norm(jnp.diff(points, axis=0), axis=-1)
    secants = jnp.linalg.norm(jnp.diff(found, axis=1), axis=-1) / moves[None]
    return jnp.linalg.norm(found, axis=-1).max(), secants.max()


@pytest.mark.parametrize("name", ["logistic", "hinge"])
def test_no_value_makes_a_record_steeper_or_more_curved_than_declared(name):
    """Labels beyond -1 and 1 and features too long: ``|x|^2 = 25`` makes 25 times the curvature."""
    labels, features = SIGNS * [1.0, 1.0, 9.0, 1.0, 1.0, 2.0], FEATURES.copy()
    features[[0, 5]] *= 5.0
    rng = np.random.default_rng(1)
    points = jnp.asarray(0.05 * rng.normal(size=(60, DIM)).cumsum(axis=0))
    steepest, curved = steepest_and_most_curved(made(name, features, labels).objective, points)
    assert steepest <= CLASS.lipschitz * (1.0 + 1e-12)
    assert 0.5 * CLASS.smoothness <= curved <= CLASS.smoothness * (1.0 + 1e-9)


@pytest.mark.optimised
def test_records_within_the_class_keep_their_bits():
    features = FEATURES * (1.0 - 2.0**-16)
    for dtype in (np.float32, np.float64):
        problem = made("logistic", features.astype(dtype), SIGNS.astype(dtype))
        np.testing.assert_array_equal(problem.objective.data[0], features.astype(dtype))
    undeclared = ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0)
    problem = made("logistic", 5.0 * FEATURES, problem_class=undeclared)
    np.testing.assert_array_equal(problem.objective.data[0], 5.0 * FEATURES)


def test_one_record_is_put_right_without_a_look_at_the_others():
    features = FEATURES.copy()
    features[1] *= 7.0
    kept = made("logistic", features).objective.data[0]
    np.testing.assert_allclose(np.delete(kept, 1, 0), np.delete(FEATURES, 1, 0), rtol=1e-13)
    assert np.linalg.norm(kept[1]) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.optimised
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shortened_features_stay_within_the_bound_as_they_are_stored(dtype):
    """Norms are checked in long double at every size, round-off included."""
    sizes = np.array([1.0, 1.0 + 1e-7, 3.0, 1e10, 1e30, 1e38])[:, None]
    kept = made("logistic", (sizes * FEATURES).astype(dtype)).objective.data[0]
    norms = np.sqrt(np.sum(np.square(np.asarray(kept, np.longdouble)), axis=1))
    assert np.all(norms <= 1.0)
    assert np.all(norms[:5] >= 1.0 - 1e-5)


@pytest.mark.parametrize("name", ["logistic", "hinge"])
def test_two_classes_may_be_named_in_any_way(name):
    """Labels 0 and 1 once made half of the records null, and masked labels once lost the mask."""
    point = np.array([0.3, -0.2, 0.5])
    plain, bits = made(name), (SIGNS > 0.0).astype(int)
    for labels in (bits, bits.astype(bool), bits.tolist(), bits.astype(np.float32), 3.0 * SIGNS):
        other = made(name, labels=labels)
        assert other.risk(point) == plain.risk(point)
        other.check() if np.max(labels) == 1 else None
    words = np.where(SIGNS > 0.0, "yes", "no")
    for labels, classes in (
        (words, ("no", "yes")),
        (bits + 7, (7, 8)),
        (list(words), ("no", "yes")),
    ):
        assert made(name, labels=labels, classes=classes).risk(point) == plain.risk(point)
    ternary = made(name, labels=[-1, 0, 1, 1, 0, -1])
    with pytest.raises(ValueError, match="labels must be -1 or 1, or 0 or 1, got -1, 0 and 1"):
        ternary.check()
    for classes, message in (
        (2, "classes must be a sequence such as"),
        ("no", "classes must be a sequence such as"),
        ((0, 0), "classes must be 2 or more distinct values"),
        ((0, 1, 2), "classes must be two for this loss"),
    ):
        with pytest.raises(ValueError, match=message):
            made(name, labels=bits, classes=classes)


class NAType:
    """Substitute for the missing value of pandas, without a truth value."""

    def __eq__(self, other):
        return self

    def __bool__(self):
        raise TypeError("boolean value of NA is ambiguous")

    __hash__ = object.__hash__


MISSING = {
    "masked": np.ma.array([1.0, -1.0, 1.0, 1.0, -1.0, 99.0], mask=[0, 0, 0, 0, 0, 1]),
    "masked integers": np.ma.array([1, -1, 1, 1, -1, 99], mask=[0, 0, 0, 0, 0, 1]),
    "none": [1, -1, 1, 1, -1, None],
    "pandas": np.array([1, -1, 1, 1, -1, NAType()], object),
    "nan": [1, -1, 1, 1, -1, math.nan],
    "beyond all floats": [1, -1, 1, 1, -1, 2**2000],
}


@pytest.mark.parametrize("name", ["logistic", "squared"])
@pytest.mark.parametrize("kind", few(MISSING, ["masked", "pandas", "beyond all floats"]))
@pytest.mark.parametrize("wide", few([True, False], [False]))
def test_a_record_with_something_missing_is_a_null_one(name, kind, wide):
    """Missing labels and features make a record null. No value is printed or requested."""
    point, total = np.zeros(DIM), clipped_gradient_sum
    columns = np.ma.array(FEATURES, mask=np.arange(N * DIM).reshape(N, DIM) == N * DIM - 1)
    rows = {"masked": columns, "nan": columns.filled(math.nan)}.get(kind, FEATURES)
    with jax.enable_x64(wide):
        problem = made(name, rows, MISSING[kind])
        left = made(name, counts=[1, 1, 1, 1, 1, 0])
        point = jnp.asarray([0.3, -0.2, 0.5])
        sums = [jax.jit(total(each.objective, 1.0))(point) for each in (problem, left)]
        np.testing.assert_allclose(*sums, rtol=1e-6)
        with pytest.raises(ValueError, match=r"data must be finite, .* \(1 of 6 records\)"):
            problem.check()


@pytest.mark.parametrize("wide", [True, False])
def test_no_integer_wraps_around(wide):
    """If x64 is off, 2^32 + 1 once became 1. The error for 2^70 once contained the value."""
    big = [1, 2**31, 2**32 + 1, 2**63, 2**70, -(2**40)]
    with jax.enable_x64(wide):
        kept = np.asarray(made("squared", labels=big).objective.data[1], np.float64)
        np.testing.assert_allclose(kept, np.asarray(big, np.float64), rtol=1e-7)
        limits = np.iinfo(np.int64 if wide else np.int32)
        whole = anything(
            loss=lambda w, x: w @ x[0], data=(FEATURES, np.array([*big[:3], 0, 1, -(2**40)]))
        )
        expected = np.clip([*big[:3], 0, 1, -(2**40)], limits.min, limits.max)
        np.testing.assert_array_equal(whole.objective.data[1], expected)


def test_what_is_no_array_is_refused_by_its_type_alone():
    """JAX's own sparse matrices hung: NumPy took them apart one element after another."""
    sparse = BCOO.fromdense(jnp.asarray(FEATURES))
    for features, message in (
        (sparse, "features must be an array, got an object of type BCOO"),
        ({"a": [1.0]}, "features must be an array, got an object of type dict"),
        (np.array([["secret"] * DIM] * N), "features must be numeric, got texts"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            made("logistic", features)
        assert "secret" not in str(caught.value)


def test_counts_are_rounded_and_never_negative():
    counts = np.array([1.4, -3.0, math.nan, math.inf, 2.0, 2.0])
    np.testing.assert_array_equal(
        made("linear", counts=counts).objective.counts, [1, 0, 0, 0, 2, 2]
    )


BROKEN = {
    "labels": (
        {"labels": np.array([1.0, 0.2, 1.0, 0.5, -1.0, 3.0])},
        [r"labels must be -1 or 1, or 0 or 1, got 0\.2 in record 1 \(3 of 6 records\)"],
    ),
    "finite": (
        {"labels": np.array([1.0, math.nan, 1.0, 1.0, math.inf, 1.0])},
        [r"data must be finite, got .*nan.* in record 1, leaf \[1\] \(2 of 6 records\)"],
    ),
    "norms": (
        {"features": FEATURES * np.array([[1.0], [1.0], [2.0], [3.0], [0.5], [1.0]])},
        [
            r"lipschitz 1\.0 must bound every record, but record 3 has .* \(2 of 6 records\)",
            r"smoothness 0\.25 must bound every record, but record 3 has curvature 2\.25 \(2 of 6",
        ],
    ),
    "half a record": (
        {"counts": [1, 1, 1.5, 0.5, 1, 1]},
        [r"counts must be non-negative integers, got 1\.5 for record 2 \(2 of 6 records\)"],
    ),
    "too few": ({"counts": [1, 1, 1, 0, 1, 1]}, [r"counts must sum to n = 6, got 5"]),
    "all at once": (
        {"labels": np.array([1.0, 0.2, math.nan, 1.0, 1.0, 1.0]), "counts": [2] * 6},
        [r"counts must sum to n = 6, got 12", r"data must be finite", r"got 0\.2 in record 1 \(1"],
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_check_names_every_broken_rule_with_how_many_and_where(name):
    changes, wanted = BROKEN[name]
    made("logistic").check()
    with pytest.raises(ValueError, match="must") as caught:
        made("logistic", **changes).check()
    lines = str(caught.value).splitlines()
    assert len(lines) == len(wanted)
    for line, message in zip(lines, wanted, strict=True):
        assert re.search(message, line), line


def test_a_text_among_the_labels_is_refused_by_its_dtype_alone():
    with pytest.raises(ValueError, match="labels must be numeric, got texts") as caught:
        made("logistic", labels=np.array(["1", "secret"] * 3))
    assert "secret" not in str(caught.value)


def test_nothing_that_is_printed_shows_a_record():
    """Problems, their fields and data sets print public facts only, and no number of the data."""
    features = FEATURES.copy()
    features[2, 1] = 0.123456
    counts = np.array([1, 1, 1, 1, 1, 77])
    problem = made("logistic", features, counts=counts, minimiser=np.full(DIM, 0.654321))
    assert repr(problem) == (
        "<Problem logistic: n = 6, dim = 3, loss = Logistic, constraint = L2Ball, dtype = float64>"
    )
    rows = np.clip(features, -0.5, 0.5)
    data = problems.Dataset(name="d", features=rows, labels=SIGNS, source="", notes="")
    family = problems.Family.of(problem)
    population = made("logistic", features, probabilities=np.full(N, 1 / N)).source
    for shown in (problem, problem.objective, population, data, family, {"all": [problem]}):
        told = re.sub(r"0x\w+", "an address", repr(shown))
        assert "\n" not in told
        assert not re.search(r"0\.1234|0\.6543|77|array", told), told


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("name", "bad"), [("logistic", math.nan), ("absolute", math.inf), ("linear", math.nan)]
)
@pytest.mark.parametrize("options", [{}, {"counts": np.ones(N)}, {"minimiser": np.zeros(DIM)}])
def test_data_without_finite_losses_have_a_risk_of_nan_and_no_reference(name, bad, options):
    features = FEATURES.copy()
    features[[3, 4], 1] = bad
    problem = made(name, features, **options)
    assert not np.isfinite(problem.risk(np.zeros(DIM)))
    message = r"finite losses .*, got 2 of 6 records without, the first of them record 3; check\(\)"
    for ask in (lambda: problem.reference, lambda: problem.excess_risk(np.zeros(DIM))):
        with pytest.raises(ValueError, match=message):
            ask()


class Run:
    released = np.zeros(DIM)


def anything(**changes):
    given = {"loss": lambda w, x: w @ x, "data": FEATURES, "problem_class": CLASS}
    return problems.Problem(**{**given, **changes})


TREE = {"a": np.zeros(2), "b": np.zeros(1)}
WHOLE = ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=math.inf)
FROM_TREE = {
    "start": TREE,
    "problem_class": WHOLE,
    "loss": lambda w, x: w["a"] @ x[:2] + w["b"] @ x[2:],
}


test_what_no_problem_is_made_of = refused(
    (lambda: anything(problem_class=ProblemClass), "problem_class must be a .* got the class Prob"),
    (lambda: problems.distance(FEATURES, problem_class=None), "problem_class must be a ProblemCl"),
    (lambda: anything(loss=None), r"loss must be a function loss\(w, x\), got an object of"),
    (lambda: anything(loss=problems.GeneralisedLinear), "loss must be .* got the class Generalis"),
    (lambda: anything(constraint=convex.L2Ball), "constraint must be a .* got the class L2Ball it"),
    (lambda: anything(constraint="ball"), "constraint must be a .* got an object of type str"),
    (lambda: anything(constraint=convex.L2Ball(1.0, np.zeros(2))), r"centre must have shape .*3,"),
    (
        lambda: anything(loss=problems.GeneralisedLinear(problems.Logistic())),
        r"data must be \(features, labels\) for a linear model, got an object of type",
    ),
    (lambda: made("logistic", [[1.0, 2.0], [3.0]]), "features must be an array, got rows of diff"),
    (lambda: made("linear", [[1.0, 2.0], [3.0]], None), "features must be an array, got rows of"),
    (lambda: made("huber", width="1"), "width must be a real number, got '1'"),
    (lambda: anything().risk("w"), "point must be an array, got an object of type str"),
    (lambda: anything().risk(Run()), "point must be run.released, got an object of type Run"),
    (lambda: anything().excess_risk(np.zeros(2)), r"point must have shape .* = 3\), got \(2,\)"),
    (lambda: anything(**FROM_TREE).risk({"a": 1.0}), "point must have the structure"),
    (lambda: anything(**FROM_TREE).risk(Run()), "point must be run.released"),
    (lambda: problems.family("liner"), r"family must be one of .*; did you mean linear\?"),
    (lambda: problems.datasets.load("a9"), r"name must be one of .* got 'a9'; did you mean a9a\?"),
    (lambda: problems.Family.of(FEATURES), "problem must be a Problem, got an object of type nda"),
)


@pytest.mark.parametrize(
    ("listed", "name", "meant"),
    [(problems.FAMILIES, "liner", "linear"), (problems.DATASETS, "digit", "digits")],
)
def test_lists_name_what_was_probably_meant(listed, name, meant):
    with pytest.raises(KeyError, match=rf"got '{name}'; did you mean {meant}\?"):
        listed[name]
    assert name not in listed
