"""The median by smooth sensitivity and by propose-test-release, against their laws and the truth.

The records are the quantiles of a normal law, as many as n: the error is that of privacy alone.
What goes red: ``beta`` twice as large in ``smooth_scale``, which adds less noise than the
mechanism, and a distance to instability that is one too large in ``chance``, at n = 701.
"""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri
from scipy.stats import beta, binom

import privopt
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.statistics import Median, ProposeTestRelease, SmoothLaplaceMechanism

EPSILON, DELTA, BOUND = 1.0, 1e-6, 0.01
BUDGET = privopt.Budget(epsilon=EPSILON, delta=DELTA, relation="replace_one")
MEDIAN = Median.of(0.0, 1.0)
SMOOTH = SmoothLaplaceMechanism.calibrated(MEDIAN, BUDGET)
TESTED = ProposeTestRelease.calibrated(MEDIAN, BOUND, BUDGET)
SIZES = (101, 201, 401, 701, 1001, 1401, 2001, 3001)
RUNS = 400
SPREAD = 0.1  # the standard deviation of the law
SURE = 0.99  # share of passed tests from which their errors are drawn
FAILURE = 1e-5  # of one end of an interval: below 1e-3 for all of them together


def records(n):
    """The quantiles of a normal law about 1/2, in ``[0, 1]``."""
    shares = (np.arange(n) + 0.5) / n
    return jnp.asarray(np.clip(0.5 + SPREAD * ndtri(shares), 0.0, 1.0))


