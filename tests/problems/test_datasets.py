"""Real data sets: reading, public scaling, and errors that name the file."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
import sklearn.datasets
from refusals import refused
from selection import few

from privopt.problems import datasets
from privopt.problems.datasets import DATASETS, Dataset, available, load, raw
from privopt.problems.sources import SOURCES

SHIPPED = {"breast_cancer": (569, 30), "digits": (1_797, 64)}
# name: path, rows, columns, labels in the file (-, +), divisor, dropped columns
FILES = {
    "a9a": ("a9a/a9a.gz", 32_561, 123, (-1, 1), math.sqrt(14), 0),
    "a9a_test": ("a9a/a9a.t.gz", 16_281, 123, (-1, 1), math.sqrt(14), 0),
    "breast_cancer_original": ("breast-cancer/breast-cancer.gz", 683, 10, (2, 4), 30.0, 1),
    "mushrooms": ("mushrooms/mushrooms.gz", 8_124, 112, (0, 1), math.sqrt(21), 0),
    "phishing": ("phishing/phishing.gz", 11_055, 68, (0, 1), 1.0, 0),
    "w8a": ("w8a/w8a.gz", 49_749, 300, (-1, 1), 1.0, 0),
}
POSITIVE = {"a9a": 7_841, "a9a_test": 3_846, "breast_cancer": 212, "breast_cancer_original": 239,
            "digits": 891, "mushrooms": 3_916, "phishing": 6_157, "w8a": 1_479}  # fmt: skip
# name: rows of the parts, columns, how many are positive
TEXTS = {"rcv1": ((1_000, 500), 47_236, 704), "sector": ((6_412, 3_207), 55_197, 4_826)}
REVIEWS = {"imdb": 12_500, "imdb_test": 12_500}  # how many of 25,000 are positive
# name: rows, columns once measured, how many are positive; in formats of their own
MEASURED = {
    "covertype": (20_000, 54, 6_022),
    "kddcup99": (494_021, 122, 396_743),
    "kddcup99_test": (311_029, 122, 250_436),
    "mnist": (60_000, 196, 29_492),
    "mnist_test": (10_000, 196, 4_926),
}
# Without PRIVOPT_DATA the sets that need files are not parameters: no test is skipped.
LARGE = {"kddcup99", "kddcup99_test", "mnist", "w8a"}  # seconds each, in formats of the others
LOADABLE = [name for name in available() if name not in {*TEXTS, *REVIEWS}]


def lines_for(name):
    """Return rows that cycle through the columns, two entries each; every third is positive."""
    _, rows, columns, signs, _, _ = FILES[name]
    return [
        f"{signs[row % 3 == 0]} {1 + row % (columns - 1)}:0.25 {columns}:0.5" for row in range(rows)
    ]


def write(folder, name, lines):
    path = folder / FILES[name][0]
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), 1))
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIVOPT_DATA", str(tmp_path))
    return tmp_path


def example(**changes):
    fields = {"features": np.eye(3), "labels": np.array([1.0, -1.0, 1.0])}
    return Dataset(**{"name": "example", "source": "here", "notes": "none", **fields, **changes})


@pytest.mark.cases(4)
@pytest.mark.parametrize("name", few(LOADABLE, set(LOADABLE) - LARGE))
def test_loadable_sets_have_the_declared_properties(name):
    data = load(name)
    if name in MEASURED:
        rows, columns, positive = MEASURED[name]
    else:
        _, rows, columns, *_, drop = FILES.get(name) or ("", *SHIPPED[name], 0)
        columns, positive = columns - drop, POSITIVE[name]
    assert data.name == name
    assert data.features.shape == (rows, columns)
    assert data.labels.shape == (rows,)
    assert data.features.dtype == data.labels.dtype == np.float64
    assert np.isfinite(data.features).all()
    assert set(np.unique(data.labels)) == {-1.0, 1.0}
    assert np.sum(data.labels == 1.0) == positive
    assert data.row_norm_bound == 1.0
    for dtype in (np.float64, np.float32):
        norms = np.linalg.norm(data.features.astype(dtype).astype(np.float64), axis=1)
        assert np.all(norms <= 1.0)
        assert norms.max() > 0.5


@pytest.mark.parametrize("name", few([name for name in TEXTS if name in available()], ["rcv1"]))
def test_texts_contain_the_largest_entries_of_every_document(name):
    """Compare 50 rows with the file, document by document."""
    data, (rows, columns, positive) = load(name), TEXTS[name]
    assert data.features.shape == (sum(rows), columns)
    assert scipy.sparse.issparse(data.features)
    assert data.sparsity == np.diff(data.features.indptr).max() == datasets.MAX_WORDS
    assert np.sum(data.labels == 1.0) == positive
    folder = Path(os.environ["PRIVOPT_DATA"])
    path = folder / datasets.FILES[name][0]
    with {".bz2": bz2, ".gz": gzip}[path.suffix].open(path) as file:
        lines = io.BytesIO(b"".join(itertools.islice(file, 50)))
    first = sklearn.datasets.load_svmlight_file(lines, n_features=columns, zero_based=False)[0]
    for number in range(50):
        row = first[[number]].toarray()[0]
        largest = np.argsort(-row, kind="stable")[: datasets.MAX_WORDS]
        expected = np.zeros(columns)
        expected[largest] = row[largest]
        expected *= min(1.0, (1.0 - 2.0**-20) / np.linalg.norm(expected))
        np.testing.assert_allclose(data.features[[number]].toarray()[0], expected, atol=1e-15)


@pytest.mark.thorough  # of one data set
@pytest.mark.parametrize("name", few([name for name in REVIEWS if name in available()], ["imdb"]))
def test_reviews_count_the_last_words_of_every_text(name):
    """Compare with the file, text by text."""
    counts, labels = raw(name)
    assert counts.shape == (25_000, 10_000)
    assert labels.sum() == REVIEWS[name]
    part = "test" if name.endswith("test") else "train"
    with np.load(Path(os.environ["PRIVOPT_DATA"]) / datasets.FILES[name][0]) as file:
        codes, ends = file[f"x_{part}"].astype(int), file[f"offsets_{part}"]
    for number in (0, 1, 17, 24_999):
        text = codes[ends[number] : ends[number + 1]][-256:]
        expected = np.bincount(np.where(text < 10_000, text, 2), minlength=10_000)
        np.testing.assert_array_equal(counts[[number]].toarray()[0], expected)
    data = load(name)
    assert np.diff(data.features.indptr).max() == data.sparsity == datasets.MAX_WORDS
    assert set(np.unique(data.labels)) == {-1.0, 1.0}


def reviews(path, texts=((7, 4, 7), (9, 12_000, *(5,) * 256)), labels=(0, 1), **changes):
    """Write a file of token codes."""
    arrays = {
        "x_train": np.array([code for text in texts for code in text], np.uint16),
        "offsets_train": np.cumsum([0, *map(len, texts)]),
        "y_train": np.array(labels, np.uint8),
    }
    path.parent.mkdir()
    np.savez(path, **{name: changes.get(name, array) for name, array in arrays.items()})


def test_raw_reviews_are_counts_and_raw_images_pixels(folder, monkeypatch):
    monkeypatch.setitem(SOURCES, "imdb", SOURCES["imdb"]._replace(rows=(2,)))
    reviews(folder / "imdb" / "imdb_tokens.npz")
    counts, labels = raw("imdb")
    np.testing.assert_array_equal(labels, [0.0, 1.0])
    assert counts.shape == (2, 10_000)
    assert (counts[0, 7], counts[0, 4], counts[1, 5]) == (2.0, 1.0, 256.0)
    assert counts.sum() == 3 + 256  # the first two of the long one are cut
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
    small(monkeypatch, folder, "mnist", 3, bytes(16) + images.tobytes(), bytes(8) + b"\4\7\0")
    pixels, digits = raw("mnist")
    np.testing.assert_array_equal(pixels, images.reshape(3, -1))
    np.testing.assert_array_equal(digits, [4.0, 7.0, 0.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": (0, 1, 1)}, "is not a valid NPZ file of texts: 2 texts of 261 codes for 3"),
        ({"labels": (0, 2)}, r"must hold labels 0 and 1, found \[0.0, 2.0\]"),
        ({"offsets_train": np.array([0, 3, 999])}, "is not a valid NPZ file of texts: 2 texts"),
    ],
)
def test_unsound_reviews_are_refused_by_file_and_reason(folder, monkeypatch, changes, message):
    monkeypatch.setitem(SOURCES, "imdb", SOURCES["imdb"]._replace(rows=(2,)))
    reviews(folder / "imdb" / "imdb_tokens.npz", **changes)
    with pytest.raises(ValueError, match=rf"npz \(PRIVOPT_DATA\) {message}"):
        raw("imdb")


def test_raw_sets_that_are_missing_are_named(folder):
    with pytest.raises(FileNotFoundError, match=r"imdb needs the file .*imdb_tokens\.npz"):
        raw("imdb")
    with pytest.raises(ValueError, match=r"name must be one of .*imdb.*, got 'imbd'"):
        raw("imbd")


def test_a_data_set_of_sparse_rows_is_a_copy_that_is_read_only_and_checked():
    rows = scipy.sparse.csr_array(np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
    data = example(features=rows, sparsity=2)
    data.check()
    rows.data[0] = 7.0
    assert data.features[0, 0] == 0.6
    with pytest.raises(ValueError, match="read-only"):
        data.features.data[0] = 7.0
    np.testing.assert_array_equal(
        data.subset(3).features.toarray(),
        example(features=data.features.toarray()).subset(3).features,
    )
    with pytest.raises(ValueError, match="at most 1 entries in a row, but 1 of 3"):
        replace(data, sparsity=1).check()
    with pytest.raises(ValueError, match=r"rows of norm at most 1.0, but 1 of 3"):
        example(features=rows).check()


def test_digits_are_pixels_over_128_and_the_label_is_parity():
    raw = sklearn.datasets.load_digits()
    data = load("digits")
    np.testing.assert_allclose(data.features * 128.0, raw.data, rtol=1e-15)
    np.testing.assert_array_equal(data.labels == 1.0, np.isin(raw.target, (0, 2, 4, 6, 8)))


def test_breast_cancer_is_scaled_by_constants_and_malignant_is_positive():
    raw = sklearn.datasets.load_breast_cancer()
    data = load("breast_cancer")
    column = {name: index for index, name in enumerate(raw.feature_names)}
    bounds = {"mean radius": 40.0, "area error": 500.0, "worst area": 5000.0,
              "concavity error": 0.15, "worst fractal dimension": 0.25}  # fmt: skip
    for name, bound in bounds.items():
        expected = np.minimum(raw.data[:, column[name]] / bound, 1.0) / math.sqrt(30.0)
        np.testing.assert_allclose(data.features[:, column[name]], expected, rtol=1e-15)
    np.testing.assert_array_equal(data.labels == 1.0, raw.target_names[raw.target] == "malignant")


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_as_written(folder, name):
    write(folder, name, lines_for(name))
    data = load(name)
    _, rows, columns, _, divisor, drop = FILES[name]
    expected = np.zeros((rows, columns))
    expected[np.arange(rows), np.arange(rows) % (columns - 1)] = 0.25 / divisor
    expected[:, columns - 1] = 0.5 / divisor
    np.testing.assert_allclose(data.features, expected[:, drop:], rtol=1e-15)
    np.testing.assert_array_equal(data.labels, np.where(np.arange(rows) % 3 == 0, 1.0, -1.0))


@pytest.mark.parametrize("name", ["breast_cancer_original", "mushrooms"])
def test_one_record_changes_one_row_only(folder, name):
    lines = lines_for(name)
    write(folder, name, lines)
    before = load(name)
    lines[7] = f"{FILES[name][3][1]} 2:1000 3:-3000"
    write(folder, name, lines)
    after = load(name)
    others = np.arange(len(lines)) != 7
    np.testing.assert_array_equal(after.features[others], before.features[others])
    np.testing.assert_array_equal(after.labels[others], before.labels[others])
    assert np.any(after.features[7] != before.features[7])
    # Clipped, never refused, and with room for the rounding of a cast to float32.
    assert 1.0 - 1e-5 < np.linalg.norm(after.features[7]) < 1.0 - 2.0**-24


@pytest.mark.parametrize("name", SHIPPED)
def test_one_record_changes_one_row_of_a_shipped_set(monkeypatch, name):
    before = load(name)
    features, target = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    features[7] *= 1e6
    monkeypatch.setattr(sklearn.datasets, f"load_{name}", lambda return_X_y: (features, target))
    after = load(name)
    others = np.arange(len(target)) != 7
    np.testing.assert_array_equal(after.features[others], before.features[others])
    assert np.any(after.features[7] != before.features[7])
    assert np.linalg.norm(after.features[7]) <= 1.0


def small(monkeypatch, folder, name, rows, *contents):
    """Register a data set with this number of rows and write its files."""
    source = SOURCES[name]._replace(rows=(rows,))
    monkeypatch.setitem(SOURCES, name, source)
    for path, content in zip(source.files, contents, strict=True):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_bytes(gzip.compress(content))


def test_covertype_is_measured_by_public_ranges(folder, monkeypatch):
    numbers = [2750, 90, 45, 3000, -1500, 0, 51, 255, 0, 2500]
    measured = [0.5, 0.25, 0.5, 1.0, 0.0, 0.0, 0.2, 1.0, 0.0, 0.25]  # cut to the range beyond it
    indicators = [0] * 44
    indicators[3] = indicators[20] = 1
    lines = [[*numbers, *indicators, label] for label in (2, 7)]
    content = "".join(",".join(map(str, line)) + "\n" for line in lines).encode()
    small(monkeypatch, folder, "covertype", 2, content)
    data = load("covertype")
    expected = np.array([*measured, *indicators])
    expected *= (1.0 - 2.0**-20) / np.linalg.norm(expected)
    np.testing.assert_allclose(data.features, [expected, expected], rtol=1e-15)
    np.testing.assert_array_equal(data.labels, [1.0, -1.0])
    np.testing.assert_array_equal(data.classes, [2.0, 7.0])


def connection(**changes):
    """Return a line of the KDD Cup data: an empty normal connection, with changes."""
    cells = dict.fromkeys(range(41), "0") | {1: "tcp", 2: "http", 3: "SF", 41: "normal."}
    return ",".join((cells | {int(key[1:]): value for key, value in changes.items()}).values())


def test_connections_are_logarithms_and_indicators_of_public_words(folder, monkeypatch):
    lines = [
        connection(),
        connection(_0="5", _4="2000000000", _22="511", _24="0.25", _41="smurf."),
        connection(_1="icmp", _2="of no list", _3="SH"),
    ]
    small(monkeypatch, folder, "kddcup99", 3, "\n".join(lines).encode())
    data = load("kddcup99")
    np.testing.assert_array_equal(data.labels, [-1.0, 1.0, -1.0])
    words = {"tcp": 38, "icmp": 40, "http": 41 + 21, "SF": 111 + 9, "SH": 111 + 10}
    expected = np.zeros((3, 122))
    for row, values in enumerate((("tcp", "http", "SF"), ("tcp", "http", "SF"), ("icmp", "SH"))):
        expected[row, [words[word] for word in values]] = 1.0
    # Of the 41 columns the words' three are gone: 22 is the 19th number, 24 the 21st.
    expected[1, 0] = math.log(6.0) / math.log(100_001.0)
    expected[1, 1] = 1.0
    expected[1, 19] = math.log(512.0) / math.log(513.0)
    expected[1, 21] = math.log(1.25) / math.log(2.0)
    expected *= (1.0 - 2.0**-20) / np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(data.features, expected, rtol=1e-14)


def test_images_are_means_of_four_pixels_and_the_label_is_parity(folder, monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 28), dtype=np.uint8)
    contents = bytes(16) + images.tobytes(), bytes(8) + bytes([4, 7, 0])
    small(monkeypatch, folder, "mnist", 3, *contents)
    data = load("mnist")
    means = np.array([[images[0][r : r + 2, c : c + 2].mean() for c in range(0, 28, 2)]
                      for r in range(0, 28, 2)]).ravel()  # fmt: skip
    expected = means * (1.0 - 2.0**-20) / np.linalg.norm(means)
    np.testing.assert_allclose(data.features[0], expected, rtol=1e-14)
    np.testing.assert_array_equal(data.labels, [1.0, -1.0, 1.0])
    np.testing.assert_array_equal(data.classes, [4.0, 7.0, 0.0])
    part = data.subset(2)
    np.testing.assert_array_equal(part.classes % 2 == 0, part.labels == 1.0)


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("kddcup99", (b"0,tcp,http\n",), "is not a valid CSV file: .*number of fields"),
        ("covertype", (b"0,1,2\n",), r"must be 1 x 54 \(rows x columns\), found 1 x 2"),
        ("kddcup99", (connection(_0="nan").encode(),), "must hold finite values"),
        ("kddcup99", (connection(_0="far").encode(),), "is not a valid CSV file: .*far"),
        ("kddcup99", (b"",), "is not a valid CSV file: its first line is empty"),
        ("covertype", (b"0," * 54 + b"8",), r"must hold labels 1 to 7, found \[8.0\]"),
        ("mnist", (bytes(16 + 784), bytes(8 + 2)), "is not a valid IDX file: 784 pixels for 2"),
        ("mnist", (bytes(16 + 784), bytes(8) + b"\n"), r"must hold labels 0 to 9, found \[10.0\]"),
    ],
)
def test_an_unsound_table_is_refused_by_file_and_reason(
    folder, monkeypatch, name, contents, message
):
    small(monkeypatch, folder, name, 1, *contents)
    with pytest.raises(ValueError, match=rf"\.gz \(PRIVOPT_DATA\) {message}"):
        load(name)


def test_empty_rows_and_absent_last_columns_are_sound(folder):
    write(folder, "breast_cancer_original", ["2"] * 682 + ["4 2:10"])
    data = load("breast_cancer_original")
    assert data.features.shape == (683, 9)
    assert np.count_nonzero(data.features) == 1
    assert data.features[-1, 0] == pytest.approx(1.0 / 3.0)


BROKEN_LINES = {
    "2 11:1": "must be 683 x 10 .* found 683 x 11",
    "2 0:1": "is not a valid LIBSVM file: .*index 0",
    "2 3:1 2:1": "is not a valid LIBSVM file: .*sorted",
    "2 2:nan": "must hold finite values",
    "3 2:1": r"must hold labels 2 and 4, found \[2.0, 3.0, 4.0\]",
}


@pytest.mark.parametrize("line", BROKEN_LINES)
def test_a_broken_line_is_refused_by_file_and_reason(folder, line):
    lines = lines_for("breast_cancer_original")
    lines[5] = line
    write(folder, "breast_cancer_original", lines)
    message = rf"breast-cancer\.gz \(PRIVOPT_DATA\) {BROKEN_LINES[line]}"
    with pytest.raises(ValueError, match=message):
        load("breast_cancer_original")


@pytest.mark.parametrize("change", [-1, 1])
def test_a_wrong_number_of_rows_is_refused(folder, change):
    name = "breast_cancer_original"
    lines = lines_for(name)
    write(folder, name, lines[:-1] if change < 0 else [*lines, lines[-1]])
    path, rows, columns, *_ = FILES[name]
    message = f"{path} .*must be {rows} x {columns} .* found {rows + change} x {columns}"
    with pytest.raises(ValueError, match=message):
        load(name)


@pytest.mark.parametrize(
    "damage",
    [
        lambda packed: gzip.decompress(packed),
        lambda packed: packed[: len(packed) // 2],
        lambda packed: packed[:-8] + bytes(8),
        lambda packed: packed[:40] + bytes(byte ^ 255 for byte in packed[40:80]) + packed[80:],
        lambda packed: b"",
    ],
    ids=["not gzip", "cut short", "wrong checksum", "flipped bits", "empty"],
)
def test_a_corrupt_file_is_refused_by_name(folder, damage):
    path = write(folder, "breast_cancer_original", lines_for("breast_cancer_original"))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(ValueError, match=r"breast-cancer\.gz \(PRIVOPT_DATA\)"):
        load("breast_cancer_original")


def test_an_unreadable_file_is_named(folder, monkeypatch):
    write(folder, "a9a", lines_for("a9a")[:1])

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sklearn.datasets, "load_svmlight_file", refuse)
    with pytest.raises(OSError, match=r"a9a\.gz \(PRIVOPT_DATA\) cannot be read: .*denied"):
        load("a9a")


@pytest.mark.parametrize("variable", ["unset", "empty", "folder"])
@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named_and_never_replaced(folder, monkeypatch, name, variable):
    path = FILES[name][0]
    if variable == "unset":
        monkeypatch.delenv("PRIVOPT_DATA")
    elif variable == "empty":
        monkeypatch.setenv("PRIVOPT_DATA", "")
    else:
        path = str(folder / path)
    with pytest.raises(FileNotFoundError) as caught:
        load(name)
    for part in (name, path, "PRIVOPT_DATA", *SHIPPED):
        assert part in str(caught.value)
    assert available() == tuple(SHIPPED)


def test_a_variable_that_names_no_folder_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PRIVOPT_DATA", str(tmp_path / "typo"))
    for call in (available, lambda: load("a9a")):
        with pytest.raises(FileNotFoundError, match=r"PRIVOPT_DATA must name a folder, got .*typo"):
            call()


def test_available_lists_the_files_that_are_there(folder):
    write(folder, "mushrooms", [])
    assert available() == ("breast_cancer", "digits", "mushrooms")


def test_missing_reports_the_reason_without_reading_a_file(folder, monkeypatch):
    assert {name for name in DATASETS if datasets.missing(name) is None} == set(SHIPPED)
    write(folder, "a9a", []).write_bytes(b"no data")
    assert datasets.missing("a9a") is None
    monkeypatch.delenv("PRIVOPT_DATA")
    assert "needs the environment variable PRIVOPT_DATA" in datasets.missing("a9a")
    assert datasets.missing("digits") is None


def test_every_data_set_is_listed_by_name():
    needing = {*FILES, *TEXTS, *REVIEWS, *MEASURED}
    assert list(DATASETS) == sorted(set(SHIPPED) | needing)
    assert set(datasets.FILES) == needing


def test_subsets_nest_and_are_the_same_every_time():
    whole = load("breast_cancer")
    rows = whole.labels.size
    marked = example(features=np.arange(rows)[:, None] / rows, labels=whole.labels)
    indices = np.rint(marked.subset(rows).features[:, 0] * rows).astype(int)
    np.testing.assert_array_equal(np.sort(indices), np.arange(rows))
    assert np.sum(indices == np.arange(rows)) < 20  # a permutation, not the file's order
    for n in (1, 100, rows):
        part = whole.subset(n)
        assert (part.name, part.source, part.notes) == (whole.name, whole.source, whole.notes)
        np.testing.assert_array_equal(part.features, whole.features[indices[:n]])
        np.testing.assert_array_equal(part.labels, whole.labels[indices[:n]])


def test_the_permutation_is_pinned():
    marked = example(features=np.arange(8.0)[:, None] / 8.0, labels=np.ones(8))
    assert (marked.subset(8).features[:, 0] * 8.0).tolist() == [1, 7, 5, 3, 4, 0, 2, 6]


@pytest.mark.parametrize("n", [0, 570, 2.5])
def test_a_subset_of_impossible_size_is_refused_by_name(n):
    with pytest.raises(ValueError, match=r"n must be .* from 1 to 569.*breast_cancer"):
        load("breast_cancer").subset(n)


def test_arrays_are_copied_and_read_only():
    mine = np.eye(3)
    data = example(features=mine)
    mine[0, 0] = 9.0
    assert data.features[0, 0] == 1.0
    for array in (data.features, data.labels):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0
    with pytest.raises(AttributeError):
        data.name = "other"


test_bad_fields_are_refused_by_name = refused(
    ({"features": np.ones(3)}, r"features must have shape \(n, d\), got \(3,\)"),
    ({"features": np.ones((0, 3)), "labels": np.ones(0)}, r"features must have shape"),
    ({"labels": np.ones(2)}, r"labels must have shape \(3,\), got \(2,\)"),
    ({"labels": np.ones((3, 1))}, r"labels must have shape \(3,\), got \(3, 1\)"),
    ({"labels": np.array(["1", "secret", "1"])}, "labels must be numeric, got texts"),
    ({"row_norm_bound": 0.0}, "row_norm_bound must be positive and finite, got 0.0"),
    ({"row_norm_bound": math.nan}, "row_norm_bound must be positive and finite, got nan"),
    of=example,
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": np.diag([1.0, np.nan, np.inf])}, "features must be finite, but 2 of 3 .* 1"),
        (
            {"labels": np.array([1.0, 0.0, 1.0])},
            r"labels must be -1 or \+1, but 1 of 3 .* record 1",
        ),
        ({"labels": np.array([1.0, 1.0, np.nan])}, r"labels must be -1 or \+1, but .* record 2"),
        ({"features": np.diag([1.0, 1.0, 1.001])}, "rows of norm at most 1.0, but 1 of 3 .* 2"),
    ],
)
def test_only_check_reports_invalid_values(changes, message):
    data = example(**changes)
    with pytest.raises(ValueError, match=message):
        data.check()


def test_load_checks_the_values(monkeypatch):
    bad = example(labels=np.zeros(3))
    monkeypatch.setitem(DATASETS, "digits", lambda: bad)
    with pytest.raises(ValueError, match=r"labels must be -1 or \+1, but 3 of 3"):
        load("digits")
