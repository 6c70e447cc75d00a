"""Real data sets, each scaled into the unit ball by a rule that never looks at the other rows.

Scaling by column minima, maxima or deviations would have to be paid for. The rules here are free:
features are divided by numbers fixed in this file, and each row is then clipped to the unit ball by
its own norm. One record changes one row and nothing else, and the Lipschitz constant that follows
from the row norm is true of every data set, not just of this one.

Two sets ship with scikit-learn. The others are files in LIBSVM's format, found below the folder
that the environment variable ``PRIVOPT_DATA`` names (empty counts as unset) at the paths of
`FILES`. Nothing is downloaded, and one name is one data set: none stands in for another.
"""

from __future__ import annotations

import gzip
import math
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from privopt.arguments import Catalogue, member, positive_number
from privopt.problems.records import real

__all__ = [
    "DATASETS",
    "Dataset",
    "a9a",
    "available",
    "breast_cancer",
    "breast_cancer_original",
    "digits",
    "load",
    "mushrooms",
    "phishing",
    "w8a",
]

FloatArray = npt.NDArray[np.float64]
VARIABLE = "PRIVOPT_DATA"
FILES = {
    "a9a": "a9a/a9a.gz",
    "breast_cancer_original": "breast-cancer/breast-cancer.gz",
    "mushrooms": "mushrooms/mushrooms.gz",
    "phishing": "phishing/phishing.gz",
    "w8a": "w8a/w8a.gz",
}

# Public and fixed, so that subsets are the same everywhere and spend no privacy.
PERMUTATION_SEED = 20_261_120

# Rows are clipped a hair inside the unit ball: cast to float32 they are still of norm below 1.
CLIP_RADIUS = 1.0 - 2.0**-20

