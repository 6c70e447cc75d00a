"""Private models: interface of scikit-learn, guarantees, and messages without data."""

import pickle
import warnings
from functools import partial

import jax
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import selection
from selection import few
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import estimator_checks_generator

import privopt
from privopt import problems
from privopt.estimators import (
    Category,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
    MultinomialRegression,
    Number,
    QuantileRegression,
    Table,
)
from privopt.estimators.spendable_key import SpendableKey

pytestmark = pytest.mark.filterwarnings("ignore:the bound on the mean excess risk")

BUDGET = privopt.Budget(epsilon=2.0, delta=1e-6, relation="replace_one")
KEY = jax.random.key(3)
COMMON = {"budget": BUDGET, "data_norm": 2.0, "key": KEY}
STEPS = {"options": {"steps": 5}}
BOUNDS = {"bounds_y": (-1.0, 3.0)}
MODELS = {
    "logistic": LogisticRegression(**COMMON, classes=(0, 1)),
    "svc": LinearSVC(**COMMON, classes=(0, 1)),
    "multinomial": MultinomialRegression(**COMMON, classes=(0, 1, 2), **STEPS),
    "linear": LinearRegression(**COMMON, **BOUNDS),
    "quantile": QuantileRegression(**COMMON, **BOUNDS, quantile=0.25),
}
X = np.random.default_rng(5).normal(size=(80, 3)) * 1.5  # some rows are longer than 2
Y = (np.arange(80) % 2, np.arange(80) % 3, X[:, 0] + 1.0)
ANSWERS = dict(zip(MODELS, (Y[0], Y[0], Y[1], Y[2], Y[2]), strict=True))
CLASSES = {"logistic": 2, "svc": 2, "multinomial": 3}


def fresh(name, **parameters):
    """Return an unfitted model with first key ``KEY``. A clone would use the next key."""
    return clone(MODELS[name]).set_params(**{"key": KEY} | parameters)


def fitted(name, X=X, **parameters):
    return fresh(name, **parameters).fit(X, ANSWERS[name])


def by_hand(name):
    """Return coefficients, intercept and plan, computed with the functions of the library."""
    model, y = MODELS[name], ANSWERS[name]
    norms = np.linalg.norm(X, axis=1)
    rows = X * (1.0 / np.maximum(norms, 2.0) / np.sqrt(2.0))[:, None]
    rows = np.column_stack([rows, np.full(80, 1.0 / np.sqrt(2.0))])
    y = (np.clip(y, -1.0, 3.0) + 1.0) / 2.0 - 1.0 if name in ("linear", "quantile") else y
    R = model.default_radius
    facts, build = {
        "logistic": ({"lipschitz": 1.0, "smoothness": 0.25}, problems.logistic),
        "svc": ({"lipschitz": 1.0, "smoothness": 1.0}, partial(problems.hinge, width=1.0)),
        "multinomial": ({"lipschitz": np.sqrt(2.0), "smoothness": 0.5}, problems.multinomial),
        "linear": ({"lipschitz": R + 1.0, "smoothness": 1.0}, problems.squared),
        "quantile": (
            {"lipschitz": 0.75, "smoothness": 10.0},
            partial(problems.quantile, width=0.1),
        ),
    }[name]
    dim = 12 if name == "multinomial" else 4
    declared = privopt.ProblemClass(n=80, dim=dim, radius=R, **facts)
    besides = {"classes": range(CLASSES[name])} if name in CLASSES else {}
    besides |= {"level": 0.25} if name == "quantile" else {}
    problem = build(rows, y, problem_class=declared, **besides)
    planner = privopt.ALGORITHMS[model.preferred].plan
    plan = planner(declared, BUDGET, **(model.options or {}))
    point = np.asarray(privopt.run(plan, problem, KEY).released)
    half, centre = (2.0, 1.0) if name in ("linear", "quantile") else (1.0, 0.0)
    coefficients = half * (point[..., :3] / (np.sqrt(2.0) * 2.0))
    return coefficients, half * (point[..., 3] / np.sqrt(2.0)) + centre, plan


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_a_run_by_hand(name):
    model, (coefficients, intercept, plan) = fitted(name), by_hand(name)
    np.testing.assert_array_equal(model.coef_.reshape(coefficients.shape), coefficients)
    np.testing.assert_array_equal(np.reshape(model.intercept_, np.shape(intercept)), intercept)
    assert model.guarantee_ == model.plan_.guarantee == plan.guarantee
    assert model.guarantee_.epsilon(1e-6).upper <= 2.0
    assert model.plan_.problem_class == plan.problem_class


