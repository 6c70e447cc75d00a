"""Private medians by smooth sensitivity and by propose-test-release, against exact errors.

The records are the quantiles of a normal distribution, so the error is due to privacy only. The
experiment fails for twice the ``smoothness`` in ``smooth_scale``, which is less noise than that of
the mechanism, and for a ``distance`` that is one too large in ``chance``, at n = 701.
"""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri
from scipy.stats import binom, laplace

import privopt
from privopt.lab import Analysis, Claim, Listing, at_most, below, plotting, replicate_keys, stream
from privopt.statistics import Median, ProposeTestRelease, SmoothLaplaceMechanism, clopper_pearson

EPSILON, DELTA, BOUND = 1.0, 1e-6, 0.01
BUDGET = privopt.Budget(epsilon=EPSILON, delta=DELTA, relation="replace_one")
MEDIAN = Median.of(0.0, 1.0)
SMOOTH = SmoothLaplaceMechanism.calibrated(MEDIAN, BUDGET)
TESTED = ProposeTestRelease.calibrated(MEDIAN, BOUND, BUDGET)
SIZES = (101, 201, 401, 701, 1001, 1401, 2001, 3001)
RUNS = 400
SPREAD = 0.1  # standard deviation of the distribution
SURE = 0.99  # share of passed tests from which their errors are drawn
FAILURE = 1e-5  # of one end of an interval; all of them fail with probability below 1e-3


def records(n):
    """Return the quantiles of a normal distribution with mean 1/2, in ``[0, 1]``."""
    shares = (np.arange(n) + 0.5) / n
    return jnp.asarray(np.clip(0.5 + SPREAD * ndtri(shares), 0.0, 1.0))


