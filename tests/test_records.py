"""Columns: types are public, and one entry affects neither errors nor other entries."""

import datetime
import math
import warnings
from decimal import Decimal
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from privopt import records
from privopt.estimators import Category, Number, Table
from privopt.records import as_column, column_type, places_of

ENTRIES = [
    None, math.nan, math.inf, -math.inf, pd.NA, pd.NaT, np.ma.masked, np.datetime64("NaT"),
    "PERSON-A", "", b"PERSON-A", True, -7, 300, 10**400, 1e308, 5e-324, Decimal("1.5"),
    Decimal("sNaN"), Fraction(1, 3), 1 + 2j, {}, [], (1, [2]), datetime.date(2020, 1, 1),
    np.array([1.0, 2.0]), object(),
]  # fmt: skip


def outcome(call):
    """Return type and message of the exception, if any, and the messages of all warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            call()
            error = None
        except Exception as raised:
            error = type(raised), str(raised)
    return error, [str(each.message) for each in caught]


def objects(entries):
    array = np.empty(len(entries), object)
    for place, entry in enumerate(entries):
        array[place] = entry
    return array


UNTYPED = {
    "list": list,
    "tuple": tuple,
    "array": objects,
    "series": lambda entries: pd.Series(objects(entries), dtype=object),
    "masked": lambda entries: np.ma.array(objects(entries), mask=[False] * len(entries)),
}
DECLARED = {
    "number": Number(0, 100),
    "logarithm": Number(1, 100, log=True),
    "texts": Category(("a", "b")),
    "numbers": Category((1, 2), other=True),
    "booleans": Category((False, True)),
}


@pytest.mark.cases(5)
@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("form", UNTYPED)
def test_one_entry_of_an_untyped_column_decides_nothing_else(form, declared):
    """Compare errors, warnings and features of the other records."""
    table = Table({"x": DECLARED[declared]})
    first = "a" if declared == "texts" else 1
    usual = table.features({"x": UNTYPED[form]([first, first, first])})
    for entry in ENTRIES:
        frame = {"x": UNTYPED[form]([first, entry, first])}
        assert outcome(lambda frame=frame: table.features(frame)) == (None, [])
        rows = table.features(frame)
        np.testing.assert_array_equal(rows[[0, 2]], usual[[0, 2]])
        alone = table.features({"x": UNTYPED[form]([entry])})
        np.testing.assert_array_equal(rows[[1]], alone)
        assert np.linalg.norm(rows[1]) <= table.norm


TYPED = {  # a full column, and the same with one missing entry
    "numpy float": (np.array([1.0, 2.0]), np.array([1.0, np.nan])),
    "numpy float32": (np.array([1, 2], np.float32), np.array([1, np.nan], np.float32)),
    "integers turned floats": (np.array([1, 2]), np.array([1.0, np.nan])),
    "short integers turned floats": (np.array([1, 2], np.int8), np.array([1.0, np.nan])),
    "masked": (np.ma.array([1, 2], mask=[0, 0]), np.ma.array([1, 2], mask=[0, 1])),
    "Int8": (pd.array([1, 2], "Int8"), pd.array([1, pd.NA], "Int8")),
    "Float32": (pd.array([1, 2], "Float32"), pd.array([1, pd.NA], "Float32")),
    "boolean": (pd.array([True, False], "boolean"), pd.array([True, pd.NA], "boolean")),
    "int8[pyarrow]": (
        pd.Series([1, 2], dtype="int8[pyarrow]"), pd.Series([1, None], dtype="int8[pyarrow]"),
    ),
    "arrow integers": (pa.array([1, 2]), pa.array([1, None])),
    "arrow float32": (pa.array([1.0, 2.0], pa.float32()), pa.array([1.0, None], pa.float32())),
    "arrow booleans": (pa.array([True, False]), pa.array([True, None])),
    "arrow chunks": (pa.chunked_array([[1], [2]]), pa.chunked_array([[1], [None]])),
    "texts": (pd.array(["a", "b"], "string"), pd.array(["a", pd.NA], "string")),
    "arrow texts": (pa.array(["a", "b"]), pa.array(["a", None])),
    "categories": (
        pd.Categorical(["a", "b"], ["a", "b"]), pd.Categorical(["a", None], ["a", "b"]),
    ),
    "numbered categories": (pd.Categorical([1, 2], [1, 2]), pd.Categorical([1, None], [1, 2])),
}  # fmt: skip
CLASSES = [(1, 2), (0, 300), (-1, 1), (0.1, 0.2), (2**60 + 1, 5), ("a", "b"), (False, True)]


@pytest.mark.parametrize("known", CLASSES, ids=str)
@pytest.mark.parametrize("name", TYPED)
def test_one_missing_entry_does_not_decide_what_is_refused(name, known):
    """Test also classes beyond the range of integers, which it converts to floats."""
    full, missing = (
        outcome(lambda column=column: places_of(column, known, "y")) for column in TYPED[name]
    )
    assert full == missing
    assert full[1] == []
    full, missing = (
        outcome(lambda column=column: Table({"x": Category(known)}).features({"x": column}))
        for column in TYPED[name]
    )
    assert full == missing


@pytest.mark.parametrize("name", TYPED)
def test_one_missing_entry_does_not_decide_what_is_a_number(name):
    full, missing = (
        outcome(lambda column=column: as_column(column, "y")) for column in TYPED[name]
    )
    assert full == missing
    if full[0] is None:
        one, two = (as_column(column, "y") for column in TYPED[name])
        np.testing.assert_array_equal(one[0], two[0])
        assert np.isnan(two[1])
        assert one.dtype == two.dtype == np.float64


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([1.0], "objects"),
        (range(3), "objects"),
        (np.array(["a"]), "texts"),
        (np.array([b"a"]), "bytes_"),
        (np.array([1], "M8[D]"), "datetime64"),
        (np.ones(1, complex), "complex128"),
        (np.ones(1, np.longdouble), "numbers"),
        (np.ones(1, np.float16), "numbers"),
        (jnp.ones(1), "numbers"),
        (jnp.ones(1, bool), "booleans"),
        (jnp.ones(1, jnp.bfloat16), "numbers"),
        (pd.Series(["a"], dtype="string"), "texts"),
        (pd.Series([1], dtype="category"), "objects"),
        (pd.Series([1], dtype="UInt8"), "numbers"),
        (pd.Series(pd.interval_range(0, 2)), "objects"),
        (pa.array(["a"], pa.large_string()), "texts"),
        (pa.array(["a"]).dictionary_encode(), "objects"),
        (pa.array([1.5], pa.float16()), "numbers"),
        (pa.array([None]), "objects"),
    ],
    ids=lambda each: str(getattr(each, "dtype", getattr(each, "type", each)))[:30],
)  # fmt: skip
def test_types_of_columns(column, expected):
    assert column_type(column) == expected


@pytest.mark.parametrize("name", ["Boolean", "String", "Utf8", "Int64", "UInt8", "Float32", "Date"])
def test_types_of_polars(name):
    class Column:
        dtype = type(name, (), {"__str__": lambda self: name})()

    kinds = {"B": "booleans", "S": "texts", "I": "numbers", "U": "numbers", "F": "numbers"}
    expected = "texts" if name == "Utf8" else kinds.get(name[0], "objects")
    assert column_type(Column()) == expected
    assert (records._short_dtype(Column()) == np.float32) is (name == "Float32")


def test_refusals_of_types_name_the_column_and_no_entry():
    texts, shares = Table({"x": Category(("a", "b"))}), Table({"x": Category((0.1, 0.2))})
    for table, column, rule in (
        (texts, np.array([b"SECRET"]), "column 'x' must hold texts, .* got bytes_"),
        (texts, np.array([True]), "column 'x' must hold texts, .* got booleans"),
        (shares, np.array(["SECRET"]), "column 'x' must hold numbers, .* got texts"),
        (shares, np.array([0.1], np.float32), "type that can hold .* got dtype float32"),
        (shares, pd.array([0.1], "Float32"), "type that can hold .* got dtype float32"),
        (shares, np.array([0.1], np.float16), "type that can hold .* got dtype float16"),
        (shares, np.array([True]), "type that can hold .* got dtype bool"),
        (texts, np.array([["SECRET"]]), r"column 'x' must have 1 axes, got shape \(1, 1\)"),
        (texts, iter(["SECRET"]), "column 'x' must be an array, got .* list_iterator"),
    ):
        with pytest.raises(ValueError, match=rule) as refusal:
            table.features({"x": column})
        assert "SECRET" not in str(refusal.value)


def test_an_object_may_be_a_decimal_or_beyond_all_floats():
    values = as_column([Decimal("2.5"), Fraction(1, 4), 10**400, -(10**400), Decimal("sNaN")], "x")
    np.testing.assert_array_equal(values, [2.5, 0.25, math.inf, -math.inf, math.nan])


@pytest.mark.parametrize(("wide", "short"), [(np.int64, np.int32), (np.uint64, np.uint32)])
def test_an_integer_beyond_the_type_of_the_device_is_the_nearest_in_its_range(wide, short):
    """Wrapping would give a large integer an arbitrary value."""
    ends = np.iinfo(short)
    values = np.array([np.iinfo(wide).min, 7, ends.max + 5, np.iinfo(wide).max], wide)
    with jax.enable_x64(False):
        converted = records.on_device(values)
    assert converted.dtype == short
    assert converted.tolist() == [ends.min, 7, ends.max, ends.max]


def test_masked_objects_are_missing():
    column = np.ma.array(objects([1, 2]), mask=[False, True])
    np.testing.assert_array_equal(as_column(column, "x"), [1.0, math.nan])
    assert places_of(column, (1, 2), "x").tolist() == [0, -1]


@pytest.mark.parametrize(
    "sentinel",
    [
        ["PERSON-A", "PERSON-B"],
        ("PERSON-A", "PERSON-B"),
        [31337.25, 31338.25],
        np.array(["PERSON-A", "PERSON-B"]),
        np.array(["PERSON-A", 31337], object),
        np.array([31337.25, 31338.25]),
        pd.Series(["PERSON-A", "PERSON-B"]),
        pd.Series([31337, pd.NA], dtype="Int64"),
        pd.Series(["PERSON-A", None], dtype="string"),
        pa.array(["PERSON-A", "PERSON-B"]),
        pa.table({"x": ["PERSON-A", "PERSON-B"]}),
        pd.DataFrame({"x": ["PERSON-A", "PERSON-B"]}),
    ],
    ids=lambda each: f"{type(each).__name__} {getattr(each, 'dtype', '')}",
)
def test_a_column_at_the_place_of_a_parameter_is_not_printed(sentinel):
    """Check that the error names the parameter or the declared column."""
    calls = {
        "lower": lambda: Table({"x": Number(sentinel, 100)}),
        "upper": lambda: Table({"x": Number(0, sentinel)}),
        "log": lambda: Table({"x": Number(0, 100, log=sentinel)}),
        "missing": lambda: Table({"x": Number(0, 100, missing=sentinel)}),
        "other": lambda: Table({"x": Category(("a",), other=sentinel)}),
        "norm": lambda: Table({"x": Number(0, 100)}, norm=sentinel),
        "columns": lambda: Table(sentinel),
        "column 'x'": lambda: Table({"x": sentinel}),
        "sparse": lambda: Table({"x": Number(0, 1)}).features({"x": [1.0]}, sparse=sentinel),
        "frame": lambda: Table({"z": Number(0, 1)}).features(sentinel),
    }
    for name, call in calls.items():
        error, told = outcome(call)
        assert error is not None, name
        assert issubclass(error[0], ValueError), (name, error)
        assert name in error[1]
        assert not any(part in error[1] for part in ("PERSON", "31337", "31338"))
        assert told == []
    repeated = (
        [*list(sentinel), *list(sentinel)] if isinstance(sentinel, list | tuple) else sentinel
    )
    error, _ = outcome(lambda: Table({"x": Category(repeated)}))
    assert error is None or "PERSON" not in error[1]