@pytest.mark.parametrize("name", few(MODELS, ["logistic", "linear"]))
def test_a_model_is_printed_copied_and_kept(name):
    model = MODELS[name]
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(NotFittedError):
        _ = model.guarantee_
    assert clone(model).get_params() == model.get_params()
    result = fitted(name)
    unpickled = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(unpickled.predict(X), result.predict(X))
    assert unpickled.guarantee_ == result.guarantee_
    assert repr(unpickled.key) == "a spent key"
    np.testing.assert_array_equal(fitted(name).predict(X), result.predict(X))  # the same key


@pytest.mark.parametrize("name", few(MODELS, ["logistic", "linear"]))
def test_sparse_rows_are_the_same_rows(name):
    dense, sparse = fitted(name), fitted(name, X=scipy.sparse.csr_array(X))
    np.testing.assert_allclose(sparse.coef_, dense.coef_, atol=1e-5)
    scores = sparse.predict(scipy.sparse.csr_array(X))
    np.testing.assert_allclose(scores, sparse.predict(X), rtol=1e-12)


def test_float32_stays_float32():
    result = fitted("svc", X=X.astype(np.float32))
    assert result.coef_.dtype == np.float32


@pytest.mark.parametrize("changed", [50.0, 1e200, np.nan, np.inf, -np.inf])
def test_a_long_row_counts_as_a_short_one_and_a_broken_one_as_none(changed):
    """Check that a long record is scaled to the norm, and that one that is not finite is null."""
    data, nothing, far = X.copy(), X.copy(), changed == 50.0
    data[7], nothing[7] = changed, np.sqrt(4.0 / 3.0) if far else np.nan
    got, expected = fitted("logistic", X=data), fitted("logistic", X=nothing)
    np.testing.assert_allclose(got.coef_, expected.coef_, rtol=1e-9)
    assert np.isfinite(got.coef_).all()
    assert not np.allclose(got.coef_, fitted("logistic").coef_, rtol=1e-9)


def test_probabilities_and_scores_agree():
    model = fitted("logistic")
    chances = model.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(chances), rtol=1e-9)
    np.testing.assert_array_equal(model.predict(X), (chances[:, 1] > 0.5).astype(int))
    many = fitted("multinomial")
    np.testing.assert_array_equal(many.predict(X), many.predict_proba(X).argmax(axis=1))
    assert many.decision_function(X).shape == (80, 3)
    assert fitted("linear").predict(100.0 * X).max() <= 3.0


def test_classes_are_public_and_not_read():
    """Check that ``y`` may contain one class only, and that the order is that of ``classes``.

    A record with an unknown label is null.
    """
    model = fresh("logistic", classes=("yes", "no"))
    texts = np.where(Y[0] == 1, "yes", "no")
    assert model.fit(X, texts).classes_.tolist() == ["yes", "no"]
    reversed_model = fresh("logistic").fit(X, 1 - Y[0])
    np.testing.assert_array_equal(model.coef_, reversed_model.coef_)
    one = fresh("logistic", classes=("yes", "no")).fit(X, np.full(80, "no"))
    assert one.classes_.tolist() == ["yes", "no"]
    strange, null = Y[0].copy(), X.copy()
    strange[4], null[4] = 7, np.nan
    result = fresh("logistic").fit(X, strange)
    np.testing.assert_allclose(result.coef_, fitted("logistic", X=null).coef_, rtol=1e-9)


@pytest.mark.parametrize(
    "y",
    [
        Y[0] == 1,
        Y[0].astype(float),
        pd.Series(Y[0], dtype="Int64"),
        pd.Series(Y[0] == 1, dtype="boolean"),
        np.ma.array(Y[0], mask=False),
        Y[0].tolist(),
    ],
    ids=lambda y: f"{type(y).__name__} {getattr(y, 'dtype', '')}",
)
def test_two_values_of_any_type(y):
    result = fresh("logistic").fit(X, y)
    np.testing.assert_array_equal(result.coef_, fitted("logistic").coef_)


def test_booleans_need_no_classes():
    model = fresh("logistic", classes=None).fit(X, Y[0] == 1)
    assert model.predict(X).dtype == bool
    np.testing.assert_array_equal(model.coef_, fitted("logistic").coef_)


