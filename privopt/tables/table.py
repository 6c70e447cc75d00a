"""Declaration of a table, and its features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse

from privopt.arguments import described, positive_number, shown, suggestion
from privopt.tables.columns import Category, Number

_ROUNDING = 2.0**-40  # of a norm, for tables of up to a million columns


@dataclass(frozen=True)
class Table:
    """Public bounds and categories of columns, which map a data frame to features of bounded norm.

    Parameters
    ----------
    columns : dict
        Name of each column that is used -> :class:`Number` or :class:`Category`. Other columns of
        a data frame are ignored.
    norm : float, optional
        A smaller public bound on the norm of rows: longer rows are scaled down to it.

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
    set. Names, types and lengths of columns are public, and errors depend on nothing else. An entry
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
        largest = math.sqrt(len(self.columns)) * (1.0 + _ROUNDING)
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
        if not isinstance(sparse, bool):
            raise ValueError(f"sparse must be True or False, got {shown(sparse)}")
        blocks = [
            column.block(column_of(frame, name), name) for name, column in self.columns.items()
        ]
        lengths = {name: block.shape[0] for name, block in zip(self.columns, blocks, strict=True)}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"columns must be equally long, got {lengths}")
        rows = scipy.sparse.hstack([scipy.sparse.csr_array(each) for each in blocks], format="csr")
        norms = np.sqrt(rows.multiply(rows).sum(axis=1))
        most = self.norm / (1.0 + _ROUNDING)
        rows.data *= np.repeat(most / np.maximum(norms, most), np.diff(rows.indptr))
        return rows if sparse else rows.toarray()


def column_of(frame: Any, name: str) -> Any:
    """Return one column of ``frame``, or raise ``ValueError`` with the names of its columns."""
    names = [str(each) for each in names_of(frame)]
    if name not in names_of(frame):
        near = suggestion(name, names)
        raise ValueError(f"frame must have the column {shown(name)}, got {', '.join(names)}{near}")
    return frame[name]


def names_of(frame: Any) -> list[Any]:
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
