"""Where each real data set is found, and by which public numbers its rows are scaled.

Scaling by column minima, maxima or deviations would have to be paid for. The rules here are free:
features are measured and divided by numbers typed in this file, round ones of the order that the
published descriptions give, and never fitted to the records, which are clipped beyond them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from privopt.problems import formats

FloatArray = npt.NDArray[np.float64]

# A document's largest entries that are kept: about half of all documents have fewer.
WORDS = 128

# In turn: radius, texture, perimeter, area, smoothness, compactness, concavity, concave points,
# symmetry, fractal dimension. A radius of 40 has perimeter 251 and area 5027.
CELL_BOUNDS = (40.0, 50.0, 250.0, 5000.0, 0.25, 1.25, 1.5, 0.3, 0.75, 0.25)

# Of the numbers of a piece of forest, least and most: elevation in metres, aspect and slope in
# degrees, metres to water along and down, to a road, three shades of 0 to 255, metres to a fire.
FOREST_BOUNDS = (
    (1500.0, 0.0, 0.0, 0.0, -1000.0, 0.0, 0.0, 0.0, 0.0, 0.0),
    (4000.0, 360.0, 90.0, 2000.0, 1000.0, 10_000.0, 255.0, 255.0, 255.0, 10_000.0),
)

# Of a connection, the most: seconds and bytes, eighteen counts and flags, seven rates; then of its
# host two counts and eight rates. Rates and flags are at most 1.
CONNECTION_BOUNDS = (
    *(1e5, 1e9, 1e9, 1.0, 10.0, 10.0, 100.0, 10.0, 1.0, 1000.0, 1.0, 10.0, 1000.0, 100.0),
    *(10.0, 10.0, 10.0, 1.0, 1.0, 512.0, 512.0, *(1.0,) * 7, 256.0, 256.0, *(1.0,) * 8),
)
# Columns 2 to 4 of a connection, in the words that the published description of its later edition,
# NSL-KDD, lists. Another word than these has no indicator.
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


def _cells(features: FloatArray) -> FloatArray:
    """Means and worst values over `CELL_BOUNDS`, standard errors over a tenth, in [0, 1]."""
    bounds = np.outer((1.0, 0.1, 1.0), CELL_BOUNDS).reshape(1, 30)
    return np.asarray(np.clip(features / bounds, 0.0, 1.0))


def _forest(features: FloatArray) -> FloatArray:
    """Ten numbers between `FOREST_BOUNDS` taken to [0, 1], beside indicators as they are."""
    least, most = np.array(FOREST_BOUNDS)
    numbers = np.clip((features[:, :10] - least) / (most - least), 0.0, 1.0)
    return np.hstack([numbers, np.clip(features[:, 10:], 0.0, 1.0)])


def _connections(features: FloatArray) -> FloatArray:
    """``ln(1 + x) / ln(1 + bound)`` of every number, and an indicator of every word."""
    numbers = np.clip(np.delete(features, list(CONNECTION_WORDS), 1), 0.0, CONNECTION_BOUNDS)
    words = [features[:, [c]] == np.arange(len(known)) for c, known in CONNECTION_WORDS.items()]
    return np.hstack([np.log1p(numbers) / np.log1p(CONNECTION_BOUNDS), *words])


def _images(features: FloatArray) -> FloatArray:
    """Means over 2 x 2 of the 28 x 28 pixels of 0 to 255, in [0, 1]."""
    return np.asarray(features.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196) / 255.0)


class Source(NamedTuple):
    """Where one data set is found, its shape, which labels are +1, and how rows are scaled.

    ``files`` lie below the folder, as many for each part; a set without files ships with
    scikit-learn. ``rows`` of each part and ``columns`` are what ``read`` finds. ``drop`` leading
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
    read: formats.Reader = formats.libsvm


