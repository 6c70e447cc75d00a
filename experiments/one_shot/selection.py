"""Tail of private selection, on scores for which the theorem is nearly attained.

One candidate is best and all others are worse by the gap of the theorem, so they are as likely as
the theorem allows. The experiment fails for a logarithm to base 10 in ``gap`` (a published error),
and, in part ``attained``, for half the scale of the mechanism.
"""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import privopt
from privopt.lab import Analysis, Claim, Listing, at_most, below, plotting, replicate_keys, stream
from privopt.statistics import BoundedScores, ExponentialMechanism, clopper_pearson

BUDGET = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")
MECHANISM = ExponentialMechanism.calibrated(BoundedScores.of(1.0), BUDGET)
CANDIDATES = {2: plotting.GREEN, 5: plotting.ORANGE, 100: plotting.BLUE}
TAILS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
RUNS = 100_000
FAILURE = 1e-5  # of one interval; all of them together fail with probability below 1e-3


def gap(candidates, t):
    """Return ``b (ln k + t)``, the bound on the difference from the best score."""
    if t == 0.0:
        return MECHANISM.scale * math.log(candidates)
    return MECHANISM.gap_bound(candidates, math.exp(-t))


@jax.jit
def selected(keys, scores):
    """Return the selected candidate of every run."""
    return jax.lax.map(lambda key: MECHANISM.select(key, scores), keys, batch_size=10_000)


@cache
def row(candidates, t):
    """Return the measured probability of a failure, its exact value, and the theorem."""
    scores = jnp.full(candidates, -gap(candidates, t)).at[0].set(0.0)
    keys = replicate_keys(stream(0, candidates=candidates, t=t), RUNS)
    count = int((np.asarray(selected(keys, scores)) != 0).sum())
    low, high = (float(end) for end in clopper_pearson(count, RUNS, FAILURE / 2.0))
    odds = (candidates - 1.0) * math.exp(-gap(candidates, t) / MECHANISM.scale)
    law = odds / (1.0 + odds)
    return {
        "label": f"k = {candidates}, t = {t:g}", "candidates": candidates, "t": t,
        "found": count / RUNS, "interval": privopt.Interval(low, high), "low": low, "high": high,
        "law": law, "theorem": math.exp(-t), "share": law / math.exp(-t), "most": 0.9,
    }  # fmt: skip


def tails(profile):
    """Yield a row for every number of candidates and t."""
    return (row(candidates, t) for candidates in CANDIDATES for t in TAILS)


def many(profile):
    """Yield a row for every t, with columns for every number of candidates."""
    for t in TAILS:
        values = {"label": f"t = {t:g}", "t": t, "theorem": math.exp(-t)}
        for k in CANDIDATES:
            values |= {f"{name}_{k}": row(k, t)[name] for name in ("found", "interval", "law")}
        yield values


def printed(profile):
    """Yield the exact failure of a gap with the logarithm to base 10, for 100 candidates."""
    for t in (t for t in TAILS if t >= 1.0):
        odds = 99.0 * math.exp(-gap(100, t) * math.log10(math.e) / MECHANISM.scale)
        yield {"label": f"t = {t:g}", "t": t, "claimed": math.exp(-t), "law": odds / (1.0 + odds)}


def selection_figure(frames):
    """Probability that the score is more than b (ln k + t) below the best, against t.

    Left: exact values (lines) and intervals of 100,000 runs (bands), with the bound e^-t. The bound
    is nearly attained with 100 candidates. Right: a gap with the logarithm to base 10 is exceeded
    more often than e^-t.
    """
    names = "exact values and measured intervals", "gap with the logarithm to base 10, k = 100"
    figure, (first, second) = plotting.panels("Private selection: failures against t", *names)
    bound = {"label": "bound e^-t", "color": plotting.GREY, "ls": ":"}
    for axes in (first, second):
        axes.set(xlabel="t", ylabel="probability", yscale="log")
    plotting.curve(first, frames["many"], "t", "theorem", **bound)
    for k, color in CANDIDATES.items():
        style = {"band": f"interval_{k}", "label": f"{k} candidates", "color": color}
        plotting.curve(first, frames["many"], "t", f"law_{k}", **style)
    plotting.curve(second, frames["printed"], "t", "claimed", **bound)
    plotting.curve(second, frames["printed"], "t", "law", label="base 10", color=plotting.PURPLE)
    return figure


experiment = Analysis(
    name="selection_tails",
    title="Private selection by the exponential mechanism: tail of the difference from the best",
    description=(
        "The exponential mechanism at ε = 1, pure, replace-one, scores of sensitivity 1. With "
        "probability at least 1 - e^-t the selected score is within b (ln k + t) of the best of "
        "k, where b = 4/ε since a replacement may change all scores in either direction. One "
        "candidate is best and all others are worse by that gap, the worst case. Intervals are of "
        "100,000 runs each and hold together except with probability 0.001."
    ),
    parts={
        "tails": tails,
        "many": many,
        "attained": lambda profile: [row(100, t) for t in TAILS if t >= 3.0],
        "printed": printed,
    },
    claims=(
        Claim("failures are not more frequent than e^-t", "tails", at_most("low", "theorem")),
        Claim("the exact probability is at most e^-t", "tails", at_most("law", "theorem")),
        Claim("exact values are above the lower ends", "tails", at_most("low", "law")),
        Claim("exact values are below the upper ends", "tails", at_most("law", "high")),
        Claim("with 100 candidates e^-t is nearly attained", "attained", at_most("most", "share")),
        Claim("with a logarithm to base 10 e^-t is exceeded", "printed", below("claimed", "law")),
    ),
    figures={"selection_tails": selection_figure},
    listings=(
        Listing(
            "tails",
            "Probability of a failure",
            {"k": "{candidates}", "t": "{t:g}", "measured": "{interval:.5f}"}
            | {"exact": "{law:.5f}", "e^-t": "{theorem:.5f}"},
        ),
    ),
)
