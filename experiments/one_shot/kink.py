"""Objective perturbation of a median, which is not smooth, on {0, 100} and {0, 101}.

Every tilt changes the minimiser of a smooth loss. At a kink, tilts of positive probability give the
same minimiser, which is the record. The experiment fails for a median rounded over 0.01 in
``kept`` (its noise is for no curvature), and for a tilt in ``medians`` that is 5 % too large.
"""

import math
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.special import ndtr

import privopt
from privopt import lab
from privopt.convex import L2Ball
from privopt.lab import Analysis, Claim, Listing, at_most, below, close, plotting
from privopt.problems import huber
from privopt.statistics import clopper_pearson

EPSILON, DELTA, REGULARISATION, WIDTH = 1.0, 1e-6, 1.0, 1.0
BUDGET = privopt.Budget(epsilon=EPSILON, delta=DELTA, relation="replace_one")
CENTRE = 100.0  # public centre of the regulariser
ROUGH = privopt.ProblemClass(n=2, dim=1, lipschitz=1.0, radius=200.0)
SMOOTH = replace(ROUGH, smoothness=1.0 / WIDTH)
PAIR = (0.0, 100.0), (0.0, 101.0)  # neighbours under replace_one
RADII = (3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003, 0.0001)
DRAWS = 4_000_000
RUNS = 20_000
RARE = 1e-3  # probability at which too few runs of the rounded median are counted
FAILURE = 1e-5  # of one interval; all of them together fail with probability below 1e-3


@cache
def planned(smoothness):
    """Return the plan for a declared smoothness."""
    problem_class = replace(ROUGH, smoothness=smoothness)
    return privopt.objective_perturbation(
        problem_class, BUDGET, regularisation=REGULARISATION, noise="gaussian"
    )


def noise(smoothness):
    """Return the standard deviation of the tilt."""
    return float(planned(smoothness).params.mechanism.tilt.scale)


def distribution(points, records, width, tilt):
    """Return ``P(w < x)``: the tilt exceeds the slope at ``x`` from the left."""
    points = np.asarray(points)
    residuals = points[:, None] - np.asarray(records)
    rough = np.where(residuals > 0.0, 1.0, -1.0)
    slopes = np.clip(residuals / width, -1.0, 1.0) if width else rough
    return ndtr((slopes.mean(axis=1) + REGULARISATION * (points - CENTRE)) / tilt)


def near(radius, width, tilt):
    """Return ``P(|w - 100| < r)`` for both data sets."""
    ends = 100.0 - radius, 100.0 + radius
    return [float(np.diff(distribution(ends, each, width, tilt))[0]) for each in PAIR]


def medians(records, count, tilt, rng):
    """Return tilted, regularised medians of the records and of the minimisers of all pieces."""
    tilts = rng.normal(scale=tilt, size=count)
    pieces = [CENTRE - (tilts + slope) / REGULARISATION for slope in (-1.0, 0.0, 1.0)]
    return np.median([*pieces, *(np.full(count, record) for record in records)], axis=0)


def released(records):
    """Return the released rounded medians of all runs."""
    problem = huber(
        np.ones((2, 1)), np.array(records), problem_class=SMOOTH, width=WIDTH,
        constraint=L2Ball(200.0, CENTRE),
    )  # fmt: skip
    keys = lab.replicate_keys(lab.stream(0, records=str(records)), RUNS)
    return np.asarray(privopt.run_many([planned(1.0 / WIDTH)], problem, keys).released).ravel()


def share(hits):
    """Return an interval of the probability of a hit (Clopper and Pearson)."""
    ends = clopper_pearson(int(hits.sum()), hits.size, FAILURE / 2.0)
    return privopt.Interval(*(float(end) for end in ends))


def measured_loss(name, first, second, least=RARE):
    """Return the ends of the loss of an event, from two intervals; none if one is too small."""
    ends = None, None
    if min(first.lower, second.lower) > least:
        ratios = first.lower / second.upper, first.upper / second.lower
        ends = [math.log(ratio) for ratio in ratios]
    return dict(zip((f"{name}_lower", f"{name}_upper"), ends, strict=True))