# fmt: off
_A9A = Source(  # 14 attributes, of which each sets at most one indicator
    ("a9a/a9a.gz",), (32_561,), 123, (-1, 1), (1,), divisor=math.sqrt(14.0),
    source="UCI Adult in Platt's binarisation, LIBSVM collection, training part",
    notes="+1: income above $50,000; divided by sqrt(14), the number of attributes",
)
_IMDB = Source(  # of 20,000 words, which are those of other reviews, half
    ("imdb/imdb_tokens.npz",), (25_000,), 10_000, (0, 1), (1,), texts=True,
    read=partial(formats.tokens, part="train", words=10_000, length=256),
    source="Large Movie Review Dataset v1.0 (Maas et al., ACL 2011), training part",
    notes=f"+1: positive; counts of 10,000 words among the last 256, the {WORDS} largest, clipped "
          "to norm 1",
)
_KDDCUP99 = Source(  # the label follows 41 columns; what is not normal is an attack
    ("kddcup99/kddcup.data_10_percent.gz",), (494_021,), 41, (-1, 0), (-1,), measure=_connections,
    read=partial(formats.comma_separated, words=CONNECTION_WORDS | {41: ("normal.",)}),
    source="UCI KDD Cup 1999, simulated connections of a network, 10 % of the training part",
    notes="+1: attack; logarithms over those of fixed public bounds, an indicator for each of 84 "
          "public words, each row clipped to norm 1",
)
_MNIST = Source(
    ("mnist/train-images-idx3-ubyte.gz", "mnist/train-labels-idx1-ubyte.gz"),
    (60_000,), 784, tuple(range(10)), (0, 2, 4, 6, 8), measure=_images, read=formats.idx,
    source="MNIST (LeCun, Cortes, Burges), handwritten digits, training part",
    notes="+1: even digit; means of 2 x 2 pixels over 255, each row clipped to norm 1",
)
SOURCES = {
    "a9a": _A9A,
    "a9a_test": _A9A._replace(
        files=("a9a/a9a.t.gz",), rows=(16_281,), source=_A9A.source.replace("training", "test")
    ),
    "breast_cancer": Source(  # ten quantities: mean, standard error and worst value of each
        (), (569,), 30, (0, 1), (0,), measure=_cells, divisor=math.sqrt(30.0),
        source="UCI Breast Cancer Wisconsin (Diagnostic), shipped with scikit-learn",
        notes="+1: malignant; fixed public bound a feature, clipped to [0, 1], over sqrt(30)",
    ),
    "breast_cancer_original": Source(
        ("breast-cancer/breast-cancer.gz",), (683,), 10, (2, 4), (4,),
        drop=1, divisor=10.0 * math.sqrt(9.0),
        source="UCI Breast Cancer Wisconsin (Original), LIBSVM collection, complete rows",
        notes="+1: malignant; sample number dropped, grades 1 to 10 divided by 10 sqrt(9)",
    ),
    "covertype": Source(  # four areas and forty soils as indicators, after ten numbers
        ("covtype20k/covtype.20k.data.gz",), (20_000,), 54, tuple(range(1, 8)), (2,),
        measure=_forest, read=formats.comma_separated,
        source="UCI Covertype (Blackard, Dean), its first 20,000 rows",
        notes="+1: class 2, lodgepole pine; fixed public range a number, rows clipped to norm 1",
    ),
    "digits": Source(  # a pixel counts 0 to 16 dots
        (), (1_797,), 64, tuple(range(10)), (0, 2, 4, 6, 8), divisor=16.0 * math.sqrt(64.0),
        source="UCI Optical Recognition of Handwritten Digits, shipped with scikit-learn",
        notes="+1: even digit; pixels 0 to 16 divided by 16 sqrt(64) = 128",
    ),
    "imdb": _IMDB,
    "imdb_test": _IMDB._replace(
        read=partial(formats.tokens, part="test", words=10_000, length=256),
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
    "mushrooms": Source(
        ("mushrooms/mushrooms.gz",), (8_124,), 112, (0, 1), (1,), divisor=math.sqrt(21.0),
        source="UCI Mushroom, LIBSVM encoding",
        notes="+1: poisonous; divided by sqrt(21), the number of attributes",
    ),
    "phishing": Source(
        ("phishing/phishing.gz",), (11_055,), 68, (0, 1), (1,),
        source="UCI Phishing Websites, LIBSVM encoding",
        notes="+1: label 1 of the file; 30 indicators a row, stored over sqrt(30); only clipped",
    ),
    "rcv1": Source(
        ("rcv1_subset/rcv1_ccat_train1000.gz", "rcv1_subset/rcv1_ccat_test500.gz"),
        (1_000, 500), 47_236, (-1, 1), (1,), texts=True,
        source="RCV1-v2 (Lewis, Yang, Rose, Li 2004), topic CCAT, extracts of 1,000 and 500",
        notes=f"+1: topic CCAT; the {WORDS} largest tf-idf values, clipped to norm 1",
    ),
    "sector": Source(  # 105 industries, sorted by sector: a public rule, and half of the pages
        ("sector/sector.scale.bz2", "sector/sector.t.scale.bz2"),
        (6_412, 3_207), 55_197, tuple(range(1, 106)), tuple(range(1, 53)), texts=True,
        source="Industry Sector web pages (McCallum, Nigam; Rennie), LIBSVM collection, both parts",
        notes=f"+1: classes 1 to 52 of 105; the {WORDS} largest tf-idf values, clipped to norm 1",
    ),
    "w8a": Source(
        ("w8a/w8a.gz",), (49_749,), 300, (-1, 1), (1,),
        source="Platt's web page data, LIBSVM collection, training part",
        notes="+1: the rare category; each row clipped to norm 1, empty rows stay zero",
    ),
}
# fmt: on
