"""Objective perturbation at a kink: the median of {0, 100}, beside {0, 101}.

Every tilt moves the minimiser of a smooth loss, but a kink holds it: a range of tilts of positive
probability ends at the record itself. What goes red: a median rounded over 0.01 in ``kept``, whose
curvature the noise has not seen, and draws of ``medians`` with a tilt that is 5 % too large.
"""

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.special import ndtr
from scipy.stats import beta

import privopt
from privopt.convex import L2Ball
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.problems import huber

EPSILON, DELTA, REGULARISATION, WIDTH = 1.0, 1e-6, 1.0, 1.0
BUDGET = privopt.Budget(epsilon=EPSILON, delta=DELTA, relation="replace_one")
METHOD = privopt.ALGORITHMS["objective_perturbation"]
CENTRE = 100.0  # public: towards which the minimiser is regularised
ROUGH = privopt.ProblemClass(n=2, dim=1, lipschitz=1.0, radius=200.0)
SMOOTH = replace(ROUGH, smoothness=1.0 / WIDTH)
FIRST, SECOND = (0.0, 100.0), (0.0, 101.0)  # neighbours under replace_one
RADII = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
DRAWS = 4_000_000
RUNS = 20_000
LEAST = 1e-3  # probability below which too few runs of the rounded median are counted
FAILURE = 1e-5  # of one interval: below 1e-3 for all of them together


@cache
def planned(smoothness):
    """The plan that this declaration leads to."""
    facts = replace(ROUGH, smoothness=smoothness)
    return METHOD.plan(facts, BUDGET, regularisation=REGULARISATION)


def noise(smoothness):
    """The standard deviation of the tilt."""
    return float(planned(smoothness).params.mechanism.tilt.scale)


def below(points, records, width, tilt):
    """``P(w < x)``: the tilt exceeds what the slope at ``x``, from the left, comes to."""
    residuals = np.asarray(points)[:, None] - np.asarray(records)
    rough = np.where(residuals > 0.0, 1.0, -1.0)
    slopes = np.clip(residuals / width, -1.0, 1.0) if width else rough
    return ndtr((slopes.mean(axis=1) + REGULARISATION * (np.asarray(points) - CENTRE)) / tilt)


def near(radius, records, width, tilt):
    """``P(|w - 100| < r)``."""
    low, high = below([100.0 - radius, 100.0 + radius], records, width, tilt)
    return float(high - low)


def medians(records, count, tilt, rng):
    """Tilted, regularised medians: of the records and the minimiser of every piece, the median."""
    tilts = rng.normal(scale=tilt, size=count)
    pieces = [CENTRE - (tilts + slope) / REGULARISATION for slope in (-1.0, 0.0, 1.0)]
    return np.median([*pieces, *(np.full(count, record) for record in records)], axis=0)


@cache
def released(records):
    """What privopt releases of the rounded median, one number a run."""
    problem = huber(
        np.ones((2, 1)), np.array(records), problem_class=SMOOTH, width=WIDTH,
        constraint=L2Ball(200.0, CENTRE),
    )  # fmt: skip
    keys = replicate_keys(stream(0, records=str(records)), RUNS)
    return np.asarray(privopt.run_many([planned(1.0 / WIDTH)], problem, keys).released).ravel()


def share(hits):
    """An interval of the probability of which these are draws (Clopper and Pearson)."""
    count, total = int(hits.sum()), hits.size
    low = beta.ppf(FAILURE / 2.0, count, total - count + 1) if count else 0.0
    high = beta.ppf(1.0 - FAILURE / 2.0, count + 1, total - count) if count < total else 1.0
    return privopt.Interval(float(low), float(high))


def loss(first, second):
    """``ln(P/P')`` of an event."""
    return math.log(first / second)


def measured_loss(name, first, second, least=LEAST):
    """Its ends, from two intervals; none where one may be too small."""
    if min(first.lower, second.lower) <= least:
        return {f"{name}_lower": None, f"{name}_upper": None}
    return {
        f"{name}_lower": loss(first.lower, second.upper),
        f"{name}_upper": loss(first.upper, second.lower),
    }