# Public design constants, typed by hand as round numbers of the order that the published
# description of the measurements gives (a radius of 40 has perimeter 251 and area 5027); they are
# not fitted to the records, which are clipped beyond them. In turn: radius, texture, perimeter,
# area, smoothness, compactness, concavity, concave points, symmetry, fractal dimension.
CELL_BOUNDS = (40.0, 50.0, 250.0, 5000.0, 0.25, 1.25, 1.5, 0.3, 0.75, 0.25)


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """A binary classification data set whose rows obey a public norm bound.

    ``features`` (n, d) and ``labels`` (n,), -1 or +1, are float64 and read-only; every row has
    Euclidean norm at most ``row_norm_bound``, which is declared and never measured. ``notes`` says
    what +1 means and how the features were scaled. Raises ``ValueError`` if shapes disagree or the
    bound is not positive; what values break is told by :meth:`check`, and never by making one.

    Examples
    --------
    >>> digits = DATASETS["digits"]()
    >>> digits.features.shape, digits.subset(100).labels.shape
    ((1797, 64), (100,))
    """

    name: str
    features: FloatArray = field(repr=False)
    labels: FloatArray = field(repr=False)
    source: str
    notes: str
    row_norm_bound: float = 1.0

    def __post_init__(self) -> None:
        features = np.array(real(self.features, "features"), dtype=np.float64, order="C")
        labels = np.array(real(self.labels, "labels"), dtype=np.float64)
        if features.ndim != 2 or 0 in features.shape:
            raise ValueError(f"features must have shape (n, d), got {features.shape}")
        if labels.shape != features.shape[:1]:
            raise ValueError(f"labels must have shape {features.shape[:1]}, got {labels.shape}")
        positive_number("row_norm_bound", self.row_norm_bound)
        for name, array in (("features", features), ("labels", labels)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    def check(self) -> None:
        """Look at the values, of research data that may be looked at.

        Raises ``ValueError`` if a row is not finite or exceeds the bound by more than rounding, or
        a label is not -1 or +1: how many do, and which is the first.
        """
        norms = np.linalg.norm(self.features, axis=1)
        rules = {
            "features must be finite": ~np.isfinite(self.features).all(axis=1),
            "labels must be -1 or +1": ~np.isin(self.labels, (-1.0, 1.0)),
            f"features must have rows of norm at most {self.row_norm_bound!r}": (
                norms > self.row_norm_bound * (1.0 + 1e-9)
            ),
        }
        for rule, broken in rules.items():
            if broken.any():
                raise ValueError(
                    f"{rule}, but {int(broken.sum())} of {broken.size} records of {self.name} "
                    f"break it, the first is record {int(np.argmax(broken))}"
                )

    def subset(self, n: int) -> Dataset:
        """The first ``n`` rows of one fixed public permutation; smaller subsets nest in larger.

        It depends on the number of rows alone and on no key, so it is public and the same in every
        process. Raises ``ValueError`` if ``n`` is not a whole number from 1 to that number.
        """
        rows = self.labels.shape[0]
        if n not in range(1, rows + 1):
            raise ValueError(
                f"n must be a whole number from 1 to {rows}, the rows of {self.name}, got {n!r}"
            )
        # NumPy keeps the raw bits of a bit generator fixed across versions, unlike `permutation`.
        bits = np.random.PCG64(PERMUTATION_SEED).random_raw(rows)
        chosen = np.argsort(bits, kind="stable")[: int(n)]
        return replace(self, features=self.features[chosen], labels=self.labels[chosen])


def a9a() -> Dataset:
    """Adult (census income): 32,561 records, 123 indicators; +1 is an income above $50,000.

    Divided by ``sqrt(14)``: there are 14 attributes and each sets at most one indicator.
    """
    return _from_file(
        "a9a", rows=32_561, columns=123, negative=-1, positive=1, divisor=math.sqrt(14.0),
        source="UCI Adult in Platt's binarisation, LIBSVM collection, training part",
        notes="+1: income above $50,000; divided by sqrt(14), the number of attributes",
    )  # fmt: skip


def breast_cancer() -> Dataset:
    """Wisconsin diagnostic: 569 records, 30 measurements of cell nuclei; +1 is malignant.

    Ships with scikit-learn. Ten quantities appear as mean, standard error and worst value. Means
    and worst values are divided by the fixed bounds `CELL_BOUNDS`, standard errors by a tenth of
    them, each clipped to [0, 1], and the row is divided by ``sqrt(30)``.
    """
    from sklearn.datasets import load_breast_cancer

    features, target = load_breast_cancer(return_X_y=True)
    _check_table("scikit-learn's breast cancer set", features, rows=569, columns=30)
    bounds = np.outer((1.0, 0.1, 1.0), CELL_BOUNDS).reshape(1, 30)
    return Dataset(
        name="breast_cancer",
        features=_clip_rows(np.clip(features / bounds, 0.0, 1.0) / math.sqrt(30.0)),
        labels=np.where(target == 0, 1.0, -1.0),
        source="UCI Breast Cancer Wisconsin (Diagnostic), shipped with scikit-learn",
        notes="+1: malignant; fixed public bound a feature, clipped to [0, 1], over sqrt(30)",
    )


def breast_cancer_original() -> Dataset:
    """Wisconsin original: 683 records, 9 grades from 1 to 10; +1 is malignant.

    The first column of the file is a sample number and is dropped. Divided by ``10 sqrt(9)``.
    """
    return _from_file(
        "breast_cancer_original", rows=683, columns=10, negative=2, positive=4,
        drop=1, divisor=10.0 * math.sqrt(9.0),
        source="UCI Breast Cancer Wisconsin (Original), LIBSVM collection, complete rows",
        notes="+1: malignant; sample number dropped, grades 1 to 10 divided by 10 sqrt(9)",
    )  # fmt: skip


def digits() -> Dataset:
    """Handwritten digits: 1,797 images of 8 x 8 pixels; +1 is an even digit, -1 an odd one.

    Ships with scikit-learn. A pixel counts 0 to 16 dots, so the row is divided by ``16 sqrt(64)``.
    """
    from sklearn.datasets import load_digits

    features, target = load_digits(return_X_y=True)
    _check_table("scikit-learn's digits set", features, rows=1_797, columns=64)
    return Dataset(
        name="digits",
        features=_clip_rows(features / (16.0 * math.sqrt(64.0))),
        labels=np.where(target % 2 == 0, 1.0, -1.0),
        source="UCI Optical Recognition of Handwritten Digits, shipped with scikit-learn",
        notes="+1: even digit; pixels 0 to 16 divided by 16 sqrt(64) = 128",
    )


def mushrooms() -> Dataset:
    """Mushrooms: 8,124 records, 112 indicators of 21 attributes, over sqrt(21); +1 is poisonous."""
    return _from_file(
        "mushrooms", rows=8_124, columns=112, negative=0, positive=1, divisor=math.sqrt(21.0),
        source="UCI Mushroom, LIBSVM encoding",
        notes="+1: poisonous; divided by sqrt(21), the number of attributes",
    )  # fmt: skip


def phishing() -> Dataset:
    """Phishing web sites: 11,055 records, 68 indicators stored over sqrt(30); +1 is the label 1."""
    return _from_file(
        "phishing", rows=11_055, columns=68, negative=0, positive=1,
        source="UCI Phishing Websites, LIBSVM encoding",
        notes="+1: label 1 of the file; 30 indicators a row, stored over sqrt(30); only clipped",
    )  # fmt: skip


def w8a() -> Dataset:
    """Web pages: 49,749 records, 300 indicators, rows clipped to norm 1; +1 is the rare class."""
    return _from_file(
        "w8a", rows=49_749, columns=300, negative=-1, positive=1,
        source="Platt's web page data, LIBSVM collection, training part",
        notes="+1: the rare category; each row clipped to norm 1, empty rows stay zero",
    )  # fmt: skip


_LOADERS = (a9a, breast_cancer, breast_cancer_original, digits, mushrooms, phishing, w8a)
DATASETS: dict[str, Callable[[], Dataset]] = Catalogue(
    "data set", ((loader.__name__, loader) for loader in _LOADERS)
)


def load(name: str) -> Dataset:
    """The data set of that name.

    Raises ``ValueError`` if the name is unknown or the file corrupt or not the one expected,
    ``FileNotFoundError`` if ``PRIVOPT_DATA`` or its file is missing, ``OSError`` if unreadable.
    """
    member("name", name, DATASETS)
    found = DATASETS[name]()
    found.check()
    return found


def available() -> tuple[str, ...]:
    """Names that can be loaded now, in the order of `DATASETS`; files are looked for, not read.

    Raises ``FileNotFoundError`` if ``PRIVOPT_DATA`` is set to something that is not a folder: a
    typing error must not quietly shrink an experiment.
    """
    folder = _folder()
    return tuple(
        name
        for name in DATASETS
        if name not in FILES or (folder is not None and (folder / FILES[name]).is_file())
    )


def _folder() -> Path | None:
    value = os.environ.get(VARIABLE)
    if not value:
        return None
    if not Path(value).is_dir():
        raise FileNotFoundError(f"{VARIABLE} must name a folder, got {value!r}")
    return Path(value)


def _path(name: str) -> Path:
    folder = _folder()
    if folder is not None and (folder / FILES[name]).is_file():
        return folder / FILES[name]
    missing = (
        f"needs the environment variable {VARIABLE} to name a folder that holds {FILES[name]}"
        if folder is None
        else f"needs the file {folder / FILES[name]} ({VARIABLE}), which is not there"
    )
    shipped = ", ".join(other for other in DATASETS if other not in FILES)
    raise FileNotFoundError(f"{name} {missing}; available without it: {shipped}")


def _from_file(
    name: str, *, rows: int, columns: int, negative: int, positive: int,
    drop: int = 0, divisor: float = 1.0, source: str, notes: str,
) -> Dataset:  # fmt: skip
    """Read, check, drop the first columns, divide by a public number, clip each row."""
    from sklearn.datasets import load_svmlight_file

    path = _path(name)
    origin = f"{path} ({VARIABLE})"
    try:
        stored, raw = load_svmlight_file(str(path), dtype=np.float64, zero_based=False)
    except (gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError) as error:
        raise ValueError(f"{origin} is not a sound LIBSVM file: {error}") from error
    except OSError as error:
        raise OSError(f"{origin} cannot be read: {error}") from error
    _check_table(origin, stored, rows=rows, columns=columns)
    if not np.isfinite(stored.data).all():
        raise ValueError(f"{origin} must hold finite values, found NaN or infinity")
    if not np.isin(raw, (negative, positive)).all():
        found = np.unique(raw)[:8].tolist()
        raise ValueError(f"{origin} must hold labels {negative} and {positive}, found {found}")
    stored.resize(rows, columns)
    features = _clip_rows(stored.toarray()[:, drop:] / divisor)
    labels = np.where(raw == positive, 1.0, -1.0)
    return Dataset(name=name, features=features, labels=labels, source=source, notes=notes)


def _check_table(origin: str, table: FloatArray, *, rows: int, columns: int) -> None:
    # The sparse format does not show trailing columns that are zero throughout, so fewer pass.
    if table.shape[0] != rows or table.shape[1] > columns:
        found = " x ".join(map(str, table.shape))
        raise ValueError(f"{origin} must be {rows} x {columns} (rows x columns), found {found}")


def _clip_rows(features: FloatArray) -> FloatArray:
    """Each row scaled down to norm `CLIP_RADIUS` where it is longer; zero rows stay zero."""
    norms = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features * (CLIP_RADIUS / np.maximum(norms, CLIP_RADIUS)))
