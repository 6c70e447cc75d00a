"""Keys of models: independent noise of all fits, composed guarantees, and no key in a pickle."""

import json
import os
import pickle
import threading
import warnings
from copy import deepcopy

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from scipy.stats import mannwhitneyu
from selection import few
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import BaggingClassifier, StackingClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import privopt
from privopt import problems
from privopt.estimators import LinearRegression, LogisticRegression
from privopt.estimators.spendable_key import SpendableKey
from privopt.estimators.unit_rows import UnitRows

pytestmark = pytest.mark.filterwarnings("ignore:the bound on the mean excess risk")

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
WORDS = (0x5EC2E7A1, 0x0DDC0FFE)
KEY = jax.random.wrap_key_data(jnp.array(WORDS, jnp.uint32), impl="threefry2x32")
X = np.random.default_rng(5).normal(size=(120, 3))
BINARY = (X[:, 0] > 0.0).astype(int)
TARGET = X[:, 0].clip(-1.0, 1.0)
SPENT = r"key must not be spent: .* Set another one, by set_params"
ignored = pytest.mark.filterwarnings("ignore:key has been used")


def linear(**parameters):
    defaults = {"budget": BUDGET, "data_norm": 1.0, "key": KEY, "bounds_y": (-1.0, 1.0)}
    return LinearRegression(**defaults | parameters)


def logistic(**parameters):
    defaults = {"budget": BUDGET, "data_norm": 1.0, "key": KEY, "classes": (0, 1)}
    return LogisticRegression(**defaults | parameters)


def chain(fits):
    """Return the coefficients of successive fits of one model on one data set."""
    model = linear()
    return [model.fit(X, TARGET).coef_ for _ in range(fits)]


def contains_key(blob):
    """Return True if bytes contain the words of ``KEY``, as integers or as text."""
    for word in WORDS:
        forms = (word.to_bytes(4, "little"), word.to_bytes(4, "big"), str(word).encode())
        if any(form in blob for form in forms):
            return True
    return False


@ignored
def test_each_fit_takes_the_next_key_and_the_first_takes_the_given_one():
    """Compute every fit with ``run``: fit ``k + 1`` uses stream 1 of the key of fit ``k``."""
    model, key = linear(), KEY
    rows, targets = UnitRows(1.0, intercept=True), 2.0 * (TARGET + 1.0) / 2.0 - 1.0
    for _ in range(3):
        model.fit(X, TARGET)
        facts = model.plan_.problem_class
        problem = problems.squared(rows.of(X), targets, problem_class=facts)
        point = np.asarray(privopt.run(model.plan_, problem, key).released)
        np.testing.assert_array_equal(model.coef_, rows.coefficients(point)[0])
        following = privopt.run(model.plan_, problem, key, stream=1).released
        key = jax.random.fold_in(privopt.random.stream(key, "runs"), 1)
        np.testing.assert_array_equal(privopt.run(model.plan_, problem, key).released, following)


@ignored
def test_the_first_fit_is_reproducible_and_later_ones_are_as_well():
    one, two = chain(3), chain(3)
    np.testing.assert_array_equal(one, two)
    assert len({each.tobytes() for each in one}) == 3


def rebuilt(model):
    return type(model)(**model.get_params())


@pytest.mark.parametrize(
    ("key", "copied"),
    [(KEY, clone), (None, clone), (KEY, deepcopy), (None, deepcopy), (KEY, rebuilt)],
)
def test_a_second_fit_warns_with_the_guarantee_of_both(key, copied):
    """Compare the stated guarantee of copies with ``Guarantee.times``."""
    model = linear(key=key)
    first = model.fit(X, TARGET).guarantee_
    for count in (2, 3):
        with pytest.warns(UserWarning, match=f"key has been used by {count} fits") as caught:
            copied(model).fit(X, TARGET)
        (message,) = [str(each.message) for each in caught if "key has" in str(each.message)]
        stated = float(message.split("satisfy (")[1].split(",")[0])
        exact = first.times(count).epsilon(1e-6).upper
        assert exact <= stated <= exact + 2e-3
        assert "1e-06)-differential privacy under replace_one together" in message


def test_budgets_compose_and_relations_are_stated_one_by_one():
    model = linear()
    one = model.fit(X, TARGET).guarantee_
    other = privopt.Budget(epsilon=0.5, delta=1e-5, relation="replace_one")
    with pytest.warns(UserWarning, match="key has been used by 2 fits") as caught:
        two = model.set_params(budget=other).fit(X, TARGET).guarantee_
    stated = float(str(caught[-1].message).split("satisfy (")[1].split(",")[0])
    assert 0.0 <= stated - one.then(two).epsilon(1e-5).upper <= 2e-3
    third = privopt.Budget(epsilon=2.0, delta=1e-6, relation="zero_out")
    with pytest.warns(UserWarning, match="under replace_one and .* under zero_out together"):
        model.set_params(budget=third).fit(X, TARGET)


