"""l1 sensitivity of sparse regularised minimisers: an example, and proved and published bounds.

The losses are quadratics ``(H/2) <a_i, w>^2``. All rows share one coordinate, the hub; the other
coordinates of a row, its leaves, occur in no other row. The record that changes is linear along the
hub. Minimisers are solutions of linear systems.
"""

import itertools
import math

import numpy as np

import privopt
from privopt.lab import Analysis, Claim, Listing, at_most, below, close, plotting
from privopt.mechanisms import SparseMinimiser, published_laplace_scale

SIZES = {"quick": (50, 100), "full": (50, 100, 200, 400)}
CURVATURES = (1.0, 10.0, 100.0, 1000.0, 10_000.0)  # H over lambda
SPARSITIES = (2, 4)
LARGE = 1_000_000  # records
SHARES = np.exp(np.linspace(-1.5, 1.5, 61))  # entries on the hub, over sqrt(lambda/H)


def solved(curvature, n, sparsity, share):
    """Return ``Delta_1 lambda n/(2 L sqrt(s))``, from a linear system.

    ``share`` is the entry of a row of length 1 on the hub.
    """
    width = sparsity - 1
    leaf = math.sqrt((1.0 - share**2) / width)
    leaves = np.repeat(np.eye(n - 1), width, axis=1) * leaf
    rows = np.hstack([np.full((n - 1, 1), share), leaves])
    hessian = curvature * rows.T @ rows / n + np.eye(rows.shape[1])
    change = np.linalg.solve(hessian, np.eye(rows.shape[1])[0])
    return float(np.abs(change).sum()) / math.sqrt(sparsity)


def closed(curvature, n, sparsity, share):
    """Return the value of :func:`solved` in closed form: all leaves change equally."""
    per_record, leaf = curvature / n, np.sqrt(1.0 - share**2)
    stiffness = 1.0 + per_record * leaf**2
    hub = 1.0 / (1.0 + (n - 1) * per_record * share**2 / stiffness)
    leaves = (n - 1) * math.sqrt(sparsity - 1) * per_record * share * leaf * hub / stiffness
    return (hub + leaves) / math.sqrt(sparsity)


def bounds(curvature, sparsity, *, glm):
    """Return the proved and the published bound at ``lambda = 1``, over ``2 L sqrt(s)/n``."""
    problem_class = privopt.ProblemClass(
        n=1000, dim=10**6, lipschitz=1.0, radius=math.inf, smoothness=curvature, sparsity=sparsity
    )
    budget = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    query = SparseMinimiser.of(problem_class, budget.relation, regularisation=1.0, glm=glm)
    unit = 2.0 * math.sqrt(sparsity) / problem_class.n
    l1 = query.l1_sensitivity(budget.relation)
    return l1 / unit, published_laplace_scale(query, budget) / unit


def row(n, sparsity, curvature):
    """Return the largest sensitivity over the shares and the three bounds."""
    shares = SHARES / math.sqrt(curvature)
    glm, published = bounds(curvature, sparsity, glm=True)
    return {
        "label": f"n = {n}, s = {sparsity}, H/λ = {curvature:g}",
        "n": n, "sparsity": sparsity, "curvature": curvature,
        "measured": max(closed(curvature, n, sparsity, share) for share in shares[shares < 1.0]),
        "linear": 1.0, "glm": glm, "general": bounds(curvature, sparsity, glm=False)[0],
        "published": published, "excess_noise": published / glm,
    }  # fmt: skip


def hubs(profile):
    """Return a row for every n, sparsity and curvature."""
    sizes = *SIZES[profile], LARGE
    return itertools.starmap(row, itertools.product(sizes, SPARSITIES, CURVATURES))


def systems(profile):
    """Yield the sensitivity from the linear system and in closed form."""
    for n, sparsity, curvature in itertools.product(SIZES[profile], SPARSITIES, CURVATURES):
        values = curvature, n, sparsity, 0.8 / math.sqrt(curvature)
        label = f"n = {n}, s = {sparsity}, H/λ = {curvature:g}"
        yield {"label": label, "solved": solved(*values), "closed": closed(*values)}


