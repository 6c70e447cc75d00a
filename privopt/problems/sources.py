"""Sources of the real data sets: files, readers, labels and public scaling constants.

Rows are scaled by numbers written in this file: round numbers of the order given in the published
descriptions. They are not fitted to the records, so they spend no privacy; column minima, maxima or
standard deviations of the data would. Larger values are clipped.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

FloatArray = npt.NDArray[np.float64]
Table: TypeAlias = Any  # an array, or a matrix of scipy.sparse

MAX_WORDS = 128  # entries kept per document; about half of all documents have fewer

# Upper bounds of radius, texture, perimeter, area, smoothness, compactness, concavity, concave
# points, symmetry and fractal dimension. A radius of 40 has perimeter 251 and area 5027.
CELL_BOUNDS = (40.0, 50.0, 250.0, 5000.0, 0.25, 1.25, 1.5, 0.3, 0.75, 0.25)

# Lower and upper bounds of elevation in metres, aspect and slope in degrees, horizontal and
# vertical metres to water, metres to a road, three shades of 0 to 255, and metres to a fire.
FOREST_BOUNDS = (
    (1500.0, 0.0, 0.0, 0.0, -1000.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (4000.0, 360.0, 90.0, 2000.0, 1000.0, 10_000.0, 255.0, 255.0, 255.0, 10_000.0),
)

# Upper bounds for a connection: seconds and bytes, eighteen counts and flags, seven rates; then
# two counts and eight rates of its host. Rates and flags are at most 1.
CONNECTION_BOUNDS = (
    *(1e5, 1e9, 1e9, 1.0, 10.0, 10.0, 100.0, 10.0, 1.0, 1000.0, 1.0, 10.0, 1000.0, 100.0),
    *(10.0, 10.0, 10.0, 1.0, 1.0, 512.0, 512.0, *(1.0,) * 7, 256.0, 256.0, *(1.0,) * 8),
)
# Words of columns 2 to 4 of a connection, as listed in the published description of the later
# edition NSL-KDD. Other words have no indicator.
_PROTOCOLS = "tcp udp icmp"
_SERVICES = """
    aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i efs exec
    finger ftp ftp_data gopher harvest hostnames http http_2784 http_443 http_8001 imap4 IRC
    iso_tsap klogin kshell ldap link login mtp name netbios_dgm netbios_ns netbios_ssn netstat
    nnsp nntp ntp_u other pm_dump pop_2 pop_3 printer private red_i remote_job rje shell smtp
    sql_net ssh sunrpc supdup systat telnet tftp_u tim_i time urh_i urp_i uucp uucp_path vmnet
    whois X11 Z39_50"""
_FLAGS = "OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH"
CONNECTION_WORDS = {
    column: tuple(words.split()) for column, words in enumerate((_PROTOCOLS, _SERVICES, _FLAGS), 1)
}


def read_libsvm(path: Path) -> tuple[Table, FloatArray]:
    """Read a label and pairs ``column:value`` from each line; columns count from 1."""
    from sklearn.datasets import load_svmlight_file

    features, labels = load_svmlight_file(str(path), dtype=np.float64, zero_based=False)
    return features, labels


def read_csv(
    path: Path, words: Mapping[int, tuple[str, ...]] | None = None
) -> tuple[Table, FloatArray]:
    """Read numbers without a header; the last column is the label.

    The columns in ``words`` contain text. Each text becomes its index in the tuple, or -1.
    """

    def index_in(listed: tuple[str, ...]) -> Callable[[str], float]:
        indices = {word: float(index) for index, word in enumerate(listed)}
        return lambda word: indices.get(word, -1.0)

    with gzip.open(path, "rt", encoding="utf-8") as lines:
        if not lines.readline().strip():
            raise ValueError("its first line is empty")
    converters: dict[int | str, Callable[[str], float]] = {
        column: index_in(listed) for column, listed in (words or {}).items()
    }
    table = np.loadtxt(path, delimiter=",", converters=converters, encoding="utf-8", ndmin=2)
    return table[:, :-1], table[:, -1]


def read_idx(images: Path, labels: Path) -> tuple[Table, FloatArray]:
    """Read images of 28 x 28 pixels and their labels: a header, then one byte per number."""
    pixels, targets = (
        np.frombuffer(gzip.decompress(path.read_bytes())[header:], np.uint8).astype(np.float64)
        for path, header in ((images, 16), (labels, 8))
    )
    if len(pixels) != len(targets) * 28 * 28:
        raise ValueError(f"{len(pixels)} pixels for {len(targets)} labels")
    return pixels.reshape(-1, 28 * 28), targets


def read_tokens(path: Path, part: str, words: int, length: int) -> tuple[Table, FloatArray]:
    """Read texts as counts of ``words`` codes among the last ``length`` tokens.

    Code 0 is padding, which the file does not contain. Code 2 is an unlisted word. Codes from 4
    upwards are the words by rank.
    """
    with np.load(path) as file:
        codes, ends = file[f"x_{part}"].astype(np.int64), file[f"offsets_{part}"]
        labels = file[f"y_{part}"].astype(np.float64)
    lengths = np.diff(ends)
    if ends[0] != 0 or ends[-1] != len(codes) or (lengths < 0).any() or len(lengths) != len(labels):
        raise ValueError(f"{len(lengths)} texts of {len(codes)} codes for {len(labels)} labels")
    texts = np.repeat(np.arange(len(lengths)), lengths)
    last = np.arange(len(codes)) >= ends[1:][texts] - length
    codes = np.where((codes < 0) | (codes >= words), 2, codes)[last]
    counts = scipy.sparse.coo_array(
        (np.ones(len(codes)), (texts[last], codes)), shape=(len(lengths), words)
    )
    return counts.tocsr(), labels


def _scale_cells(features: FloatArray) -> FloatArray:
    """Divide means and worst values by `CELL_BOUNDS`, standard errors by a tenth of them."""
    bounds = np.outer((1.0, 0.1, 1.0), CELL_BOUNDS).reshape(1, 30)
    return np.asarray(np.clip(features / bounds, 0.0, 1.0))


def _scale_forest(features: FloatArray) -> FloatArray:
    """Map ten numbers from `FOREST_BOUNDS` to [0, 1]; keep the indicators."""
    lower, upper = np.array(FOREST_BOUNDS)
    numbers = np.clip((features[:, :10] - lower) / (upper - lower), 0.0, 1.0)
    return np.hstack([numbers, np.clip(features[:, 10:], 0.0, 1.0)])


def _scale_connections(features: FloatArray) -> FloatArray:
    """Return ``ln(1 + x) / ln(1 + bound)`` for numbers, and indicators for words."""
    numbers = np.clip(np.delete(features, list(CONNECTION_WORDS), 1), 0.0, CONNECTION_BOUNDS)
    words = [features[:, [c]] == np.arange(len(listed)) for c, listed in CONNECTION_WORDS.items()]
    return np.hstack([np.log1p(numbers) / np.log1p(CONNECTION_BOUNDS), *words])


def _pool_images(features: FloatArray) -> FloatArray:
    """Average 2 x 2 blocks of the 28 x 28 pixels, from 0 to 255, and divide by 255."""
    return np.asarray(features.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196) / 255.0)


class DataSource(NamedTuple):
    """Files, shape, labels and scaling of one data set.

    ``files`` are relative to the data folder, the same number for each part; a set without files
    ships with scikit-learn. ``rows`` (per part), ``columns`` and ``labels`` are the values that
    ``read`` must return; labels in ``positive`` become +1. The first ``drop`` columns are removed,
    then ``transform`` is applied and the result is divided by ``divisor``. Features of texts stay
    sparse.
    """

    files: tuple[str, ...]
    rows: tuple[int, ...]
    columns: int
    labels: tuple[int, ...]
    positive: tuple[int, ...]
    source: str
    notes: str
    drop: int = 0
    divisor: float = 1.0
    texts: bool = False
    transform: Callable[[FloatArray], FloatArray] = np.asarray
    read: Callable[..., tuple[Table, FloatArray]] = read_libsvm
    format: str = "LIBSVM file"


# fmt: off
_A9A = DataSource(  # 14 attributes, each with at most one indicator set
    ("a9a/a9a.gz",), (32_561,), 123, (-1, 1), (1,), divisor=math.sqrt(14.0),
    source="UCI Adult in Platt's binarisation, LIBSVM collection, training part",
    notes="+1: income above $50,000; divided by sqrt(14), the number of attributes",
)
_IMDB = DataSource(  # the more frequent half of 20,000 words, chosen on other reviews
    ("imdb/imdb_tokens.npz",), (25_000,), 10_000, (0, 1), (1,), texts=True,
    read=partial(read_tokens, part="train", words=10_000, length=256), format="NPZ file of texts",
    source="Large Movie Review Dataset v1.0 (Maas et al., ACL 2011), training part",
    notes=f"+1: positive; counts of 10,000 words among the last 256, the {MAX_WORDS} largest, "
          "clipped to norm 1",
)
_KDDCUP99 = DataSource(  # 41 columns, then the label: normal or the name of an attack
    ("kddcup99/kddcup.data_10_percent.gz",), (494_021,), 41, (-1, 0), (-1,),
    transform=_scale_connections, format="CSV file",
    read=partial(read_csv, words=CONNECTION_WORDS | {41: ("normal.",)}),
    source="UCI KDD Cup 1999, simulated connections of a network, 10 % of the training part",
    notes="+1: attack; logarithms over logarithms of public bounds, an indicator for each of 84 "
          "public words, each row clipped to norm 1",
)
_MNIST = DataSource(
    ("mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz"),
    (60_000,), 784, tuple(range(10)), (0, 2, 4, 6, 8), transform=_pool_images,
    read=read_idx, format="IDX file",
    source="MNIST (LeCun, Cortes, Burges), handwritten digits, training part",
    notes="+1: even digit; means of 2 x 2 pixels over 255, each row clipped to norm 1",
)
SOURCES = {
    "a9a": _A9A,
    "a9a_test": _A9A._replace(
        files=("a9a/a9a.t.gz",), rows=(16_281,), source=_A9A.source.replace("training", "test")
    ),
    "breast_cancer": DataSource(  # mean, standard error and worst value of ten quantities
        (), (569,), 30, (0, 1), (0,), transform=_scale_cells, divisor=math.sqrt(30.0),
        source="UCI Breast Cancer Wisconsin (Diagnostic), shipped with scikit-learn",
        notes="+1: malignant; fixed public bound per feature, clipped to [0, 1], over sqrt(30)",
    ),
    "breast_cancer_original": DataSource(
        ("breast-cancer/breast-cancer.gz",), (683,), 10, (2, 4), (4,),
        drop=1, divisor=10.0 * math.sqrt(9.0),
        source="UCI Breast Cancer Wisconsin (Original), LIBSVM collection, complete rows",
        notes="+1: malignant; sample number dropped, grades 1 to 10 divided by 10 sqrt(9)",
    ),
    "covertype": DataSource(  # ten numbers, then indicators of four areas and forty soils
        ("covtype20k/covtype.20k.data.gz",), (20_000,), 54, tuple(range(1, 8)), (2,),
        transform=_scale_forest, read=read_csv, format="CSV file",
        source="UCI Covertype (Blackard, Dean), its first 20,000 rows",
        notes="+1: class 2, lodgepole pine; fixed public range per number, rows clipped to norm 1",
    ),
    "digits": DataSource(  # pixels from 0 to 16
        (), (1_797,), 64, tuple(range(10)), (0, 2, 4, 6, 8), divisor=16.0 * math.sqrt(64.0),
        source="UCI Optical Recognition of Handwritten Digits, shipped with scikit-learn",
        notes="+1: even digit; pixels 0 to 16 divided by 16 sqrt(64) = 128",
    ),
    "imdb": _IMDB,
    "imdb_test": _IMDB._replace(
        read=partial(read_tokens, part="test", words=10_000, length=256),
        source=_IMDB.source.replace("training", "test"),
    ),
    "kddcup99": _KDDCUP99,
    "kddcup99_test": _KDDCUP99._replace(
        files=("kddcup99/corrected.gz",), rows=(311_029,),
        source="UCI KDD Cup 1999, simulated connections of a network, test part",
    ),
    "mnist": _MNIST,
    "mnist_test": _MNIST._replace(
        files=("mnist/t10k-images-idx3-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz"),
        rows=(10_000,), source=_MNIST.source.replace("training", "test"),
    ),
    "mushrooms": DataSource(
        ("mushrooms/mushrooms.gz",), (8_124,), 112, (0, 1), (1,), divisor=math.sqrt(21.0),
        source="UCI Mushroom, LIBSVM encoding",
        notes="+1: poisonous; divided by sqrt(21), the number of attributes",
    ),
    "phishing": DataSource(
        ("phishing/phishing.gz",), (11_055,), 68, (0, 1), (1,),
        source="UCI Phishing Websites, LIBSVM encoding",
        notes="+1: label 1 of the file; 30 indicators per row, stored over sqrt(30); only clipped",
    ),
    "rcv1": DataSource(
        ("rcv1_subset/rcv1_ccat_train1000.gz", "rcv1_subset/rcv1_ccat_test500.gz"),
        (1_000, 500), 47_236, (-1, 1), (1,), texts=True,
        source="RCV1-v2 (Lewis, Yang, Rose, Li 2004), topic CCAT, extracts of 1,000 and 500",
        notes=f"+1: topic CCAT; the {MAX_WORDS} largest tf-idf values, clipped to norm 1",
    ),
    "sector": DataSource(  # 105 industries by sector; the first 52 have half of the pages
        ("sector/sector.scale.bz2", "sector/sector.t.scale.bz2"),
        (6_412, 3_207), 55_197, tuple(range(1, 106)), tuple(range(1, 53)), texts=True,
        source="Industry Sector web pages (McCallum, Nigam; Rennie), LIBSVM collection, both parts",
        notes=f"+1: classes 1 to 52 of 105; {MAX_WORDS} largest tf-idf values, clipped to norm 1",
    ),
    "w8a": DataSource(
        ("w8a/w8a.gz",), (49_749,), 300, (-1, 1), (1,),
        source="Platt's web page data, LIBSVM collection, training part",
        notes="+1: the rare category; each row clipped to norm 1, empty rows stay zero",
    ),
}
# fmt: on
