"""Real data sets, scaled into the unit ball row by row.

Each row is scaled by the constants in `SOURCES` and then clipped to the unit ball. A change of one
record changes one row only. The Lipschitz constant that follows from the row norm therefore holds
for every data set.

Two sets ship with scikit-learn. The others are read from the folder in the environment variable
``PRIVOPT_DATA`` (an empty value counts as unset). Data sets are never downloaded and never
replaced by others.

Texts are matrices of ``scipy.sparse`` with one column per word. Each document keeps its
``MAX_WORDS`` largest entries, so a sparsity can be declared.
"""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse
from jaxtyping import Float64

from privopt.arguments import Catalogue, member, positive_number, shown
from privopt.problems.sources import MAX_WORDS, SOURCES, DataSource, FloatArray, Table
from privopt.records import as_array

VARIABLE = "PRIVOPT_DATA"

# Rows are clipped slightly inside the unit ball, so that their norm stays below 1 in float32.
CLIP_RADIUS = 1.0 - 2.0**-20

FILES = {name: source.files for name, source in SOURCES.items() if source.files}

# Fixed and public, so subsets are the same everywhere and spend no privacy.
_PERMUTATION_SEED = 20_261_120

# Errors that readers raise for a corrupt file. An unreadable file raises another OSError.
_CORRUPT = (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, EOFError, ValueError, OverflowError,
            KeyError)  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """Binary classification data set with a public bound on the row norms.

    ``features`` (n, d), an array or a ``scipy.sparse.csr_array``, and ``labels`` (n,), -1 or +1,
    are float64 and read-only. Rows have Euclidean norm at most ``row_norm_bound`` and at most
    ``sparsity`` entries (any number if it is None). Both bounds are declared, never measured.
    ``classes`` (n,) are the published labels if there are more than two. ``notes`` describes the
    meaning of +1 and the scaling. Only :meth:`check` reads the values.

    Examples
    --------
    >>> from privopt import problems
    >>> digits = problems.DATASETS["digits"]()
    >>> digits.features.shape, digits.subset(100).labels.shape
    ((1797, 64), (100,))
    """

    name: str
    features: Float64[np.ndarray, "n d"] | scipy.sparse.csr_array = field(repr=False)
    labels: Float64[np.ndarray, " n"] = field(repr=False)
    source: str
    notes: str
    row_norm_bound: float = 1.0
    sparsity: int | None = None
    classes: Float64[np.ndarray, " n"] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if scipy.sparse.issparse(self.features):
            features = scipy.sparse.csr_array(self.features, dtype=np.float64, copy=True)
            features.sort_indices()
            parts = [features.data, features.indices, features.indptr]
        else:
            features = np.array(as_array(self.features, "features"), dtype=np.float64, order="C")
            parts = [features]
        labels = np.array(as_array(self.labels, "labels"), dtype=np.float64)
        if features.ndim != 2 or 0 in features.shape:
            raise ValueError(f"features must have shape (n, d), got {features.shape}")
        if labels.shape != features.shape[:1]:
            raise ValueError(f"labels must have shape {features.shape[:1]}, got {labels.shape}")
        positive_number("row_norm_bound", self.row_norm_bound)
        if self.classes is not None:
            classes = np.array(as_array(self.classes, "classes"), dtype=np.float64)
            if classes.shape != labels.shape:
                raise ValueError(f"classes must have shape {labels.shape}, got {classes.shape}")
            parts.append(classes)
            object.__setattr__(self, "classes", classes)
        for array in (*parts, labels):
            array.setflags(write=False)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "labels", labels)

    def check(self) -> None:
        """Check that the values are as declared; only for data that may be inspected.

        ``ValueError`` reports how many rows are not finite, exceed the bound by more than rounding
        or have a label other than -1 and +1, and the index of the first.
        """
        norms, entries = _row_norms(self.features), _row_entries(self.features)
        limit = self.features.shape[1] if self.sparsity is None else self.sparsity
        rules = {
            "features must be finite": ~np.isfinite(norms),
            "labels must be -1 or +1": ~np.isin(self.labels, (-1.0, 1.0)),
            f"features must have rows of norm at most {shown(self.row_norm_bound)}": (
                norms > self.row_norm_bound * (1.0 + 1e-9)
            ),
            f"features must have at most {limit} entries in a row": entries > limit,
        }
        for rule, broken in rules.items():
            if broken.any():
                raise ValueError(
                    f"{rule}, but {int(broken.sum())} of {broken.size} records of {self.name} "
                    f"break it, the first is record {int(np.argmax(broken))}"
                )

    def subset(self, n: int) -> Dataset:
        """Return the first ``n`` rows of a fixed public permutation; subsets are nested.

        The permutation depends on the number of rows only. It is therefore public, and the same in
        every process.
        """
        rows = self.labels.shape[0]
        if n not in range(1, rows + 1):
            raise ValueError(
                f"n must be a whole number from 1 to {rows}, the rows of {self.name}, got "
                f"{shown(n)}"
            )
        # NumPy keeps the raw bits of a bit generator fixed across versions, unlike `permutation`.
        bits = np.random.PCG64(_PERMUTATION_SEED).random_raw(rows)
        indices = np.argsort(bits, kind="stable")[: int(n)]
        classes = None if self.classes is None else self.classes[indices]
        return replace(
            self, features=self.features[indices], labels=self.labels[indices], classes=classes
        )


