"""Real data sets, each scaled into the unit ball by a rule that looks at one row alone.

The rules are those of `SOURCES`; each row is then clipped to the unit ball by its own norm. One
record changes one row and nothing else, so the Lipschitz constant that follows from the row norm
holds for every data set, not just for this one.

Two sets ship with scikit-learn. The others are files below the folder that the environment variable
``PRIVOPT_DATA`` names (empty counts as unset). Nothing is downloaded, and no data set stands in for
another.

Texts are matrices of ``scipy.sparse`` with one column for each word. A document keeps its ``WORDS``
largest entries, again a rule for one row, so that a sparsity can be declared.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse

from privopt.arguments import Catalogue, member
from privopt.problems.dataset import Dataset, FloatArray, row_entries, row_norms
from privopt.problems.formats import UNSOUND, Table
from privopt.problems.sources import SOURCES, WORDS, Source

VARIABLE = "PRIVOPT_DATA"

# Rows are clipped a hair inside the unit ball: cast to float32 they are still of norm below 1.
CLIP_RADIUS = 1.0 - 2.0**-20

FILES = {name: each.files for name, each in SOURCES.items() if each.files}


def raw(name: str) -> tuple[Table, FloatArray]:
    """Features and labels of the first part of a set as its file has them, checked but not scaled.

    For models whose gradients are clipped, which need no unit ball: pixels from 0 to 255, counts
    of words, in float64 and of ``scipy.sparse`` where the file is. Errors as :func:`load`.

    Examples
    --------
    >>> pixels, digits = raw("digits")
    >>> pixels.max().item(), digits[:3].tolist()
    (16.0, [0.0, 1.0, 2.0])
    """
    member("name", name, DATASETS)
    features, labels = _all_parts(name)[0]
    return features, labels.astype(np.float64)


def _all_parts(name: str) -> list[tuple[Table, FloatArray]]:
    of = SOURCES[name]
    return _parts(name, of) if of.files else [_shipped(name, of)]


def _built(name: str) -> Dataset:
    """Read the parts, divide by a public number or keep the largest entries, clip each row."""
    of, sparsity, parts = SOURCES[name], None, _all_parts(name)
    published = np.concatenate([labels for _, labels in parts])
    if of.texts:
        documents = scipy.sparse.vstack([table for table, _ in parts])
        features = _largest_entries(scipy.sparse.csr_array(documents))
        factors = CLIP_RADIUS / np.maximum(row_norms(features), CLIP_RADIUS)
        features.data = features.data * np.repeat(factors, row_entries(features))
        sparsity = WORDS
    else:
        stored = np.vstack([_dense(table) for table, _ in parts])
        features = _clip_rows(of.measure(stored[:, of.drop :]) / of.divisor)
    return Dataset(
        name=name,
        features=features,
        labels=np.where(np.isin(published, of.positive), 1.0, -1.0),
        classes=published if len(of.known) > 2 else None,
        source=of.source,
        notes=of.notes,
        sparsity=sparsity,
    )


DATASETS: dict[str, Callable[[], Dataset]] = Catalogue(
    "data set", ((name, partial(_built, name)) for name in SOURCES)
)


def load(name: str) -> Dataset:
    """The data set of that name, its values checked.

    ``ValueError`` if the file is corrupt or not the one expected, ``FileNotFoundError`` if
    ``PRIVOPT_DATA`` or its file is missing, ``OSError`` if unreadable.
    """
    member("name", name, DATASETS)
    found = DATASETS[name]()
    found.check()
    return found


def available() -> tuple[str, ...]:
    """Names that can be loaded now, in the order of `DATASETS`; files are looked for, not read.

    ``FileNotFoundError`` if ``PRIVOPT_DATA`` is set to something that is not a folder: a typing
    error must not quietly shrink an experiment.

    Examples
    --------
    >>> "digits" in available()
    True
    """
    folder = _folder()
    return tuple(name for name in DATASETS if not _absent(name, folder))


def missing(name: str) -> str | None:
    """What keeps a data set from being loaded, or None; files are looked for, not read."""
    try:
        if name in FILES:
            _paths(name)
    except FileNotFoundError as error:
        return str(error)
    return None


def _folder() -> Path | None:
    """The folder, if the variable names one; FileNotFoundError if what it names is none."""
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
    told = (
        f"needs the environment variable {VARIABLE} to name a folder that holds {absent[0]}"
        if folder is None
        else f"needs the file {folder / absent[0]} ({VARIABLE}), which is not there"
    )
    shipped = ", ".join(other for other in DATASETS if other not in FILES)
    raise FileNotFoundError(f"{name} {told}; available without it: {shipped}")


def _shipped(name: str, of: Source) -> tuple[Table, FloatArray]:
    """Features and raw labels of a set of scikit-learn's."""
    import sklearn.datasets

    features, raw = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    _check_shape(f"scikit-learn's {name} set", features, of.rows[0], of.columns)
    return features, raw