def halves(n):
    """Half of the records at 0.3 and half, but for one, at 0.7."""
    return jnp.asarray(np.where(np.arange(n) <= n // 2, 0.3, 0.7))


def smooth_scale(data):
    """``c S_beta``: the mean absolute error, by pairs of sorted records, in NumPy.

    ``S_beta = max_k e^(-beta k) max_t x_{m+t} - x_{m+t-k-1}``.
    """
    n = data.size
    padded = np.concatenate([np.zeros(n + 1), np.sort(data), np.ones(n + 1)])
    middle = n + 1 + (n - 1) // 2
    widest = [
        (padded[middle : middle + k + 2] - padded[middle - k - 1 : middle + 1]).max()
        for k in range((n + 1) // 2 + 1)
    ]
    decay = np.exp(-SMOOTH.smoothness * np.arange(len(widest)))
    return SMOOTH.scale * float((widest * decay).max())


def distance(data):
    """The fewest records to replace until a neighbour's median is more than ``BOUND`` away."""
    n = data.size
    padded = np.concatenate([np.zeros(n + 1), np.sort(data), np.ones(n + 1)])
    middle = n + 1 + (n - 1) // 2
    for k in range(n + 1):
        if (padded[middle : middle + k + 2] - padded[middle - k - 1 : middle + 1]).max() > BOUND:
            return k
    return n + 1


def chance(data):
    """That the test passes: ``gamma`` plus Laplace noise above the threshold."""
    short = (TESTED.threshold - distance(data)) / TESTED.distance_scale
    return 0.5 * math.exp(-short) if short > 0.0 else 1.0 - 0.5 * math.exp(short)


@cache
def released(n):
    """Absolute errors of both mechanisms; those of the second are NaN where the test failed."""
    keys, data = replicate_keys(stream(0, n=n), RUNS), records(n)
    one = jax.lax.map(lambda key: SMOOTH.release(key, data), keys, batch_size=20)
    two = jax.lax.map(lambda key: TESTED.release(key, data).value, keys, batch_size=20)
    return np.abs(np.asarray(one) - 0.5), np.abs(np.asarray(two) - 0.5)


def middle(errors):
    """The median of some errors, and an interval of it by order statistics."""
    found, count = np.sort(errors), errors.size
    low, high = (int(binom.ppf(tail, count, 0.5)) for tail in (FAILURE, 1.0 - FAILURE))
    return float(np.median(found)), privopt.Interval(float(found[low - 1]), float(found[high]))


def passed(errors):
    """The share of runs that passed the test, and an interval (Clopper and Pearson)."""
    count = int(np.isfinite(errors).sum())
    low = beta.ppf(FAILURE, count, RUNS - count + 1) if count else 0.0
    high = beta.ppf(1.0 - FAILURE, count + 1, RUNS - count) if count < RUNS else 1.0
    return count / RUNS, privopt.Interval(float(low), float(high))


def sizes(profile):
    """One row a number of records."""
    del profile
    for n in SIZES:
        data = np.asarray(records(n), np.float64)
        smooth, tested = released(n)
        found, found_band = middle(smooth)
        share, share_band = passed(tested)
        row = {
            "label": f"n = {n}", "n": n,
            "smooth": found, "smooth_band": found_band,
            "smooth_law": math.log(2.0) * smooth_scale(data),
            "share": share, "share_band": share_band, "chance": chance(data),
            "tested_law": None, "tested": None, "tested_band": None,
            "worst_case": math.log(2.0) / EPSILON, "tenth": 0.1 * math.log(2.0) / EPSILON,
            "sampling": SPREAD * math.sqrt(math.pi / 2.0 / n) * float(ndtri(0.75)),
            "distance": distance(data),
        }  # fmt: skip
        if share > SURE:
            row["tested"], row["tested_band"] = middle(tested[np.isfinite(tested)])
            row["tested_law"] = math.log(2.0) * TESTED.answer_scale
        yield row


def laws(profile):
    """Every law beside what was measured of it."""
    for row in sizes(profile):
        for name, law, band in (
            ("smooth", "smooth_law", "smooth_band"),
            ("test passed", "chance", "share_band"),
            ("tested", "tested_law", "tested_band"),
        ):
            if row[band] is not None:
                ends = {"low": row[band].lower, "high": row[band].upper}
                yield {"label": f"{name}, {row['label']}", "law": row[law]} | ends


def large(profile):
    """From 1001 records on."""
    return (row for row in sizes(profile) if row["n"] >= 1001)


def largest(profile):
    """The last of them."""
    *_, last = sizes(profile)
    yield last


def split(profile):
    """Records at two points: no median is stable there, and both mechanisms must say so."""
    del profile
    for n in (101, 1001):
        data = np.asarray(halves(n), np.float64)
        told = {"label": f"n = {n}", "jump": 0.4, "noise": smooth_scale(data)}
        yield told | {"chance": chance(data), "delta": DELTA}


experiment = Study(
    name="private_median",
    title="What does a private median cost? Less than sampling, from 3,000 stable records",
    description=(
        "The median of n records in [0, 1], quantiles of a normal law with standard deviation "
        f"{SPREAD:g}, at ε = {EPSILON:g}, δ = 1e-6 under replace-one: by Laplace noise scaled to "
        "the smooth sensitivity, and by propose-test-release, where the bound of the local "
        f"sensitivity, {BOUND:g}, is public and not tuned. Errors are median absolute ones, and of "
        f"tested answers only where more than {SURE:.0%} pass. Bands: {RUNS} releases each, by "
        "intervals that all hold together but for one time in a thousand; the laws come from a "
        "sum of their own over sorted records. Noise for the worst case has scale 1/ε. Where "
        "half of the records lie at 0.3 and half at 0.7 a median can jump: noise exceeds the jump, "
        "and the test passes with probability δ at most."
    ),
    parts={part.__name__: part for part in (sizes, laws, large, largest, split)},
    claims=(
        Claim("laws above what was measured low", "laws", "low <= law"),
        Claim("laws below what was measured high", "laws", "law <= high"),
        Claim("smooth noise is below a tenth of the worst case's", "large", "smooth_band < tenth"),
        Claim("at n = 3,001 it is below what sampling errs", "largest", "smooth_law < sampling"),
        Claim("at two points smooth noise covers the jump", "split", "jump <= noise"),
        Claim("at two points the test passes with δ at most", "split", "chance <= delta"),
    ),
    plots=(
        Plot(
            "private_median",
            "The median at ε = 1, δ = 1e-6, replace-one",
            Panel(
                part="sizes", title="exact laws (lines) in measured bands", x="n", x_label="n",
                y_label="median absolute error", log="xy",
                lines=(
                    Line("worst_case", "worst-case noise", "grey", "dashes"),
                    Line("sampling", "sampling alone", "grey", "dots"),
                    Line("tested_law", "propose-test-release", "orange", band="tested_band"),
                    Line("smooth_law", "smooth sensitivity", "blue", band="smooth_band"),
                ),
            ),
            Panel(
                part="sizes", title="share of tests that pass", x="n", x_label="n",
                y_label="share", log="x",
                lines=(Line("chance", "propose-test-release", "orange", band="share_band"),),
            ),
        ),
    ),
    listings=(
        Listing(
            "sizes",
            "Records at the quantiles of a normal law",
            Column("n", "{n}"),
            Column("smooth: measured", "{smooth_band:.4f}"),
            Column("law", "{smooth_law:.4f}"),
            Column("distance to instability", "{distance}"),
            Column("tests passed", "{share_band:.3f}"),
            Column("law", "{chance:.3f}"),
            Column("sampling alone", "{sampling:.4f}"),
        ),
        Listing(
            "split",
            "Records at 0.3 and at 0.7",
            Column("n", "{label}"),
            Column("smooth noise", "{noise:.3f}", "jump <= noise"),
            Column("test passes", "{chance:.1e}", "chance <= delta"),
        ),
    ),
    profiles=("full",),
)  # fmt: skip