def test_a_refused_fit_spends_no_key():
    model = linear(radius=-1.0)
    with pytest.raises(ValueError, match="radius"):
        model.fit(X, TARGET)
    np.testing.assert_array_equal(model.set_params(radius=None).fit(X, TARGET).coef_, chain(1)[0])
    budget = privopt.Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
    model = linear(budget=budget, n=119)
    with pytest.raises(ValueError, match="at most 119, an assumption of the plan"):
        model.fit(X, TARGET)
    expected = linear(budget=budget, n=120).fit(X, TARGET).coef_
    np.testing.assert_array_equal(model.set_params(n=120).fit(X, TARGET).coef_, expected)


@ignored
def test_equal_outputs_have_the_noise_of_successive_fits():
    """Check that the noise differs; equal noise would cancel in the difference of coefficients."""
    outputs = MultiOutputRegressor(linear()).fit(X, np.column_stack([TARGET] * 3))
    coefficients = [each.coef_ for each in outputs.estimators_]
    np.testing.assert_array_equal(coefficients, chain(3))
    assert len({each.tobytes() for each in coefficients}) == 3


@ignored
def test_a_difference_of_two_outputs_is_noise():
    """Compare the distance of two fits on equal targets with that of two independent fits.

    40 keys, rank test; false alarm 1e-3.
    """
    keys = jax.random.split(jax.random.key(8), 40)
    pairs = np.column_stack([TARGET] * 2)
    shared = [
        np.subtract(
            *(
                each.coef_
                for each in MultiOutputRegressor(linear(key=key)).fit(X, pairs).estimators_
            )
        )
        for key in keys
    ]
    single = [linear(key=key).fit(X, TARGET).coef_ for key in jax.random.split(keys[0], 80)]
    differences = np.subtract(single[:40], single[40:])
    norms = [np.linalg.norm(each, axis=1) for each in (shared, differences)]
    assert mannwhitneyu(*norms).pvalue > 1e-3


WRAPPED = {
    "pipeline": lambda: make_pipeline(StandardScaler(), logistic()).fit(X, BINARY),
    "grid search": lambda: GridSearchCV(logistic(), {"radius": [5.0, 50.0]}, cv=2).fit(X, BINARY),
    "without refit": lambda: GridSearchCV(
        logistic(), {"radius": [5.0, 50.0]}, cv=2, refit=False
    ).fit(X, BINARY),
    "one against the rest": lambda: OneVsRestClassifier(logistic()).fit(X, np.argmax(X, axis=1)),
    "bagging": lambda: BaggingClassifier(logistic(), n_estimators=3).fit(X, BINARY),
    "outputs": lambda: MultiOutputRegressor(linear()).fit(X, np.column_stack([TARGET] * 2)),
    "calibrated": lambda: CalibratedClassifierCV(logistic(), cv=2).fit(X, BINARY),
    "stacking": lambda: StackingClassifier(
        [("a", logistic()), ("b", logistic(radius=5.0))], cv=2
    ).fit(X, BINARY),
    "cross-validation": lambda: cross_validate(
        logistic(), X, BINARY, cv=KFold(3), return_estimator=True
    )["estimator"],
}


@pytest.mark.cases(2)
@ignored
@pytest.mark.parametrize("name", few(WRAPPED, ["pipeline", "grid search", "outputs"]))
def test_nothing_around_a_fitted_model_stores_a_key(name):
    result = WRAPPED[name]()
    assert list(inner_models(result))
    for dumps in (pickle.dumps, cloudpickle.dumps):
        blob = dumps(result)
        assert not contains_key(blob)
        unpickled = pickle.loads(blob)
        for each in inner_models(unpickled):
            assert not any(isinstance(value, jax.Array) for value in vars(each).values())
            with pytest.raises(ValueError, match=SPENT):
                each.fit(X, BINARY if isinstance(each, LogisticRegression) else TARGET)
    for text in (repr(result), str(result), getattr(result, "_repr_html_", str)()):
        assert not contains_key(text.encode())


@pytest.mark.cases(3)
@ignored
@pytest.mark.parametrize(
    "name", [each for each in WRAPPED if each not in ("pipeline", "grid search", "without refit")]
)
def test_fits_inside_have_different_noise(name):
    fitted = {
        id(m): m.coef_.tobytes() for m in inner_models(WRAPPED[name]()) if hasattr(m, "coef_")
    }
    assert len(set(fitted.values())) == len(fitted) > 1


def inner_models(thing, visited=None):
    """Yield the private models inside an object, each once."""
    visited = set() if visited is None else visited
    if id(thing) in visited:
        return
    visited.add(id(thing))
    if isinstance(thing, privopt.estimators.PrivateModel):
        yield thing
        return
    inside = [thing] if isinstance(thing, list | tuple) else [getattr(thing, "__dict__", {})]
    for each in inside:
        for value in each.values() if isinstance(each, dict) else each:
            if isinstance(value, dict):
                for inner in value.values():
                    yield from inner_models(inner, visited)
            elif isinstance(value, list | tuple) or hasattr(value, "__dict__"):
                yield from inner_models(value, visited)