def raw(name: str) -> tuple[Table, FloatArray]:
    """Return the features and labels of the first part of a set, checked but not scaled.

    For models with clipped gradients, which need no unit ball: pixels from 0 to 255 or word counts,
    in float64, sparse if the file is. Errors as for :func:`load`.

    Examples
    --------
    >>> pixels, digits = raw("digits")
    >>> pixels.max().item(), digits[:3].tolist()
    (16.0, [0.0, 1.0, 2.0])
    """
    member("name", name, DATASETS)
    features, labels = _read_parts(name)[0]
    return features, labels.astype(np.float64)


def _build(name: str) -> Dataset:
    source, sparsity, parts = SOURCES[name], None, _read_parts(name)
    published = np.concatenate([labels for _, labels in parts])
    if source.texts:
        documents = scipy.sparse.vstack([table for table, _ in parts])
        features = _largest_entries(scipy.sparse.csr_array(documents))
        factors = CLIP_RADIUS / np.maximum(_row_norms(features), CLIP_RADIUS)
        features.data = features.data * np.repeat(factors, _row_entries(features))
        sparsity = MAX_WORDS
    else:
        tables = [table.toarray() if scipy.sparse.issparse(table) else table for table, _ in parts]
        scaled = source.transform(np.vstack(tables)[:, source.drop :]) / source.divisor
        norms = np.linalg.norm(scaled, axis=1, keepdims=True)
        features = np.asarray(scaled * (CLIP_RADIUS / np.maximum(norms, CLIP_RADIUS)))
    return Dataset(
        name=name,
        features=features,
        labels=np.where(np.isin(published, source.positive), 1.0, -1.0),
        classes=published if len(source.labels) > 2 else None,
        source=source.source,
        notes=source.notes,
        sparsity=sparsity,
    )


DATASETS: dict[str, Callable[[], Dataset]] = Catalogue(
    "data set", ((name, partial(_build, name)) for name in SOURCES)
)


def load(name: str) -> Dataset:
    """Load the data set of this name and check its values.

    ``ValueError`` if the file is corrupt or unexpected, ``FileNotFoundError`` if ``PRIVOPT_DATA``
    or the file is missing, ``OSError`` if it cannot be read.
    """
    member("name", name, DATASETS)
    data = DATASETS[name]()
    data.check()
    return data


def available() -> tuple[str, ...]:
    """Return the names of the data sets with existing files, in the order of `DATASETS`.

    Files are not read. ``FileNotFoundError`` if ``PRIVOPT_DATA`` is set but is not a folder, so
    that a typing error cannot silently shrink an experiment.

    Examples
    --------
    >>> "digits" in available()
    True
    """
    folder = _folder()
    return tuple(name for name in DATASETS if not _absent(name, folder))


def missing(name: str) -> str | None:
    """Return the reason why a data set cannot be loaded, or None. Files are not read."""
    try:
        if name in FILES:
            _paths(name)
    except FileNotFoundError as error:
        return str(error)
    return None


