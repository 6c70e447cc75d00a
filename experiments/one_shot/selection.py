"""The tail of private selection, on scores for which the theorem is nearly attained.

One candidate is best and all others trail by the gap that the theorem names, so that they are as
likely as the theorem allows. What goes red: the logarithm to base 10 in ``gap`` (a mistake that is
in print), and draws at half the scale for the claim ``attained``.
"""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import beta

import privopt
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.statistics import BoundedScores, ExponentialMechanism

BUDGET = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")
MECHANISM = ExponentialMechanism.calibrated(BoundedScores.of(1.0), BUDGET)
CANDIDATES = (2, 5, 100)
TAILS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
DRAWS = 100_000
FAILURE = 1e-5  # of one interval: below 1e-3 for all of them together


def gap(candidates, t):
    """``b (ln k + t)``: by how much a selection may fall short of the best score."""
    if t == 0.0:
        return MECHANISM.scale * math.log(candidates)
    return MECHANISM.gap_bound(candidates, math.exp(-t))


@jax.jit
def selected(keys, scores):
    """The candidate of every run."""
    return jax.lax.map(lambda key: MECHANISM.select(key, scores), keys, batch_size=10_000)


@cache
def failures(candidates, t):
    """How often another candidate than the best is drawn: an interval (Clopper and Pearson)."""
    scores = jnp.full(candidates, -gap(candidates, t)).at[0].set(0.0)
    keys = replicate_keys(stream(0, candidates=candidates, t=t), DRAWS)
    count = int((np.asarray(selected(keys, scores)) != 0).sum())
    low = beta.ppf(FAILURE / 2.0, count, DRAWS - count + 1) if count else 0.0
    high = beta.ppf(1.0 - FAILURE / 2.0, count + 1, DRAWS - count)
    return count / DRAWS, privopt.Interval(float(low), float(high))


def row(candidates, t):
    """One tail: measured, the exact law of these scores, and the theorem."""
    found, interval = failures(candidates, t)
    odds = (candidates - 1.0) * math.exp(-gap(candidates, t) / MECHANISM.scale)
    law = odds / (1.0 + odds)
    return {
        "label": f"k = {candidates}, t = {t:g}", "candidates": candidates, "t": t,
        "found": found, "interval": interval, "low": interval.lower, "high": interval.upper,
        "law": law, "theorem": math.exp(-t), "share": law / math.exp(-t), "most": 0.9,
    }  # fmt: skip


def tails(profile):
    """All of them."""
    del profile
    return (row(candidates, t) for candidates in CANDIDATES for t in TAILS)


def many(profile):
    """Along ``t``, with a column for every number of candidates."""
    del profile
    for t in TAILS:
        told = {"label": f"t = {t:g}", "t": t, "theorem": math.exp(-t)}
        for candidates in CANDIDATES:
            each = row(candidates, t)
            told |= {f"{name}_{candidates}": each[name] for name in ("found", "interval", "law")}
        yield told


def attained(profile):
    """From ``t = 3`` among 100: the law is nearly the theorem's."""
    return (each for each in tails(profile) if each["candidates"] == 100 and each["t"] >= 3.0)


def printed(profile):
    """What a gap with the logarithm to base 10 would claim, from ``t = 1`` on, among 100."""
    del profile
    for t in TAILS:
        if t >= 1.0:
            odds = 99.0 * math.exp(-gap(100, t) * math.log10(math.e) / MECHANISM.scale)
            told = {"label": f"t = {t:g}", "t": t, "claimed": math.exp(-t)}
            yield told | {"law": odds / (1.0 + odds)}


NAMES = {2: ("green", "2"), 5: ("orange", "5"), 100: ("blue", "100")}

experiment = Study(
    name="selection_tails",
    title="How often is a private selection bad? As the theorem says, e^-t",
    description=(
        "The exponential mechanism at ε = 1, pure, replace-one, scores of sensitivity 1: with "
        "probability 1 - e^-t at least the selected score is within b (ln k + t) of the best of k, "
        "b = 4/ε for a replacement that may move all scores either way. One candidate "
        "is best and all others trail by exactly that, the worst case. Bands: 100,000 draws each, "
        "by intervals that all hold together but for one time in a thousand. A gap with the "
        "logarithm to base 10, which has been printed, would be exceeded. Nothing is tuned."
    ),
    parts={part.__name__: part for part in (tails, many, attained, printed)},
    claims=(
        Claim("draws fail no more often than e^-t", "tails", "low <= theorem"),
        Claim("the exact law is no more than e^-t", "tails", "law <= theorem"),
        Claim("exact law above what was measured low", "tails", "low <= law"),
        Claim("exact law below what was measured high", "tails", "law <= high"),
        Claim("among 100 candidates the law is nearly e^-t", "attained", "most <= share"),
        Claim("with a logarithm to base 10 it fails more often", "printed", "claimed < law"),
    ),
    plots=(
        Plot(
            "selection_tails",
            "Selections that miss by b (ln k + t), ε = 1",
            Panel(
                part="many", x="t", x_label="t", y_label="probability", log="y",
                title="exact laws (lines) in measured bands",
                lines=(
                    Line("theorem", "theorem, e^-t", "grey", "dots"),
                    *(
                        Line(f"law_{k}", f"{name} candidates", colour, band=f"interval_{k}")
                        for k, (colour, name) in NAMES.items()
                    ),
                ),
            ),
            Panel(
                part="printed", x="t", x_label="t", y_label="probability", log="y",
                title="with the logarithm to base 10, 100 candidates",
                lines=(
                    Line("claimed", "theorem, e^-t", "grey", "dots"),
                    Line("law", "base 10", "purple"),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "tails",
            "How often the best is missed",
            Column("k", "{candidates}"),
            Column("t", "{t:g}"),
            Column("measured", "{interval:.5f}"),
            Column("law", "{law:.5f}"),
            Column("e^-t", "{theorem:.5f}"),
        ),
    ),
)  # fmt: skip
