"""A data set: rows that obey public bounds, and labels of two kinds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse

from privopt.arguments import positive_number, shown
from privopt.records import as_array

FloatArray = npt.NDArray[np.float64]

# Public and fixed, so that subsets are the same everywhere and spend no privacy.
PERMUTATION_SEED = 20_261_120


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """A binary classification data set whose rows obey a public norm bound.

    ``features`` (n, d), an array or a ``scipy.sparse.csr_array``, and ``labels`` (n,), -1 or +1,
    are float64 and read-only. Rows have Euclidean norm at most ``row_norm_bound`` and, where that
    is given, at most ``sparsity`` entries; both are declared, never measured. ``classes`` (n,) are
    the labels as published, where there are more than two. ``notes`` says what +1 means and how
    the features were scaled. Values are checked by :meth:`check`, never when one
    is made.

    Examples
    --------
    >>> from privopt import problems
    >>> digits = problems.DATASETS["digits"]()
    >>> digits.features.shape, digits.subset(100).labels.shape
    ((1797, 64), (100,))
    """

    name: str
    features: FloatArray | scipy.sparse.csr_array = field(repr=False)
    labels: FloatArray = field(repr=False)
    source: str
    notes: str
    row_norm_bound: float = 1.0
    sparsity: int | None = None
    classes: FloatArray | None = field(default=None, repr=False)

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
        """``ValueError`` unless the values are as declared; for data that may be looked at.

        It says how many rows are not finite or exceed the bound by more than rounding, or have a
        label other than -1 and +1, and which is the first.
        """
        norms, entries = row_norms(self.features), row_entries(self.features)
        most = self.features.shape[1] if self.sparsity is None else self.sparsity
        rules = {
            "features must be finite": ~np.isfinite(norms),
            "labels must be -1 or +1": ~np.isin(self.labels, (-1.0, 1.0)),
            f"features must have rows of norm at most {shown(self.row_norm_bound)}": (
                norms > self.row_norm_bound * (1.0 + 1e-9)
            ),
            f"features must have at most {most} entries in a row": entries > most,
        }
        for rule, broken in rules.items():
            if broken.any():
                raise ValueError(
                    f"{rule}, but {int(broken.sum())} of {broken.size} records of {self.name} "
                    f"break it, the first is record {int(np.argmax(broken))}"
                )

    def subset(self, n: int) -> Dataset:
        """The first ``n`` rows of one fixed public permutation; smaller subsets nest in larger.

        It depends on the number of rows alone, so it is public and the same in every process.
        """
        rows = self.labels.shape[0]
        if n not in range(1, rows + 1):
            raise ValueError(
                f"n must be a whole number from 1 to {rows}, the rows of {self.name}, got "
                f"{shown(n)}"
            )
        # NumPy keeps the raw bits of a bit generator fixed across versions, unlike `permutation`.
        bits = np.random.PCG64(PERMUTATION_SEED).random_raw(rows)
        chosen = np.argsort(bits, kind="stable")[: int(n)]
        classes = None if self.classes is None else self.classes[chosen]
        return replace(
            self, features=self.features[chosen], labels=self.labels[chosen], classes=classes
        )


def row_norms(features: FloatArray | scipy.sparse.csr_array) -> FloatArray:
    """``|x_i|_2``."""
    if isinstance(features, np.ndarray):
        return np.asarray(np.linalg.norm(features, axis=1))
    return np.sqrt(np.asarray(features.multiply(features).sum(axis=1), np.float64))


def row_entries(features: FloatArray | scipy.sparse.csr_array) -> npt.NDArray[np.int64]:
    """How many numbers of each row are stored, or are not zero."""
    if isinstance(features, np.ndarray):
        return np.count_nonzero(features, axis=1)
    return np.diff(features.indptr).astype(np.int64)