def values(profile):
    """Yield the distribution of the released minimiser near 100."""
    points = np.union1d(np.linspace(97.0, 104.0, 141), [100.0 + 1e-9, 101.0 + 1e-9])
    columns = {
        f"{name}{suffix}": distribution(points, records, width, noise(smoothness))
        for name, width, smoothness in (("kink", 0.0, 0.0), ("rounded", WIDTH, 1.0 / WIDTH))
        for suffix, records in zip(("", "_neighbour"), PAIR, strict=True)
    }
    for i, point in enumerate(points):
        yield {"w": point} | {name: column[i] for name, column in columns.items()}


@cache
def events(profile):
    """Return a row for every event ``|w - 100| < r``, exact and measured on both neighbours."""
    rng, tilt = np.random.default_rng(0), noise(0.0)
    kinks = [np.abs(medians(each, DRAWS, tilt, rng) - 100.0) for each in PAIR]
    rounded = [np.abs(released(each) - 100.0) for each in PAIR]
    rows = []
    for radius in RADII:
        exact = near(radius, 0.0, tilt)
        smooth = near(radius, WIDTH, noise(1.0 / WIDTH))
        first, second = (share(each < radius) for each in kinks)
        allowed = [math.exp(EPSILON) * end + DELTA for end in (second.lower, second.upper)]
        rows.append({
            "label": f"r = {radius:g}", "radius": radius,
            "kink": exact[0], "kink_neighbour": exact[1],
            "found": first, "found_neighbour": second,
            "allowed": privopt.Interval(*allowed),
            "kink_loss": math.log(exact[0] / exact[1]),
            "rounded_loss": math.log(smooth[0] / smooth[1]),
            "epsilon": EPSILON,
            **measured_loss("found_loss", first, second, least=0.0),
            **measured_loss("rounded_found", *(share(each < radius) for each in rounded)),
        })  # fmt: skip
    return tuple(rows)


def inside(profile):
    """Yield exact probabilities at the kink, and losses of the rounded median, with intervals."""
    for row in events(profile):
        for exact in ("kink", "kink_neighbour"):
            interval = row[exact.replace("kink", "found")]
            ends = {"low": interval.lower, "high": interval.upper}
            yield {"label": f"{exact}, {row['label']}", "exact": row[exact]} | ends
        low, high = row["rounded_found_lower"], row["rounded_found_upper"]
        if low is not None:
            label = f"rounded, {row['label']}"
            yield {"label": label, "exact": row["rounded_loss"], "low": low, "high": high}


def decades(profile):
    """Yield the increase of the loss at the kink for a tenth of the radius, also at more noise."""
    for times in (1.0, 10.0, 100.0):
        pairs = (near(radius, 0.0, times * noise(0.0)) for radius in (1e-4, 1e-5, 1e-6, 1e-7))
        losses = [math.log(first / second) for first, second in pairs]
        for i, (previous, following) in enumerate(pairwise(losses)):
            label = f"{times:g} times the noise, r = 1e-{5 + i}"
            yield {"label": label, "added": following - previous, "decade": math.log(10.0)}


def spent(profile):
    """Yield delta at ``epsilon = 1``; the noise of the first two rows ignores the curvature."""
    points = np.concatenate([np.linspace(60.0, 140.0, 80_001), [1e9]])
    for label, width, smoothness in (
        ("the kink, at the noise of no curvature", 0.0, 0.0),
        ("rounded over 0.01, at that noise too", 0.01, 0.0),
        ("rounded over 1, as planned", WIDTH, 1.0 / WIDTH),
    ):
        laws = [
            np.diff(distribution(points, each, width, noise(smoothness)), prepend=0.0)
            for each in PAIR
        ]
        sticks = [np.maximum(laws[i] - math.exp(EPSILON) * laws[1 - i], 0.0).sum() for i in (0, 1)]
        yield {"label": label, "claimed": DELTA, "spent": float(max(sticks))}


