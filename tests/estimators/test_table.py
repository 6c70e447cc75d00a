"""Tables: features of public declarations, with a norm that holds for every data set."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privopt.estimators import Category, Number, Table

COLUMNS = {
    "age": Number(0, 100),
    "income": Number(100, 10_000, log=True, missing=100),
    "sector": Category(("private", "public")),
    "rank": Category((1, 2, 3), other=True),
}
FRAME = {
    "age": [50, -7, None, 250.0],
    "income": [1000, np.nan, np.inf, 0],
    "sector": ["public", "private", "charity", None],
    "rank": [1, 9, None, 3.0],
    "name": ["a", "b", "c", "d"],  # not declared, so left out
}
FEATURES = [
    [0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0],
    [-1.0, -1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0],
    [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    [1.0, -1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
]


class Polars:
    """Data frame with the members of polars that are used: names, and columns that are arrays."""

    columns = tuple(FRAME)

    def __getitem__(self, name):
        return np.array(FRAME[name], object)


@pytest.mark.parametrize(
    "frame", [FRAME, pd.DataFrame(FRAME), Polars()], ids=["dict", "pandas", "polars"]
)
def test_every_rule_of_one_record(frame):
    table = Table(COLUMNS)
    np.testing.assert_allclose(table.features(frame), FEATURES, atol=1e-12)
    np.testing.assert_allclose(table.features(frame, sparse=True).toarray(), FEATURES, atol=1e-12)
    assert table.names[-4:] == ("rank=1", "rank=2", "rank=3", "rank=*")


@given(
    numbers=st.lists(st.floats(), min_size=1, max_size=5),
    norm=st.sampled_from([0.3, 1.0, 1.5, 7.0]),
    texts=st.text(max_size=3),
)
def test_no_row_is_longer_than_the_norm(numbers, norm, texts):
    table = Table(COLUMNS, norm=norm)
    n = len(numbers)
    frame = {"age": numbers, "income": numbers, "sector": [texts] * n, "rank": [2] * n}
    rows = table.features(frame)
    assert table.norm == min(norm, Table(COLUMNS).norm)
    assert np.all(np.linalg.norm(rows, axis=1) <= table.norm)
    for row in range(n):  # a row depends on its own record single
        single = {name: column[row : row + 1] for name, column in frame.items()}
        np.testing.assert_array_equal(table.features(single)[0], rows[row])


def test_bounds_as_large_as_floats():
    rows = Table({"x": Number(-1.7e308, 1.7e308)}).features({"x": [1.7e308, 0.0, -np.inf]})
    np.testing.assert_allclose(rows.ravel(), [1.0, 0.0, -1.0])


def test_frames_of_pandas_with_types_of_its_own():
    frame = pd.DataFrame(
        {
            "age": pd.array([25, None], "Int64"),
            "sector": pd.Categorical(["private", None]),
        }
    )
    table = Table({name: COLUMNS[name] for name in frame.columns})
    assert table.features(frame).tolist() == [[-0.5, 1.0, 0.0], [0.0, 0.0, 0.0]]
    masked = np.ma.array([25, 77], mask=[False, True])
    empty = {"age": masked, "sector": np.array([np.nan, np.nan])}  # as a CSV without entries
    assert table.features(empty).tolist() == [[-0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]


DECLARATIONS = {
    r"columns must be a dict": [],
    r"column 'age' must have public bounds": {"age": Number()},
    r"column 'age' must be a Number .* got an object of type str": {"age": "number"},
    r"column 'age' must have finite bounds.* got 0.0 and inf": {"age": Number(0, np.inf)},
    r"column 'age' must have finite bounds.* got 2.0 and 1.0": {"age": Number(2, 1)},
    r"lower of column 'age' must be a real number": {"age": Number("0", 1)},
    r"lower of column 'age' must be positive if log": {"age": Number(0, 1, log=True)},
    r"log of column 'age' must be True or False": {"age": Number(0, 1, log=10)},
    r"missing of column 'age' must be within its bounds": {"age": Number(0, 1, missing=2)},
    r"categories of column 'sector' must be a sequence": {"sector": Category("private")},
    r"categories of column 'sector' must be 1 or more": {"sector": Category(())},
    r"categories of column 'sector' must be 1 or more distinct": {"sector": Category(("a", "a"))},
    r"categories of column 'sector' must be texts alone": {"sector": Category(("a", None))},
    r"categories of column 'sector' must be .* numbers and": {"sector": Category(([1], [2]))},
    r"categories of column 'sector' must be .* got an object of type tuple": {
        "sector": Category((np.nan, 1.0))
    },
    r"bounds of column 'age' must have a larger difference": {"age": Number(0, 5e-324)},
    r"bounds of column 'age' must have a larger difference, got 1e\+300": {
        "age": Number(1e300, np.nextafter(1e300, np.inf), log=True)
    },
    r"other of column 'sector' must be True or False": {"sector": Category(("a",), other=1)},
}


@pytest.mark.parametrize("rule", DECLARATIONS)
def test_a_declaration_is_refused_by_the_name_of_its_column(rule):
    with pytest.raises(ValueError, match=rule):
        Table(DECLARATIONS[rule])


FRAMES = {
    r"frame must have the column 'sector', got age, sektor; did you mean sektor": {
        "age": [1],
        "sektor": ["secret"],
    },
    r"columns must have equal lengths, got {'age': 2, 'sector': 1}": {
        "age": [1, 2],
        "sector": ["secret"],
    },
    r"column 'age' must be numeric, got texts": {
        "age": np.array(["secret"]),
        "sector": ["secret"],
    },
    r"column 'age' must have 1 axes, got shape \(1, 1\)": {
        "age": np.array([[1]]),
        "sector": ["secret"],
    },
    r"column 'sector' must hold texts.* got booleans": {"age": [1], "sector": np.array([True])},
    r"column 'sector' must be an array, got .* type list_iterator": {
        "age": [1],
        "sector": iter(["secret"]),
    },
    r"frame must be a data frame or a dict of columns, got an object of type list": [["secret"]],
    r"frame must be .* got an object of type list_iterator": iter(["secret"]),
}


@pytest.mark.parametrize("rule", FRAMES)
def test_a_frame_is_refused_without_a_value_of_it(rule):
    table = Table({"age": Number(0, 100), "sector": Category(("private", "public"))})
    with pytest.raises(ValueError, match=rule) as refusal:
        table.features(FRAMES[rule])
    assert "secret" not in str(refusal.value)
    assert "31337" not in str(refusal.value)


@pytest.mark.parametrize("strange", [{}, (1, [2]), Decimal("sNaN"), b"2", "text", 1 + 2j])
def test_an_entry_that_cannot_be_a_category_is_no_exception(strange):
    """Test entries without a hash, or with a hash that raises."""
    entries = np.empty(2, object)
    entries[:] = strange, 2
    rows = Table({"rank": COLUMNS["rank"]}).features({"rank": entries})
    assert rows.tolist() == [[0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0]]


def test_entries_of_a_type_that_no_category_has_are_refused():
    """Check for an error; otherwise all features would be zeros without a warning."""
    texts, shares = Table({"x": Category(("a", "b"))}), Table({"x": Category((0.1, 0.2))})
    with pytest.raises(ValueError, match=r"column 'x' must hold texts, .* got bytes_"):
        texts.features({"x": np.array([b"a", b"b"])})
    with pytest.raises(ValueError, match=r"column 'x' must be of a type that can hold .* float32"):
        shares.features({"x": np.array([0.1, 0.2], np.float32)})
    assert shares.features({"x": [0.1, np.float32(np.nan), 0.2]}).tolist()[0] == [1.0, 0.0]


def test_columns_are_found_by_their_own_names():
    numbered = pd.DataFrame([[0.5, 1.0]])
    assert Table({1: Number(0, 1)}).features(numbered).tolist() == [[1.0]]
    with pytest.raises(ValueError, match="frame must have the column '1', got 0, 1"):
        Table({"1": Number(0, 1)}).features(numbered)


def test_norm_must_be_public_and_positive():
    with pytest.raises(ValueError, match=r"norm must be positive and finite, got -1"):
        Table(COLUMNS, norm=-1)
