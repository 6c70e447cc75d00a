"""Tables: columns with public bounds and categories, mapped to features of bounded norm.

No statistic of the data is computed, except bounds that use a part of the budget. Every row of
features depends on one record only. A changed record therefore changes one row, and the bound on
the norm holds for every data set.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax import Array
from jaxtyping import Key

from privopt.arguments import (
    count,
    described,
    flag,
    instance,
    positive_number,
    real,
    shown,
    suggestion,
)
from privopt.mechanisms import LaplaceMechanism
from privopt.random import as_key
from privopt.records import as_column, places_of, public_values
from privopt.spec import Budget
from privopt.statistics import Histogram

_NORM_ROUNDING = 2.0**-40  # relative error of a norm, for tables of up to a million columns
_FAILURE = 0.01  # probability that an empty bin widens the bounds of a column
_LARGEST = 1e30  # largest edge of a bin
_BUDGET_ROUNDING = 1.0 - 2.0**-40  # covers rounding in the division and the sum of budgets


@dataclass(frozen=True)
class Number:
    """Numeric column with public bounds, mapped to ``[-1, 1]``.

    Numbers outside the bounds are clipped. A missing number, NaN, and an entry of a column of
    objects that is not a number are replaced by ``missing``.

    Parameters
    ----------
    lower, upper : float
        Public bounds, in the units of the column. They must not be computed from the data, except
        by :func:`approximate_bounds`, which uses a part of the budget.
    log : bool
        If True, the logarithm is mapped, for numbers of many magnitudes. It needs a positive
        ``lower``.
    missing : float, optional
        Public replacement of a missing number, in the units of the column; default the middle,
        which is mapped to 0.

    Examples
    --------
    >>> import numpy as np
    >>> Number(0, 100).block(np.array([25.0, 120.0, np.nan]), "age").ravel().tolist()
    [-0.5, 1.0, 0.0]
    """

    lower: float | None = None
    upper: float | None = None
    log: bool = False
    missing: float | None = None

    def check(self, name: str) -> None:
        """Raise ``ValueError``, naming the column, unless the declaration is valid."""
        label = f"column {shown(name)}"
        if self.lower is None or self.upper is None:
            raise ValueError(
                f"{label} must have public bounds, such as Number(0, 100), got None: bounds that "
                "are computed from the data are not private, except by approximate_bounds"
            )
        lower, upper = real(f"lower of {label}", self.lower), real(f"upper of {label}", self.upper)
        got = f"got {shown(lower)} and {shown(upper)}"
        if not (math.isfinite(lower) and math.isfinite(upper) and lower < upper):
            raise ValueError(f"{label} must have finite bounds, the lower below the upper, {got}")
        if flag(f"log of {label}", self.log) and not lower > 0.0:
            raise ValueError(f"lower of {label} must be positive if log is True, {got}")
        if not self._half > 0.0:
            raise ValueError(f"bounds of {label} must have a larger difference, {got}")
        if self.missing is not None:
            missing = real(f"missing of {label}", self.missing)
            if not lower <= missing <= upper:
                raise ValueError(
                    f"missing of {label} must be within its bounds, got {shown(missing)}"
                )

    def names(self, name: str) -> list[str]:
        """Return the names of the features: one, the name of the column."""
        return [name]

    def block(self, values: Any, name: str) -> np.ndarray:
        """Return the features of a column, shape ``(records, 1)``, from -1 to 1."""
        scaled = self._scaled(as_column(values, f"column {shown(name)}"))
        constant = 0.0 if self.missing is None else self._scaled(np.float64(self.missing))
        return np.where(np.isnan(scaled), constant, scaled)[:, None]

    @property
    def _interval(self) -> tuple[float, float]:
        assert self.lower is not None
        assert self.upper is not None
        return float(self.lower), float(self.upper)

    @property
    def _ends(self) -> tuple[float, float]:
        lower, upper = self._interval
        return (math.log(lower), math.log(upper)) if self.log else (lower, upper)

    @property
    def _half(self) -> float:
        lower, upper = self._ends
        return upper / 2.0 - lower / 2.0  # a difference of large bounds would be infinite

    def _scaled(self, values: Any) -> Any:
        values = np.clip(values, *self._interval)
        values = np.log(values) if self.log else values
        return np.clip((values / 2.0 - self._ends[0] / 2.0) / self._half * 2.0 - 1.0, -1.0, 1.0)


@dataclass(frozen=True)
class Category:
    """Categorical column with public categories, one-hot encoded.

    A missing entry is encoded by zeros. An entry that is not a category is encoded by zeros as
    well, or if ``other`` is True by a one in an additional last column.

    Parameters
    ----------
    categories : sequence
        The public values, in order: texts, or numbers and booleans. They must not be computed from
        the data.
    other : bool
        If True, there is an additional column for entries that are not a category.

    Examples
    --------
    >>> sector = Category(("private", "public"), other=True)
    >>> sector.block(["public", "charity", None], "sector").toarray().tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """

    categories: Sequence[Hashable]
    other: bool = False

    def check(self, name: str) -> None:
        """Raise ``ValueError``, naming the column, unless the declaration is valid."""
        public_values(f"categories of column {shown(name)}", self.categories)
        flag(f"other of column {shown(name)}", self.other)

    def names(self, name: str) -> list[str]:
        """Return the names of the features, such as ``sector=public``."""
        return [f"{name}={value}" for value in self.categories] + [f"{name}=*"] * self.other

    def block(self, values: Any, name: str) -> scipy.sparse.csr_array:
        """Return the features of a column, shape ``(records, places)``, at most one 1 per row."""
        categories = public_values(f"categories of column {shown(name)}", self.categories)
        places = places_of(values, categories, f"column {shown(name)}", strict=False)
        width = len(categories) + self.other
        usable = (places >= 0) & (places < width)
        return scipy.sparse.csr_array(
            (np.ones(int(usable.sum())), (np.flatnonzero(usable), places[usable])),
            shape=(len(places), width),
        )


@dataclass(frozen=True)
class Table:
    """Map from data frames to features of bounded norm, by public bounds and categories.

    Parameters
    ----------
    columns : dict
        :class:`Number` or :class:`Category` by name of column. Other columns of a data frame are
        ignored.
    norm : float, optional
        A smaller public bound on the norm of rows; longer rows are scaled down to it.

    Attributes
    ----------
    norm : float
        Certified bound on the Euclidean norm of every row: the square root of the number of
        columns, or the argument ``norm`` if that is smaller.
    names : tuple of str
        Names of the features.

    Formal guarantee
    ----------------
    Each row of features depends on one record only, and its norm is at most ``norm`` for every data
    set. Names, types and lengths of columns are public, and errors depend on these only. An entry
    of a list or of a column of objects that cannot be used counts as missing or unknown. Messages
    contain names, types and rules.

    Examples
    --------
    >>> table = Table({"age": Number(0, 100), "sector": Category(("private", "public"))})
    >>> table.names
    ('age', 'sector=private', 'sector=public')
    >>> table.features({"age": [25, None], "sector": ["public", "private"]}).tolist()
    [[-0.5, 0.0, 1.0], [0.0, 1.0, 0.0]]
    >>> round(table.norm, 4)
    1.4142
    """

    columns: Mapping[str, Number | Category]
    norm: float = math.inf
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.columns, Mapping) or not self.columns:
            raise ValueError(
                "columns must be a dict of columns, such as {'age': Number(0, 100)}, got "
                f"{described(self.columns)}"
            )
        for name, column in self.columns.items():
            if not isinstance(column, Number | Category):
                raise ValueError(
                    f"column {shown(name)} must be a Number with public bounds or a Category with "
                    f"public categories, got {described(column)}"
                )
            column.check(name)
        largest = math.sqrt(len(self.columns)) * (1.0 + _NORM_ROUNDING)
        if not isinstance(self.norm, Real) or self.norm != math.inf:
            largest = min(positive_number("norm", self.norm), largest)
        names = (each for name, column in self.columns.items() for each in column.names(name))
        object.__setattr__(self, "columns", dict(self.columns))
        object.__setattr__(self, "norm", largest)
        object.__setattr__(self, "names", tuple(names))

    def features(self, frame: Any, *, sparse: bool = False) -> Any:
        """Return the features of a table of records, shape ``(records, len(names))``, in float64.

        Parameters
        ----------
        frame : data frame or dict
            Data frame of pandas or polars, table of pyarrow, or dict of arrays.
        sparse : bool
            If True, return a ``scipy.sparse.csr_array``, for many categories.
        """
        flag("sparse", sparse)
        blocks = [
            column.block(_column_of(frame, name), name) for name, column in self.columns.items()
        ]
        lengths = {name: block.shape[0] for name, block in zip(self.columns, blocks, strict=True)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns must have equal lengths, got {lengths}")
        rows = scipy.sparse.hstack([scipy.sparse.csr_array(each) for each in blocks], format="csr")
        norms = np.sqrt(rows.multiply(rows).sum(axis=1))
        most = self.norm / (1.0 + _NORM_ROUNDING)
        rows.data *= np.repeat(most / np.maximum(norms, most), np.diff(rows.indptr))
        return rows if sparse else rows.toarray()


def approximate_bounds(
    frame: Any,
    names: Sequence[str],
    budget: Budget,
    key: Key[Array, ""],
    *,
    share: float = 0.1,
    smallest: float = 1.0,
    bins: int = 64,
) -> tuple[dict[str, Number], Budget]:
    """Return columns with private bounds, and the budget that remains for a model.

    Each column is counted in public bins ``[0, s], (s, 2s], (2s, 4s], ...`` and their mirror
    images, and every count receives Laplace noise of scale ``b``. The bounds are the outer edges of
    the outermost bins with a noisy count above ``b ln(50 K)``. An empty column has such a bin with
    probability .01. If no count is above it, the bounds are those of all bins.

    Parameters
    ----------
    frame : data frame or dict
        Data frame of pandas or polars, table of pyarrow, or dict of arrays.
    names : sequence of str
        Numeric columns without public bounds.
    budget : Budget
        Privacy budget of bounds and model together.
    key : Array
        Typed key of JAX, different from the key of the model.
    share : float
        Share of ``epsilon``, in (0, 1), for all bounds together. Every column has an equal part.
    smallest : float
        Public resolution ``s``, in the units of the columns.
    bins : int
        Number of bins on each side of 0; ``K = 2 bins``.

    Formal guarantee
    ----------------
    The bounds are ``share epsilon``-DP. Their composition with any release within the returned
    budget is within ``budget``, also if that release depends on the bounds.

    Source: Wilson et al., "Differentially private SQL with bounded user contribution", PoPETs 2020.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> frame = {"age": np.linspace(18.0, 90.0, 5000)}
    >>> columns, rest = approximate_bounds(frame, ["age"], budget, jax.random.key(0))
    >>> columns["age"].lower, columns["age"].upper, round(rest.epsilon, 6)
    (16.0, 128.0, 0.9)
    """
    _check_names(names, _names_of(frame))
    instance("budget", budget, Budget)
    key = as_key(key)
    share = positive_number("share", share)
    if not share < 1.0:
        raise ValueError(f"share must be between 0 and 1, got {shown(share)}")
    smallest, bins = positive_number("smallest", smallest), count("bins", bins)
    if math.log2(smallest) + bins - 1 > math.log2(_LARGEST):
        raise ValueError(f"bins must keep the last edge below {_LARGEST:g}, got {shown(bins)}")
    histogram = Histogram.logarithmic(smallest, 2.0, bins, mirrored=True)
    part = share * budget.epsilon / len(names) * _BUDGET_ROUNDING
    mechanism = LaplaceMechanism.calibrated(histogram, replace(budget, epsilon=part, delta=0.0))
    least = mechanism.scale * math.log(histogram.bins / (2.0 * _FAILURE))
    columns, answer = {}, jax.jit(histogram.answer)  # one program for all columns
    for place, name in enumerate(names):
        values = as_column(_column_of(frame, name), f"column {shown(name)}")
        values = values.clip(histogram.edges[0], histogram.edges[-1])  # finite in float32
        counts = answer(jnp.asarray(values), jnp.asarray(~np.isnan(values)))
        noisy = mechanism.add_noise(jax.random.fold_in(key, place), counts)
        full = np.flatnonzero(np.asarray(noisy) > least)
        first, last = (full[0], full[-1]) if full.size else (0, histogram.bins - 1)
        columns[name] = Number(histogram.edges[first], histogram.edges[last + 1])
    return columns, replace(budget, epsilon=(1.0 - share) * budget.epsilon * _BUDGET_ROUNDING)


def _check_names(names: object, known: list[Any]) -> None:
    """Raise ``ValueError`` unless ``names`` are columns. Values of a column are never printed."""
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise ValueError(f"names must be a sequence of columns, got {described(names)}")
    for place, name in enumerate(names):
        if not isinstance(name, str | int) or name not in known:
            near = suggestion(name, [str(each) for each in known])
            raise ValueError(f"names must be columns of frame, got none at place {place}{near}")


def _column_of(frame: Any, name: str) -> Any:
    """Return one column of ``frame``, or raise ``ValueError`` with the names of its columns."""
    names = [str(each) for each in _names_of(frame)]
    if name not in _names_of(frame):
        near = suggestion(name, names)
        raise ValueError(f"frame must have the column {shown(name)}, got {', '.join(names)}{near}")
    return frame[name]


def _names_of(frame: Any) -> list[Any]:
    """Return the column names of a data frame or a dict, or raise ``ValueError``.

    The attribute ``columns`` of a pyarrow table holds the data, and ``column_names`` the names.
    """
    if isinstance(frame, Mapping):
        return list(frame)
    names = None
    if not isinstance(frame, type) and hasattr(frame, "__getitem__"):
        names = getattr(frame, "column_names", getattr(frame, "columns", None))
    if names is None or not all(isinstance(name, str | int) for name in names):
        raise ValueError(f"frame must be a data frame or a dict of columns, got {described(frame)}")
    return list(names)