def refusals(profile):
    """Yield the error for a loss without declared smoothness."""
    reason = "none"
    try:
        privopt.objective_perturbation(ROUGH, BUDGET, regularisation=REGULARISATION)
    except ValueError as error:
        reason = str(error)
    refused = int(reason != "none")
    yield {"label": "no smoothness", "refused": refused, "wanted": 1, "reason": reason}


def kink_figure(frames):
    """Objective perturbation of the median (kink) and of the rounded median, on two neighbours.

    Left: distribution of the released minimiser. Right: privacy loss of the event |w - 100| < r,
    exact (lines) and measured (bands; 4,000,000 samples at the kink, 20,000 runs of the rounded
    median). At the kink the release equals the record 100 with probability 0.09, so the loss of
    small events grows without bound.
    """
    names = "distribution of the released minimiser", "privacy loss of |w - 100| < r"
    title = "Objective perturbation of a median at ε = 1, δ = 1e-6"
    figure, (first, second) = plotting.panels(title, *names)
    first.set(xlabel="w", ylabel="P(released < w)")
    for name, label, color, ls in (
        ("rounded_neighbour", "rounded, {0, 101}", plotting.GREEN, "--"),
        ("rounded", "rounded, {0, 100}", plotting.GREEN, "-"),
        ("kink_neighbour", "kink, {0, 101}", plotting.ORANGE, "--"),
        ("kink", "kink, {0, 100}", plotting.BLUE, "-"),
    ):
        plotting.curve(first, frames["values"], "w", name, label=label, color=color, ls=ls)
    second.set(xlabel="r", ylabel="ln(P/P')", xscale="log")
    for name, band, style in (
        ("epsilon", None, {"label": "ε", "color": plotting.GREY, "ls": ":"}),
        ("rounded_loss", "rounded_found", {"color": plotting.GREEN}),
        ("kink_loss", "found_loss", {"color": plotting.BLUE}),
    ):
        plotting.curve(second, frames["events"], "radius", name, band=band, **style)
    return figure


PARTS = {
    "values": values,
    "events": events,
    "small": lambda profile: [row for row in events(profile) if row["radius"] <= 0.1],
    "inside": inside,
    "decades": decades,
    "spent": spent,
    "broken": lambda profile: list(spent(profile))[:2],
    "kept": lambda profile: list(spent(profile))[2:],
    "refusals": refusals,
}
KEPT = at_most("spent", "claimed")

experiment = Analysis(
    name="kink",
    title="Objective perturbation of a median: privacy loss with and without a kink",
    description=(
        "The median of {0, 100} and of its neighbour {0, 101} under replace-one, as the minimiser "
        "of the mean absolute deviation plus (w - 100)²/2 plus a random tilt. The noise is the "
        f"default for ε = {EPSILON:g}, δ = 1e-6, at the kink that of losses without curvature. The "
        "law of the minimiser then has an atom at every record, and the privacy loss of small "
        f"events has no bound. The rounded median (Huber's loss of width {WIDTH:g}) declares its "
        "curvature and stays within the claim. Intervals hold together except with probability "
        "0.001."
    ),
    parts=PARTS,
    claims=(
        Claim("plan refuses an undeclared smoothness", "refusals", close("refused", "wanted")),
        Claim("at the kink small events exceed the claim", "small", below("allowed", "found")),
        Claim("a tenth of the radius adds ln 10", "decades", close("added", "decade", 0.01)),
        Claim("exact values are above the lower ends", "inside", at_most("low", "exact")),
        Claim("exact values are below the upper ends", "inside", at_most("exact", "high")),
        Claim("noise that ignores curvature spends more δ", "broken", below("claimed", "spent")),
        Claim("the rounded median keeps its δ", "kept", KEPT),
    ),
    figures={"kink": kink_figure},
    listings=(
        Listing(
            "spent",
            "δ at ε = 1",
            {"mechanism": "{label}", "claimed": "{claimed:.0e}", "spent": "{spent:.1e}"},
            {"spent": KEPT},
        ),
        Listing("refusals", "Error of plan", {"declared": "{label}", "error": "{reason}"}),
    ),
    profiles=("full",),
)
