"""Real data sets, each scaled into the unit ball by a rule that looks at one row alone.

Scaling by column minima, maxima or deviations would have to be paid for. These rules are free:
features are divided by numbers fixed in this file, and each row is then clipped to the unit ball by
its own norm. One record changes one row and nothing else, so the Lipschitz constant that follows
from the row norm holds for every data set, not just for this one.

Two sets ship with scikit-learn. The others are files in LIBSVM's format, at the paths of `FILES`
below the folder that the environment variable ``PRIVOPT_DATA`` names (empty counts as unset).
Nothing is downloaded, and no data set stands in for another.

Texts are matrices of ``scipy.sparse`` with one column for each word. A document keeps its ``WORDS``
largest entries, again a rule for one row, so that a sparsity can be declared.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse

from privopt.arguments import Catalogue, member
from privopt.problems.dataset import Dataset, FloatArray, row_entries, row_norms

VARIABLE = "PRIVOPT_DATA"

# Rows are clipped a hair inside the unit ball: cast to float32 they are still of norm below 1.
CLIP_RADIUS = 1.0 - 2.0**-20

# A document's largest entries that are kept: about half of all documents have fewer.
WORDS = 128

# Public design constants, typed by hand as round numbers of the order that the published
# description of the measurements gives (a radius of 40 has perimeter 251 and area 5027); they are
# not fitted to the records, which are clipped beyond them. In turn: radius, texture, perimeter,
# area, smoothness, compactness, concavity, concave points, symmetry, fractal dimension.
CELL_BOUNDS = (40.0, 50.0, 250.0, 5000.0, 0.25, 1.25, 1.5, 0.3, 0.75, 0.25)


def _cells(features: FloatArray) -> FloatArray:
    """Means and worst values over `CELL_BOUNDS`, standard errors over a tenth, in [0, 1]."""
    bounds = np.outer((1.0, 0.1, 1.0), CELL_BOUNDS).reshape(1, 30)
    return np.asarray(np.clip(features / bounds, 0.0, 1.0))


class _Source(NamedTuple):
    """Where one data set is found, its shape, which labels are +1, and how rows are scaled.

    ``files`` lie below the folder; a set without files ships with scikit-learn. ``drop`` leading
    columns are left out, ``measure`` is applied, and ``divisor`` divides; texts are sparse.
    """

    files: tuple[str, ...]
    rows: tuple[int, ...]
    columns: int
    known: tuple[int, ...]
    positive: tuple[int, ...]
    source: str
    notes: str
    drop: int = 0
    divisor: float = 1.0
    texts: bool = False
    measure: Callable[[FloatArray], FloatArray] = np.asarray


# fmt: off
_SOURCES = {
    "a9a": _Source(  # 14 attributes, of which each sets at most one indicator
        ("a9a/a9a.gz",), (32_561,), 123, (-1, 1), (1,), divisor=math.sqrt(14.0),
        source="UCI Adult in Platt's binarisation, LIBSVM collection, training part",
        notes="+1: income above $50,000; divided by sqrt(14), the number of attributes",
    ),
    "breast_cancer": _Source(  # ten quantities: mean, standard error and worst value of each
        (), (569,), 30, (0, 1), (0,), measure=_cells, divisor=math.sqrt(30.0),
        source="UCI Breast Cancer Wisconsin (Diagnostic), shipped with scikit-learn",
        notes="+1: malignant; fixed public bound a feature, clipped to [0, 1], over sqrt(30)",
    ),
    "breast_cancer_original": _Source(
        ("breast-cancer/breast-cancer.gz",), (683,), 10, (2, 4), (4,),
        drop=1, divisor=10.0 * math.sqrt(9.0),
        source="UCI Breast Cancer Wisconsin (Original), LIBSVM collection, complete rows",
        notes="+1: malignant; sample number dropped, grades 1 to 10 divided by 10 sqrt(9)",
    ),
    "digits": _Source(  # a pixel counts 0 to 16 dots
        (), (1_797,), 64, tuple(range(10)), (0, 2, 4, 6, 8), divisor=16.0 * math.sqrt(64.0),
        source="UCI Optical Recognition of Handwritten Digits, shipped with scikit-learn",
        notes="+1: even digit; pixels 0 to 16 divided by 16 sqrt(64) = 128",
    ),
    "mushrooms": _Source(
        ("mushrooms/mushrooms.gz",), (8_124,), 112, (0, 1), (1,), divisor=math.sqrt(21.0),
        source="UCI Mushroom, LIBSVM encoding",
        notes="+1: poisonous; divided by sqrt(21), the number of attributes",
    ),
    "phishing": _Source(
        ("phishing/phishing.gz",), (11_055,), 68, (0, 1), (1,),
        source="UCI Phishing Websites, LIBSVM encoding",
        notes="+1: label 1 of the file; 30 indicators a row, stored over sqrt(30); only clipped",
    ),
    "rcv1": _Source(
        ("rcv1_subset/rcv1_ccat_train1000.gz", "rcv1_subset/rcv1_ccat_test500.gz"),
        (1_000, 500), 47_236, (-1, 1), (1,), texts=True,
        source="RCV1-v2 (Lewis, Yang, Rose, Li 2004), topic CCAT, extracts of 1,000 and 500",
        notes=f"+1: topic CCAT; the {WORDS} largest tf-idf values, clipped to norm 1",
    ),
    "sector": _Source(  # 105 industries, sorted by sector: a public rule, and half of the pages
        ("sector/sector.scale.bz2", "sector/sector.t.scale.bz2"),
        (6_412, 3_207), 55_197, tuple(range(1, 106)), tuple(range(1, 53)), texts=True,
        source="Industry Sector web pages (McCallum, Nigam; Rennie), LIBSVM collection, both parts",
        notes=f"+1: classes 1 to 52 of 105; the {WORDS} largest tf-idf values, clipped to norm 1",
    ),
    "w8a": _Source(
        ("w8a/w8a.gz",), (49_749,), 300, (-1, 1), (1,),
        source="Platt's web page data, LIBSVM collection, training part",
        notes="+1: the rare category; each row clipped to norm 1, empty rows stay zero",
    ),
}
# fmt: on
FILES = {name: each.files for name, each in _SOURCES.items() if each.files}


def _built(name: str) -> Dataset:
    """Read the parts, divide by a public number or keep the largest entries, clip each row."""
    of, sparsity = _SOURCES[name], None
    parts = (
        [_read(*each, of) for each in zip(_paths(name), of.rows, strict=True)]
        if of.files
        else [_shipped(name, of)]
    )
    labels = np.isin(np.concatenate([raw for _, raw in parts]), of.positive)
    features = scipy.sparse.csr_array(scipy.sparse.vstack([stored for stored, _ in parts]))
    if of.texts:
        features, sparsity = _largest_entries(features), WORDS
        factors = CLIP_RADIUS / np.maximum(row_norms(features), CLIP_RADIUS)
        features.data = features.data * np.repeat(factors, row_entries(features))
    else:
        features = _clip_rows(of.measure(features.toarray()[:, of.drop :]) / of.divisor)
    return Dataset(
        name=name,
        features=features,
        labels=np.where(labels, 1.0, -1.0),
        source=of.source,
        notes=of.notes,
        sparsity=sparsity,
    )


DATASETS: dict[str, Callable[[], Dataset]] = Catalogue(
    "data set", ((name, partial(_built, name)) for name in sorted(_SOURCES))
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
    """
    folder = _folder()
    return tuple(name for name in DATASETS if not _missing(name, folder))