def curved(profile):
    """Return the rows of :func:`hubs` with ``H`` at least 100 times ``lambda``."""
    return [each for each in hubs(profile) if each["curvature"] >= 100.0]


def powers(_):
    """Yield the exponents in ``H/lambda`` between the two largest curvatures."""
    for sparsity in SPARSITIES:
        first, last = (row(LARGE, sparsity, curvature) for curvature in CURVATURES[-2:])
        step = math.log(CURVATURES[-1] / CURVATURES[-2])
        for name, limit in (("measured", 0.5), ("glm", 0.5), ("general", 0.5), ("published", 1.0)):
            exponent = math.log(last[name] / first[name]) / step
            yield {"label": f"{name}, s = {sparsity}", "exponent": exponent, "limit": limit}


def large(_):
    """Return a row for every curvature at a million records."""
    return (row(LARGE, SPARSITIES[-1], curvature) for curvature in CURVATURES)


def hub_figure(frames):
    """l1 sensitivity over that for linear losses, at a million records and s = 4.

    The points are exact values for the worst hub of a grid; the lines are upper bounds. The
    sensitivity and the proved bounds increase as √(H/λ), the published bound as H/λ.
    """
    title = "Regularised sparse minimisers: l1 sensitivity against H/λ"
    figure, (axes,) = plotting.panels(title)
    axes.set(xlabel="H/λ", ylabel="Δ₁ λn/(2L√s)", xscale="log", yscale="log")
    for name, label, style in (
        ("published", "published bound", {"color": plotting.ORANGE, "ls": "--"}),
        ("general", "proved bound, any loss", {"ls": "--"}),
        ("glm", "proved bound, linear predictions", {}),
        ("measured", "worst hub", {"color": plotting.GREEN, "marker": "o"}),
    ):
        plotting.curve(axes, frames["large"], "curvature", name, label=label, **style)
    return figure


experiment = Analysis(
    name="hub_sensitivity",
    title="Regularised sparse minimisers: l1 sensitivity against H/λ, with proved bounds",
    description=(
        "If one record is replaced, the minimiser of F(w) + (λ/2)|w|² changes by at most 2L/(λn), "
        "and for linear losses by √s times as much in the l1 norm. For losses of smoothness H this "
        "l1 bound has a further factor: √2 (1 + 2H/λ) as published, 1 + √(H/(2λ)) as proved here, "
        "and 1 + √(H/λ)/2 for generalised linear losses. Quadratics that share one coordinate, the "
        "hub, show that the root is necessary: the changed record changes the hub, and the hub "
        "changes the other coordinates of all records. The entry of the rows on the hub is the "
        "worst of a grid. All values are closed forms or solutions of linear systems."
    ),
    parts={part.__name__: part for part in (hubs, systems, curved, powers, large)},
    claims=(
        Claim("the sensitivity is at most the proved bound", "hubs", at_most("measured", "glm")),
        Claim("it is larger than for linear losses", "curved", below("linear", "measured")),
        Claim("the proved bound is below the published one", "hubs", below("general", "published")),
        Claim("closed forms solve the linear systems", "systems", close("solved", "closed", 1e-9)),
        Claim("exponents in H/λ: 1/2, published 1", "powers", close("exponent", "limit", 0.05)),
    ),
    figures={"hub_sensitivity": hub_figure},
    listings=(
        Listing(
            "hubs",
            "Sensitivity of the worst hub and its bounds, over the sensitivity for linear losses",
            {
                "n": "{n:d}", "s": "{sparsity:d}", "H/λ": "{curvature:g}",
                "worst hub": "{measured:.2f}", "linear predictions": "{glm:.2f}",
                "any loss": "{general:.2f}", "published": "{published:.1f}",
                "published noise over proved": "{excess_noise:.1f}",
            },
            checks={"linear predictions": at_most("measured", "glm")},
        ),
    ),
)  # fmt: skip