def halves(n):
    """Return half of the records at 0.3 and half, except for one, at 0.7."""
    return jnp.asarray(np.where(np.arange(n) <= n // 2, 0.3, 0.7))


def widest(data, k):
    """Return the local sensitivity of the median after ``k`` replacements.

    It is ``max_t x_{m+t} - x_{m+t-k-1}`` over the sorted records.
    """
    n = data.size
    padded = np.concatenate([np.zeros(n + 1), np.sort(data), np.ones(n + 1)])
    middle = n + 1 + (n - 1) // 2
    return (padded[middle : middle + k + 2] - padded[middle - k - 1 : middle + 1]).max()


def smooth_scale(data):
    """Return the mean absolute error ``c S`` with ``S = max_k e^(-beta k) widest_k``."""
    gaps = np.array([widest(data, k) for k in range((data.size + 1) // 2 + 1)])
    decay = np.exp(-SMOOTH.smoothness * np.arange(len(gaps)))
    return SMOOTH.scale * float((gaps * decay).max())


def distance(data):
    """Return the smallest number of replacements with a local sensitivity above ``BOUND``."""
    n = data.size
    return next((k for k in range(n + 1) if widest(data, k) > BOUND), n + 1)


def chance(data):
    """Return the probability that the distance plus Laplace noise exceeds the threshold."""
    short = (TESTED.threshold - distance(data)) / TESTED.distance_scale
    return float(laplace.sf(short))


@cache
def released(n):
    """Return absolute errors of both mechanisms; NaN in the second if the test fails."""
    keys, data = replicate_keys(stream(0, n=n), RUNS), records(n)
    one = jax.lax.map(lambda key: SMOOTH.release(key, data), keys, batch_size=20)
    two = jax.lax.map(lambda key: TESTED.release(key, data).value, keys, batch_size=20)
    return np.abs(np.asarray(one) - 0.5), np.abs(np.asarray(two) - 0.5)


def median(errors):
    """Return the median of errors and an interval by order statistics."""
    ordered, count = np.sort(errors), errors.size
    low, high = (int(binom.ppf(tail, count, 0.5)) for tail in (FAILURE, 1.0 - FAILURE))
    interval = privopt.Interval(float(ordered[low - 1]), float(ordered[high]))
    return float(np.median(ordered)), interval


@cache
def row(n):
    """Return the measured and exact errors, and the share of passed tests."""
    data = np.asarray(records(n), np.float64)
    smooth, tested = released(n)
    passed = np.isfinite(tested)
    error, error_band = median(smooth)
    ends = (float(end) for end in clopper_pearson(int(passed.sum()), RUNS, FAILURE))
    tested_law, tested_error, tested_band = None, None, None
    if passed.mean() > SURE:
        tested_error, tested_band = median(tested[passed])
        tested_law = math.log(2.0) * TESTED.answer_scale
    return {
        "label": f"n = {n}", "n": n,
        "smooth": error, "smooth_band": error_band,
        "smooth_law": math.log(2.0) * smooth_scale(data),
        "share": int(passed.sum()) / RUNS, "share_band": privopt.Interval(*ends),
        "chance": chance(data),
        "tested_law": tested_law, "tested": tested_error, "tested_band": tested_band,
        "worst_case": math.log(2.0) / EPSILON, "tenth": 0.1 * math.log(2.0) / EPSILON,
        "sampling": SPREAD * math.sqrt(math.pi / 2.0 / n) * float(ndtri(0.75)),
        "distance": distance(data),
    }  # fmt: skip


def laws(profile):
    """Yield every exact value with the interval of its measurement."""
    for each in map(row, SIZES):
        for name, law, band in (
            ("smooth", "smooth_law", "smooth_band"),
            ("test passed", "chance", "share_band"),
            ("tested", "tested_law", "tested_band"),
        ):
            if each[band] is not None:
                ends = {"low": each[band].lower, "high": each[band].upper}
                yield {"label": f"{name}, {each['label']}", "law": each[law]} | ends


def split(profile):
    """Yield the noise and the probability of a passed test for records at two points."""
    for n in (101, 1001):
        data = np.asarray(halves(n), np.float64)
        values = {"label": f"n = {n}", "jump": 0.4, "noise": smooth_scale(data)}
        yield values | {"chance": chance(data), "delta": DELTA}


def median_figure(frames):
    """Error of private medians against n (left), and share of passed tests (right).

    Lines are exact, bands are intervals of 400 releases. Noise by smooth sensitivity is less than a
    tenth of the worst-case noise from n = 201, and less than the sampling error at n = 3,001.
    Propose-test-release passes its test from n = 1,001.
    """
    names = "median absolute error", "share of passed tests"
    figure, (first, second) = plotting.panels("Private median at ε = 1, δ = 1e-6", *names)
    first.set(xlabel="n", ylabel="error", xscale="log", yscale="log")
    second.set(xlabel="n", ylabel="share", xscale="log")
    tested = {"label": "propose-test-release", "color": plotting.ORANGE}
    for axes, name, band, style in (
        (first, "worst_case", None, {"label": "worst case", "color": plotting.GREY, "ls": "--"}),
        (first, "sampling", None, {"label": "sampling", "color": plotting.GREY, "ls": ":"}),
        (first, "tested_law", "tested_band", tested),
        (first, "smooth_law", "smooth_band", {"label": "smooth sensitivity"}),
        (second, "chance", "share_band", tested),
    ):
        plotting.curve(axes, frames["sizes"], "n", name, band=band, **style)
    return figure


JUMP, PASSED = at_most("jump", "noise"), at_most("chance", "delta")

experiment = Analysis(
    name="private_median",
    title="Median by smooth sensitivity and by propose-test-release: error against n",
    description=(
        "The median of n records in [0, 1], quantiles of a normal distribution with standard "
        f"deviation {SPREAD:g}, at ε = {EPSILON:g}, δ = 1e-6 under replace-one: by Laplace noise "
        "scaled to the smooth sensitivity, and by propose-test-release with the public bound "
        f"{BOUND:g} of the local sensitivity. Errors are median absolute ones; those of "
        f"propose-test-release are given if more than {SURE:.0%} of the tests pass. Intervals of "
        f"{RUNS} releases hold together except with probability 0.001. Worst-case noise has scale "
        "1/ε. With half of the records at 0.3 and half at 0.7 a replacement changes the median by "
        "0.4: the noise exceeds it, and the test passes with probability at most δ."
    ),
    parts={
        "sizes": lambda profile: map(row, SIZES),
        "laws": laws,
        "large": lambda profile: [row(n) for n in SIZES if n >= 1001],
        "largest": lambda profile: [row(SIZES[-1])],
        "split": split,
    },
    claims=(
        Claim("exact values are above the lower ends", "laws", at_most("low", "law")),
        Claim("exact values are below the upper ends", "laws", at_most("law", "high")),
        Claim(
            "smooth noise is below a tenth of worst case", "large", below("smooth_band", "tenth")
        ),
        Claim(
            "smooth noise is below sampling, n = 3,001", "largest", below("smooth_law", "sampling")
        ),
        Claim("at two points smooth noise exceeds the jump", "split", JUMP),
        Claim("at two points the test passes with probability at most δ", "split", PASSED),
    ),
    figures={"private_median": median_figure},
    listings=(
        Listing(
            "sizes",
            "Records at the quantiles of a normal distribution",
            {"n": "{n}", "smooth: measured": "{smooth_band:.4f}", "exact": "{smooth_law:.4f}"}
            | {"distance to instability": "{distance}", "tests passed": "{share_band:.3f}"}
            | {"probability": "{chance:.3f}", "sampling alone": "{sampling:.4f}"},
        ),
        Listing(
            "split",
            "Records at 0.3 and at 0.7",
            {"n": "{label}", "smooth noise": "{noise:.3f}", "test passes": "{chance:.1e}"},
            {"smooth noise": JUMP, "test passes": PASSED},
        ),
    ),
    profiles=("full",),
)