def _folder() -> Path | None:
    """The folder, if the variable names one; FileNotFoundError if what it names is none."""
    value = os.environ.get(VARIABLE)
    if value and not Path(value).is_dir():
        raise FileNotFoundError(f"{VARIABLE} must name a folder, got {value!r}")
    return Path(value) if value else None


def _missing(name: str, folder: Path | None) -> list[str]:
    files = _SOURCES[name].files
    return [path for path in files if folder is None or not (folder / path).is_file()]


def _paths(name: str) -> tuple[Path, ...]:
    folder = _folder()
    missing = _missing(name, folder)
    if folder is not None and not missing:
        return tuple(folder / path for path in FILES[name])
    told = (
        f"needs the environment variable {VARIABLE} to name a folder that holds {missing[0]}"
        if folder is None
        else f"needs the file {folder / missing[0]} ({VARIABLE}), which is not there"
    )
    shipped = ", ".join(other for other in DATASETS if other not in FILES)
    raise FileNotFoundError(f"{name} {told}; available without it: {shipped}")


def _shipped(name: str, of: _Source) -> tuple[scipy.sparse.csr_array, FloatArray]:
    """Features and raw labels of a set of scikit-learn's."""
    import sklearn.datasets

    features, raw = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    _check_shape(f"scikit-learn's {name} set", features, of.rows[0], of.columns)
    return scipy.sparse.csr_array(features), raw


def _read(path: Path, rows: int, of: _Source) -> tuple[scipy.sparse.csr_matrix, FloatArray]:
    """Features and raw labels of a file in LIBSVM's format; of finite values and known labels."""
    from sklearn.datasets import load_svmlight_file

    origin = f"{path} ({VARIABLE})"
    try:
        stored, raw = load_svmlight_file(str(path), dtype=np.float64, zero_based=False)
    except (gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError) as error:
        raise ValueError(f"{origin} is not a sound LIBSVM file: {error}") from error
    except OSError as error:
        raise OSError(f"{origin} cannot be read: {error}") from error
    _check_shape(origin, stored, rows, of.columns)
    if not np.isfinite(stored.data).all():
        raise ValueError(f"{origin} must hold finite values, found NaN or infinity")
    if not np.isin(raw, of.known).all():
        first, *_, last = of.known
        wanted = f"{first} {'and' if len(of.known) == 2 else 'to'} {last}"
        found = np.unique(raw)[:8].tolist()
        raise ValueError(f"{origin} must hold labels {wanted}, found {found}")
    stored.resize(rows, of.columns)
    return stored, raw


def _check_shape(origin: str, table: FloatArray, rows: int, columns: int) -> None:
    # The sparse format does not show trailing columns that are zero throughout, so fewer pass.
    if table.shape[0] != rows or table.shape[1] > columns:
        found = " x ".join(map(str, table.shape))
        raise ValueError(f"{origin} must be {rows} x {columns} (rows x columns), found {found}")


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