def _folder() -> Path | None:
    value = os.environ.get(VARIABLE)
    if value and not Path(value).is_dir():
        raise FileNotFoundError(f"{VARIABLE} must name a folder, got {value}")
    return Path(value) if value else None


def _absent(name: str, folder: Path | None) -> list[str]:
    files = SOURCES[name].files
    return [path for path in files if folder is None or not (folder / path).is_file()]


def _paths(name: str) -> tuple[Path, ...]:
    folder = _folder()
    absent = _absent(name, folder)
    if folder is not None and not absent:
        return tuple(folder / path for path in SOURCES[name].files)
    reason = (
        f"needs the environment variable {VARIABLE} to name a folder that holds {absent[0]}"
        if folder is None
        else f"needs the file {folder / absent[0]} ({VARIABLE}), which does not exist"
    )
    shipped = ", ".join(other for other in DATASETS if other not in FILES)
    raise FileNotFoundError(f"{name} {reason}; available without it: {shipped}")


def _read_parts(name: str) -> list[tuple[Table, FloatArray]]:
    """Read the features and the published labels of every part of a set."""
    source = SOURCES[name]
    if not source.files:
        import sklearn.datasets

        features, labels = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
        _check_shape(f"scikit-learn's {name} set", features, source.rows[0], source.columns)
        return [(features, labels)]
    paths, size = _paths(name), len(source.files) // len(source.rows)
    return [
        _read(paths[part * size : (part + 1) * size], rows, source)
        for part, rows in enumerate(source.rows)
    ]


def _read(paths: tuple[Path, ...], rows: int, source: DataSource) -> tuple[Table, FloatArray]:
    """Read one part and check its shape, values and labels."""
    origin = f"{paths[0]} ({VARIABLE})"
    try:
        table, labels = source.read(*paths)
    except _CORRUPT as error:
        raise ValueError(f"{origin} is not a valid {source.format}: {error}") from error
    except OSError as error:
        raise OSError(f"{origin} cannot be read: {error}") from error
    _check_shape(origin, table, rows, source.columns)
    if not np.isfinite(table.data if scipy.sparse.issparse(table) else table).all():
        raise ValueError(f"{origin} must hold finite values, found NaN or infinity")
    if not np.isin(labels, source.labels).all():
        first, *_, last = source.labels
        expected = f"{first} {'and' if len(source.labels) == 2 else 'to'} {last}"
        values = np.unique(labels)[:8].tolist()
        raise ValueError(f"{origin} must hold labels {expected}, found {values}")
    if scipy.sparse.issparse(table):
        table.resize(rows, source.columns)
    return table, labels


def _check_shape(origin: str, table: Table, rows: int, columns: int) -> None:
    # A sparse file does not show trailing columns of zeros, so fewer columns are accepted.
    fits = table.shape[1] <= columns if scipy.sparse.issparse(table) else table.shape[1] == columns
    if table.shape[0] != rows or not fits:
        shape = " x ".join(map(str, table.shape))
        raise ValueError(f"{origin} must be {rows} x {columns} (rows x columns), found {shape}")


def _largest_entries(rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Keep the `MAX_WORDS` largest entries of each row; ties keep the first columns."""
    rows.sort_indices()
    owners = np.repeat(np.arange(rows.shape[0]), _row_entries(rows))
    order = np.lexsort((rows.indices, -np.abs(rows.data), owners))
    ranks = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], _row_entries(rows))
    largest = np.sort(order[ranks < MAX_WORDS])
    return scipy.sparse.csr_array(
        (rows.data[largest], (owners[largest], rows.indices[largest])), shape=rows.shape
    )


def _row_norms(features: FloatArray | scipy.sparse.csr_array) -> FloatArray:
    if isinstance(features, np.ndarray):
        return np.asarray(np.linalg.norm(features, axis=1))
    return np.sqrt(np.asarray(features.multiply(features).sum(axis=1), np.float64))


def _row_entries(features: FloatArray | scipy.sparse.csr_array) -> npt.NDArray[np.int64]:
    """Count the stored entries (sparse) or the nonzero entries (dense) of each row."""
    if isinstance(features, np.ndarray):
        return np.count_nonzero(features, axis=1)
    return np.diff(features.indptr).astype(np.int64)