def values(profile):
    """The law of the released minimiser about 100."""
    del profile
    points = np.union1d(np.linspace(97.0, 104.0, 141), [100.0 + 1e-9, 101.0 + 1e-9])
    columns = {
        "kink": below(points, FIRST, 0.0, noise(0.0)),
        "kink_neighbour": below(points, SECOND, 0.0, noise(0.0)),
        "rounded": below(points, FIRST, WIDTH, noise(1.0 / WIDTH)),
        "rounded_neighbour": below(points, SECOND, WIDTH, noise(1.0 / WIDTH)),
    }
    for i, point in enumerate(points):
        yield {"w": point} | {name: found[i] for name, found in columns.items()}


@cache
def events(profile):
    """``|w - 100| < r``, exact and measured, on both neighbours."""
    del profile
    rng, tilt = np.random.default_rng(0), noise(0.0)
    kinks = [np.abs(medians(each, DRAWS, tilt, rng) - 100.0) for each in (FIRST, SECOND)]
    rounded = [np.abs(released(each) - 100.0) for each in (FIRST, SECOND)]
    rows = []
    for radius in RADII:
        exact = [near(radius, each, 0.0, tilt) for each in (FIRST, SECOND)]
        smooth = [near(radius, each, WIDTH, noise(1.0 / WIDTH)) for each in (FIRST, SECOND)]
        found, other = (share(each < radius) for each in kinks)
        rows.append({
            "label": f"r = {radius:g}",
            "radius": radius,
            "kink": exact[0],
            "kink_neighbour": exact[1],
            "found": found,
            "found_neighbour": other,
            "allowed": privopt.Interval(
                *(math.exp(EPSILON) * end + DELTA for end in (other.lower, other.upper))
            ),
            "kink_loss": loss(*exact),
            "rounded_loss": loss(*smooth),
            "epsilon": EPSILON,
            **measured_loss("found_loss", found, other, least=0.0),
            **measured_loss("rounded_found", *(share(each < radius) for each in rounded)),
        })  # fmt: skip
    return tuple(rows)


def small(profile):
    """Of these the events of radius 0.1 and below."""
    return (row for row in events(profile) if row["radius"] <= 0.1)


def inside(profile):
    """Exact probabilities at the kink, and losses of the rounded median, beside their intervals."""
    for row in events(profile):
        for exact in ("kink", "kink_neighbour"):
            found = row[exact.replace("kink", "found")]
            ends = {"low": found.lower, "high": found.upper}
            yield {"label": f"{exact}, {row['label']}", "exact": row[exact]} | ends
        low, high = row["rounded_found_lower"], row["rounded_found_upper"]
        if low is not None:
            label = f"rounded, {row['label']}"
            yield {"label": label, "exact": row["rounded_loss"], "low": low, "high": high}


def decades(profile):
    """What a tenth of the radius adds to the loss of the kink, also under more noise."""
    del profile
    for times in (1.0, 10.0, 100.0):
        losses = [
            loss(*(near(radius, each, 0.0, times * noise(0.0)) for each in (FIRST, SECOND)))
            for radius in (1e-4, 1e-5, 1e-6, 1e-7)
        ]
        for i, (before, after) in enumerate(pairwise(losses)):
            told = {"label": f"{times:g} times the noise, r = 1e-{5 + i}"}
            yield told | {"added": after - before, "decade": math.log(10.0)}


def spent(profile):
    """The delta at ``epsilon = 1``, from the probabilities of short intervals of the line."""
    del profile
    points = np.concatenate([np.linspace(60.0, 140.0, 80_001), [1e9]])
    for label, width, smoothness in (
        ("the kink, at the noise of no curvature", 0.0, 0.0),
        ("rounded over 0.01, at that noise too", 0.01, 0.0),
        ("rounded over 1, as planned", WIDTH, 1.0 / WIDTH),
    ):
        laws = [
            np.diff(below(points, each, width, noise(smoothness)), prepend=0.0)
            for each in (FIRST, SECOND)
        ]
        sticks = [np.maximum(laws[i] - math.exp(EPSILON) * laws[1 - i], 0.0).sum() for i in (0, 1)]
        yield {"label": label, "claimed": DELTA, "spent": float(max(sticks))}