def _parts(name: str, of: Source) -> list[tuple[Table, FloatArray]]:
    """Each part of a set in files, which as many belong to each of them."""
    paths, each = _paths(name), len(of.files) // len(of.rows)
    return [_read(paths[k * each : (k + 1) * each], rows, of) for k, rows in enumerate(of.rows)]


def _read(paths: tuple[Path, ...], rows: int, of: Source) -> tuple[Table, FloatArray]:
    """Features and raw labels of a part; of finite values and known labels."""
    origin = f"{paths[0]} ({VARIABLE})"
    try:
        stored, raw = of.read(*paths)
    except UNSOUND as error:
        raise ValueError(f"{origin} is not a sound {_format(of)}: {error}") from error
    except OSError as error:
        raise OSError(f"{origin} cannot be read: {error}") from error
    _check_shape(origin, stored, rows, of.columns)
    if not np.isfinite(stored.data if scipy.sparse.issparse(stored) else stored).all():
        raise ValueError(f"{origin} must hold finite values, found NaN or infinity")
    if not np.isin(raw, of.known).all():
        first, *_, last = of.known
        wanted = f"{first} {'and' if len(of.known) == 2 else 'to'} {last}"
        found = np.unique(raw)[:8].tolist()
        raise ValueError(f"{origin} must hold labels {wanted}, found {found}")
    if scipy.sparse.issparse(stored):
        stored.resize(rows, of.columns)
    return stored, raw


def _format(of: Source) -> str:
    """The name of its format, with which the docstring of its reader begins."""
    reader = of.read.func if isinstance(of.read, partial) else of.read
    return str(reader.__doc__).partition(":")[0]


def _check_shape(origin: str, table: Table, rows: int, columns: int) -> None:
    # The sparse format does not show trailing columns that are zero throughout, so fewer pass.
    fits = table.shape[1] <= columns if scipy.sparse.issparse(table) else table.shape[1] == columns
    if table.shape[0] != rows or not fits:
        found = " x ".join(map(str, table.shape))
        raise ValueError(f"{origin} must be {rows} x {columns} (rows x columns), found {found}")


def _dense(table: Table) -> FloatArray:
    return np.asarray(table.toarray() if scipy.sparse.issparse(table) else table)


def _largest_entries(rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """The `WORDS` largest of each row; of equal ones those of the first columns."""
    rows.sort_indices()
    owners = np.repeat(np.arange(rows.shape[0]), row_entries(rows))
    order = np.lexsort((rows.indices, -np.abs(rows.data), owners))
    ranks = np.arange(rows.nnz) - np.repeat(rows.indptr[:-1], row_entries(rows))
    kept = np.sort(order[ranks < WORDS])
    return scipy.sparse.csr_array(
        (rows.data[kept], (owners[kept], rows.indices[kept])), shape=rows.shape
    )


def _clip_rows(features: FloatArray) -> FloatArray:
    """Each row scaled down to norm `CLIP_RADIUS` where it is longer; zero rows stay zero."""
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features * (CLIP_RADIUS / np.maximum(norms, CLIP_RADIUS)))
