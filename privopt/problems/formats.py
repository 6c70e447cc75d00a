"""Formats of data files: each reader gives the features of all rows, and their raw labels."""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

FloatArray = npt.NDArray[np.float64]
Table: TypeAlias = Any  # an array, or a matrix of scipy.sparse
Reader = Callable[..., tuple[Table, FloatArray]]

# What an unsound file makes the readers raise, beside an OSError of one that cannot be read.
UNSOUND = (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, EOFError, ValueError, OverflowError,
           KeyError)  # fmt: skip


def libsvm(path: Path) -> tuple[Table, FloatArray]:
    """LIBSVM file: a label and pairs ``column:value`` a line, columns from 1."""
    from sklearn.datasets import load_svmlight_file

    features, labels = load_svmlight_file(str(path), dtype=np.float64, zero_based=False)
    return features, labels


def comma_separated(
    path: Path, words: Mapping[int, tuple[str, ...]] | None = None
) -> tuple[Table, FloatArray]:
    """CSV file: numbers without a header, the last of a line its label.

    A column of ``words`` holds texts, of which each becomes its place among them, else -1.
    """

    def place(known: tuple[str, ...]) -> Callable[[str], float]:
        places = {word: float(at) for at, word in enumerate(known)}
        return lambda word: places.get(word, -1.0)

    with gzip.open(path, "rt", encoding="utf-8") as lines:
        if not lines.readline().strip():
            raise ValueError("its first line is empty")
    told: dict[int | str, Callable[[str], float]] = {
        column: place(known) for column, known in (words or {}).items()
    }
    table = np.loadtxt(path, delimiter=",", converters=told, encoding="utf-8", ndmin=2)
    return table[:, :-1], table[:, -1]


def idx(images: Path, labels: Path) -> tuple[Table, FloatArray]:
    """IDX file: bytes after a header, images of 28 x 28 pixels; labels in a second file."""
    pixels, answers = (
        np.frombuffer(gzip.decompress(path.read_bytes())[header:], np.uint8).astype(np.float64)
        for path, header in ((images, 16), (labels, 8))
    )
    if len(pixels) != len(answers) * 28 * 28:
        raise ValueError(f"{len(pixels)} pixels for {len(answers)} labels")
    return pixels.reshape(-1, 28 * 28), answers


def tokens(path: Path, part: str, words: int, length: int) -> tuple[Table, FloatArray]:
    """NPZ file of texts: how often each of ``words`` codes is among the last ``length`` of a text.

    Codes are 0 for padding, of which the file has none, 2 for a word that is not listed, and from 4
    on the words by rank.
    """
    with np.load(path) as file:
        codes, ends = file[f"x_{part}"].astype(np.int64), file[f"offsets_{part}"]
        labels = file[f"y_{part}"].astype(np.float64)
    lengths = np.diff(ends)
    if ends[0] != 0 or ends[-1] != len(codes) or (lengths < 0).any() or len(lengths) != len(labels):
        raise ValueError(f"{len(lengths)} texts of {len(codes)} codes for {len(labels)} labels")
    texts = np.repeat(np.arange(len(lengths)), lengths)
    kept = np.arange(len(codes)) >= ends[1:][texts] - length
    codes = np.where((codes < 0) | (codes >= words), 2, codes)[kept]
    counts = scipy.sparse.coo_array(
        (np.ones(len(codes)), (texts[kept], codes)), shape=(len(lengths), words)
    )
    return counts.tocsr(), labels