def broken(profile):
    """Those of them whose noise ignores the curvature."""
    return (row for row in spent(profile) if "as planned" not in row["label"])


def kept(profile):
    """The one of them that privopt plans."""
    return (row for row in spent(profile) if "as planned" in row["label"])


def refusals(profile):
    """What ``plan`` says to a loss whose smoothness nobody declares."""
    del profile
    try:
        METHOD.plan(ROUGH, BUDGET, regularisation=REGULARISATION)
        reason, refused = "none", 0
    except ValueError as error:
        reason, refused = str(error), 1
    yield {"label": "no smoothness", "refused": refused, "wanted": 1, "reason": reason}


PARTS = (values, events, small, inside, decades, spent, broken, kept, refusals)

experiment = Study(
    name="kink",
    title="Does objective perturbation hide a record at a kink? No, whatever the noise",
    description=(
        "The median of {0, 100}, and of its neighbour {0, 101} under replace-one: the mean "
        "absolute deviation, plus (w - 100)²/2 about a public centre, plus a random tilt, "
        f"minimised. The noise is that of privopt for ε = {EPSILON:g}, δ = 1e-6. At the kink it "
        "is what the theorem asks of losses without curvature: there the law of the minimiser has "
        "an atom at every record, and the loss of ever smaller events has no bound. The rounded "
        f"median (Huber's loss of width {WIDTH:g}) declares its curvature and keeps its claim. "
        "Lines are exact laws; bands are draws, for the rounded median runs of privopt, by "
        "intervals that all hold together but for one time in a thousand. No number is tuned."
    ),
    parts={part.__name__: part for part in PARTS},
    claims=(
        Claim("privopt refuses a loss without declared smoothness", "refusals", "refused = wanted"),
        Claim("at the kink small events break the claim", "small", "allowed < found"),
        Claim("a tenth of the event adds ln 10, at all noises", "decades", "added = decade ± 0.01"),
        Claim("exact laws lie above what was measured low", "inside", "low <= exact"),
        Claim("exact laws lie below what was measured high", "inside", "exact <= high"),
        Claim("noise that ignores curvature spends more δ", "broken", "claimed < spent"),
        Claim("the rounded median keeps to its δ", "kept", "spent <= claimed"),
    ),
    plots=(
        Plot(
            "kink",
            "A kink shows its record, a rounded one does not (ε = 1, δ = 1e-6)",
            Panel(
                part="values",
                title="law of the released minimiser",
                x="w",
                x_label="w",
                y_label="P(released < w)",
                lines=(
                    Line("rounded_neighbour", "rounded, {0, 101}", "green", "dashes"),
                    Line("rounded", "rounded, {0, 100}", "green"),
                    Line("kink_neighbour", "kink, {0, 101}", "orange", "dashes"),
                    Line("kink", "kink, {0, 100}", "blue"),
                ),
            ),
            Panel(
                part="events",
                title="privacy loss of |w - 100| < r",
                x="radius",
                x_label="r",
                y_label="ln(P/P')",
                log="x",
                lines=(
                    Line("epsilon", "ε", "grey", "dots"),
                    Line("rounded_loss", "rounded, {0, 100}", "green", band="rounded_found"),
                    Line("kink_loss", "kink, {0, 100}", "blue", band="found_loss"),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "spent",
            "The δ spent at ε = 1, against the claim",
            Column("mechanism", "{label}"),
            Column("claimed", "{claimed:.0e}"),
            Column("spent", "{spent:.1e}", "spent <= claimed"),
        ),
        Listing(
            "refusals",
            "What privopt answers",
            Column("declared", "{label}"),
            Column("answer", "{reason}"),
        ),
    ),
    profiles=("full",),
)  # fmt: skip