BAD = {
    r"classes must be given, as they are public": ({"classes": None}, X, Y[0]),
    r"classes must be two for LogisticRegression": ({"classes": (0, 1, 2)}, X, Y[0]),
    r"classes must be 2 or more distinct": ({"classes": (0, 0)}, X, Y[0]),
    r"classes must be a sequence": ({"classes": "01"}, X, Y[0]),
    r"y must hold numbers, as its public values are, got texts": ({}, X, np.full(80, "secret")),
    r"y must hold texts": ({"classes": ("no", "yes")}, X, np.full(80, 31337)),
    r"y must be of a type that can hold all of its public values, got dtype bool": (
        {"classes": (-1, 1)}, X, Y[0] == 1,
    ),
    r"y must have 1 axes, got shape \(80, 1\)": ({}, X, Y[0][:, None]),
    r"y must be given": ({}, X, None),
    r"X and y must have equally many records, got 80 and 79": ({}, X, Y[0][1:]),
    r"X must have 2 axes, got shape \(80,\)": ({}, np.full(80, 31337.0), Y[0]),
    r"X must be numeric, got texts$": ({}, np.full((80, 2), "secret"), Y[0]),
    r"X must be numeric, got texts": (
        {}, pd.DataFrame({"a": pd.array(["secret"] * 80, "string"), "b": [1.0] * 80}), Y[0],
    ),
    r"data_norm must be positive and finite, got 0": ({"data_norm": 0}, X, Y[0]),
    r"budget must be a Budget, got an object of type float": ({"budget": 1.0}, X, Y[0]),
    r"key must be a typed key of JAX, such as jax.random.key\(seed\).* got an integer": (
        {"key": 31337}, X, Y[0],
    ),
    r"key must be a single typed key": ({"key": np.array([0, 31337], np.uint32)}, X, Y[0]),
    r"key must be a single typed key.* type str": ({"key": "secret"}, X, Y[0]),
    r"radius must be positive and finite, got -1": ({"radius": -1}, X, Y[0]),
    r"algorithm must be one of .* did you mean dp_sgd": ({"algorithm": "dpsgd"}, X, Y[0]),
    r"options must be a dict": ({"options": [1]}, X, Y[0]),
    r"fit_intercept must be True or False": ({"fit_intercept": 1}, X, Y[0]),
    r"n must be the number of rows, 80": ({"n": 100}, X, Y[0]),
    r"delta must be positive": (
        {"algorithm": "dp_gd", "budget": privopt.Budget(epsilon=1, delta=0, relation="zero_out")},
        X, Y[0],
    ),
    r"n must be given under add_or_remove_one": (
        {"budget": privopt.Budget(epsilon=1, delta=1e-6, relation="add_or_remove_one")}, X, Y[0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", BAD)
def test_bad_input_is_refused_by_name_without_a_value(rule):
    arguments, rows, answers = BAD[rule]
    model = fresh("logistic", **arguments)
    with pytest.raises(ValueError, match=rule) as refusal:
        model.fit(rows, answers)
    assert "secret" not in str(refusal.value)
    assert "31337" not in str(refusal.value)
    with pytest.raises(NotFittedError):  # a refused fit leaves no model
        model.predict(X)


@pytest.mark.parametrize(
    ("bounds", "rule"),
    [
        ((1.0,), "bounds_y must be a pair"),
        ((2.0, 1.0), "bounds_y must be finite, the lower first"),
        ((0.0, np.inf), "bounds_y must be finite"),
    ],
)
def test_bounds_of_answers_are_public_numbers(bounds, rule):
    with pytest.raises(ValueError, match=rule):
        fitted("linear", bounds_y=bounds)


def test_answers_beyond_the_bounds_are_clamped():
    outside = np.where(Y[2] > 1.0, 1e9, Y[2])
    bounded = np.where(Y[2] > 1.0, 3.0, Y[2])
    result = [fresh("linear").fit(X, y).coef_ for y in (outside, bounded)]
    np.testing.assert_array_equal(*result)


def test_the_warning_on_a_vacuous_bound_has_public_numbers_only():
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        for data in (X, np.zeros_like(X)):
            fitted("logistic", X=data)
    first, second = (str(each.message) for each in records)
    assert first == second
    assert "the theorem promises nothing at this size" in first
    assert "the model may still be good" in first
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        many = np.tile(X, (1000, 1))
        fresh("logistic", radius=3.0).fit(many, np.tile(Y[0], 1000))


def test_epsilon_delta_and_relation_are_a_budget():
    parts = {"epsilon": 2.0, "delta": 1e-6, "relation": "replace_one"}
    model = fitted("logistic", budget=None, **parts)
    np.testing.assert_array_equal(model.coef_, fitted("logistic").coef_)
    assert model.plan_.budget == BUDGET
    with pytest.raises(ValueError, match="epsilon must be None if budget is given"):
        fitted("logistic", epsilon=1.0)
    with pytest.raises(ValueError, match=r"budget must be given, .* None for budget and relation"):
        fitted("logistic", budget=None, epsilon=1.0, delta=1e-6)


def test_a_design_size_under_add_or_remove_one():
    budget = privopt.Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
    model = fitted("svc", budget=budget, n=100)
    assert model.plan_.problem_class.n == 100


def test_a_pipeline_from_columns_to_classes():
    frame = pd.DataFrame({"age": 50.0 + 20.0 * X[:, 0], "sector": np.where(Y[0] == 1, "a", "b")})
    table = Table({"age": Number(0, 100), "sector": Category(("a", "b"))})
    model = fresh("logistic", data_norm=table.norm)
    line = make_pipeline(FunctionTransformer(table.features), model).fit(frame, Y[0])
    features = table.features(frame)
    direct = fresh("logistic", data_norm=table.norm).fit(features, Y[0])
    np.testing.assert_array_equal(line.predict(frame), direct.predict(features))
    with pytest.warns(UserWarning, match="key has been used by [23] fits"):
        assert cross_val_score(line, frame, Y[0], cv=2).shape == (2,)


@pytest.mark.parametrize("algorithm", ["output_perturbation", privopt.ALGORITHMS["phased_sgd"]])
def test_another_algorithm(algorithm):
    model = fitted("logistic", algorithm=algorithm)
    assert model.plan_.algorithm is privopt.ALGORITHMS[getattr(algorithm, "name", algorithm)]


def test_columns_keep_their_names():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = fitted("logistic", X=frame)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.n_features_in_ == 3
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["c", "b", "a"]])


class Seeded:
    """Model that uses ``KEY`` in every fit, because the checks of scikit-learn compare two fits."""

    def fit(self, X, y):
        self._keys = SpendableKey(KEY)
        return super().fit(X, y)


class SeededLogistic(Seeded, LogisticRegression):
    pass


class SeededSVC(Seeded, LinearSVC):
    pass


class SeededMultinomial(Seeded, MultinomialRegression):
    pass


class SeededLinear(Seeded, LinearRegression):
    pass


class SeededQuantile(Seeded, QuantileRegression):
    pass


SEEDED = (SeededLogistic, SeededSVC, SeededMultinomial, SeededLinear, SeededQuantile)
OTHER_CLASSES = "classes are public: those of the check are not the ones declared"
EXPECTED = {
    "check_complex_data": "the message is in our words: X must be numeric",
    "check_dtype_object": "the type of an entry is told, and a ValueError as everywhere here",
    "check_supervised_y_2d": "y of two axes is refused, not ravelled with a warning",
    "check_estimators_nan_inf": "an error of fit would release a value: that record is null",
    "check_supervised_y_no_nan": "an error would release a value: that record is null",
    "check_classifiers_one_label": "noise: one class in y is no certainty",
    "check_classifiers_classes": OTHER_CLASSES,
    "check_classifiers_regression_target": "an error would release values: those records are null",
    "check_classifier_not_supporting_multiclass": "labels of a third class are null records",
}
OF_SEVERAL = {
    "check_estimator_sparse_array": OTHER_CLASSES,
    "check_estimator_sparse_matrix": OTHER_CLASSES,
    "check_classifiers_train": OTHER_CLASSES,
    "check_decision_proba_consistency": OTHER_CLASSES,
}
CHECKED = [
    seeded(**model.get_params() | {"data_norm": 1.0})
    for seeded, model in zip(SEEDED, MODELS.values(), strict=True)
]


def expected_to_fail(model):
    return EXPECTED | (OF_SEVERAL if isinstance(model, MultinomialRegression) else {})


def name_of(part):
    return getattr(getattr(part, "func", part), "__name__", type(part).__name__)


def checks():
    """Yield models and checks: by default of a regressor, and those that only a classifier has."""
    seen = set()
    for model in reversed(few(CHECKED, CHECKED[::3])):
        expected = expected_to_fail(model)
        for case in estimator_checks_generator(
            model, expected_failed_checks=expected, mark="xfail", xfail_strict=True
        ):
            name = name_of(getattr(case, "values", case)[1])
            if selection.ALL or name not in seen:
                yield case
            seen.add(name)


@pytest.mark.cases(3)
@pytest.mark.parametrize(("estimator", "check"), list(checks()), ids=name_of)
def test_scikit_learns_own_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, and the remark
        check(estimator)