def test_an_unfitted_copy_draws_its_own_key_and_the_original_keeps_its_own():
    model = linear()
    blob = pickle.dumps(model)
    assert not contains_key(blob)
    copies = [pickle.loads(blob).fit(X, TARGET).coef_ for _ in range(2)]
    with pytest.warns(UserWarning, match=r"this fit satisfies \(1.000, .* pickled 1 times"):
        own = model.fit(X, TARGET).coef_
    np.testing.assert_array_equal(own, chain(1)[0])
    assert len({each.tobytes() for each in (*copies, own)}) == 3


def test_clones_of_one_pickle_share_what_they_draw():
    """Copy two clones in one pickle, as a batch of joblib does."""
    model = linear()
    one, two = pickle.loads(pickle.dumps([clone(model), clone(model)]))
    first = one.fit(X, TARGET).coef_
    with pytest.warns(UserWarning, match="used by 2 fits"):
        assert not np.array_equal(two.fit(X, TARGET).coef_, first)


@ignored
def test_a_fitted_copy_predicts_and_is_fitted_with_a_new_key():
    model = linear().fit(X, TARGET)
    unpickled = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(unpickled.predict(X), model.predict(X))
    for again in (unpickled, clone(unpickled), pickle.loads(pickle.dumps(unpickled))):
        with pytest.raises(ValueError, match=SPENT):
            again.fit(X, TARGET)
    np.testing.assert_array_equal(unpickled.set_params(key=KEY).fit(X, TARGET).coef_, chain(1)[0])
    assert unpickled.set_params(key=None).fit(X, TARGET).coef_.shape == (3,)


@pytest.mark.parametrize("fits", [0, 1])
def test_a_forked_process_takes_no_key_of_its_parent(monkeypatch, fits):
    model = linear()
    for _ in range(fits):
        model.fit(X, TARGET)
    process = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: process + 1)
    if fits:
        with pytest.raises(ValueError, match=SPENT):
            model.fit(X, TARGET)
    else:
        assert not np.array_equal(model.fit(X, TARGET).coef_, chain(1)[0])


def test_the_default_key_has_64_bits_of_the_operating_system(monkeypatch):
    sizes = []

    def urandom(size):
        sizes.append(size)
        return bytes(range(1, size + 1))

    monkeypatch.setattr(os, "urandom", urandom)
    model = linear(key=None)
    assert model.get_params()["key"] is None
    assert sizes == []
    words = np.frombuffer(bytes(range(1, 9)), np.uint32)
    key = jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")
    np.testing.assert_array_equal(model.fit(X, TARGET).coef_, linear(key=key).fit(X, TARGET).coef_)
    assert sizes == [8]


def test_default_keys_differ():
    results = {linear(key=None).fit(X, TARGET).coef_.tobytes() for _ in range(3)}
    assert len(results) == 3


def test_threads_take_different_keys():
    model = linear().fit(X, TARGET)
    source, used = SpendableKey(KEY), []

    def take():
        for _ in range(25):
            used.append(source.take(model.plan_))  # list.append is atomic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=take) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert len({jax.random.key_data(key).tobytes() for key in used}) == 100


@pytest.mark.parametrize("fits", [0, 1])
def test_no_text_of_parameters_contains_the_key(fits):
    model = linear()
    for _ in range(fits):
        model.fit(X, TARGET)
    parameters = model.get_params()
    texts = [
        repr(model),
        model._repr_html_(),
        repr(parameters),
        json.dumps(parameters, default=repr),
    ]
    texts += [yaml.dump(parameters), repr(vars(model))]
    assert not any(contains_key(text.encode()) for text in texts)
    with pytest.raises(TypeError):
        vars(parameters["key"])


def test_the_key_of_a_fit_is_gone_from_the_fitted_model():
    """Check that the object contains only the next key, which does not reveal the last one."""
    model = linear().fit(X, TARGET)
    following = jax.random.key_data(model.key._key).tolist()
    assert not set(WORDS) & set(following)


@pytest.mark.parametrize("key", [3, np.int64(31337), True])
def test_a_seed_is_refused_by_name(key):
    with pytest.raises(ValueError, match=r"key must be .* jax.random.key\(seed\)") as refusal:
        linear(key=key).fit(X, TARGET)
    assert "31337" not in str(refusal.value)


@pytest.mark.thorough  # as unpickled copies, above
def test_a_worker_process_has_its_own_noise():
    """Run two processes of joblib: their noise differs, and no key is returned."""
    pairs = np.column_stack([TARGET] * 2)
    outputs = MultiOutputRegressor(linear(), n_jobs=2).fit(X, pairs)
    one, two = (each.coef_ for each in outputs.estimators_)
    assert not np.array_equal(one, two)
    assert not contains_key(pickle.dumps(outputs))
    for each in outputs.estimators_:
        with pytest.raises(ValueError, match=SPENT):
            each.fit(X, TARGET)


def test_a_transformer_in_front_takes_no_key():
    line = make_pipeline(FunctionTransformer(), linear())
    np.testing.assert_array_equal(line.fit(X, TARGET)[-1].coef_, chain(1)[0])
