"""Files in LIBSVM's format below the folder that ``PRIVOPT_DATA`` names; nothing is downloaded."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import numpy as np
import scipy.sparse

from privopt.problems.dataset import FloatArray

__all__ = ["VARIABLE", "check_table", "data_folder", "read"]

VARIABLE = "PRIVOPT_DATA"


def data_folder() -> Path | None:
    """The folder, if the variable names one; FileNotFoundError if what it names is none."""
    value = os.environ.get(VARIABLE)
    if not value:
        return None
    if not Path(value).is_dir():
        raise FileNotFoundError(f"{VARIABLE} must name a folder, got {value!r}")
    return Path(value)


def read(
    path: Path, *, rows: int, columns: int, known: tuple[int, ...]
) -> tuple[scipy.sparse.csr_matrix, FloatArray]:
    """A file in LIBSVM's format of that shape, of finite values and known labels."""
    from sklearn.datasets import load_svmlight_file

    origin = f"{path} ({VARIABLE})"
    try:
        stored, raw = load_svmlight_file(str(path), dtype=np.float64, zero_based=False)
    except (gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError) as error:
        raise ValueError(f"{origin} is not a sound LIBSVM file: {error}") from error
    except OSError as error:
        raise OSError(f"{origin} cannot be read: {error}") from error
    check_table(origin, stored, rows=rows, columns=columns)
    if not np.isfinite(stored.data).all():
        raise ValueError(f"{origin} must hold finite values, found NaN or infinity")
    if not np.isin(raw, known).all():
        wanted = f"{known[0]} and {known[1]}" if len(known) == 2 else f"{known[0]} to {known[-1]}"
        found = np.unique(raw)[:8].tolist()
        raise ValueError(f"{origin} must hold labels {wanted}, found {found}")
    stored.resize(rows, columns)
    return stored, raw


def check_table(origin: str, table: FloatArray, *, rows: int, columns: int) -> None:
    """ValueError unless a table has this shape."""
    # The sparse format does not show trailing columns that are zero throughout, so fewer pass.
    if table.shape[0] != rows or table.shape[1] > columns:
        found = " x ".join(map(str, table.shape))
        raise ValueError(f"{origin} must be {rows} x {columns} (rows x columns), found {found}")
