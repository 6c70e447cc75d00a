"""l-infinity output perturbation on sparse linear losses, at the theorem's lambda and oracle-tuned.

The losses are blocks of identical records, of swept size. With 1/mu = 5 a block of strength c has
10 c records at s = 4, so n = 512 to 4096 records form 6 to 410 blocks. Dense noise has less risk
from n = sqrt(2) d/(mu sqrt(s ln 2d)) on: 9,400 for d = 2^13 and 35,000 for d = 2^15. All cells are
far below. The bound is that of a declared ball; its logarithm is that of d over the number of
nonzero coordinates.
"""

import math
from dataclasses import replace
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

import privopt
from privopt import lab
from privopt.lab import Claim, Listing, at_most, close, plotting
from privopt.problems import FAMILIES, family

experiment = lab.Experiment(
    name="linf_output_perturbation",
    title="l-infinity output perturbation on sparse linear losses: excess risk and its exponents",
    description=(
        "Linear losses on the unit ball, with blocks of identical records of four nonzeros, of "
        "swept size. The output is the point of the ball that is nearest to the noisy minimiser in "
        "the l-infinity norm. Lambda is that of the theorem, or oracle-tuned: the best of a fixed "
        "grid at every setting. The bound contains a logarithm of d over the number of nonzeros of "
        "the minimiser, so its exponents are local. With the best lambda all exponents are those "
        "of the theorem; for d from 2^15 on, the risk is of order d^0.064, the bound of order "
        "d^0.058. For smaller d, or with the lambda of the theorem, the risk increases faster than "
        "the bound along d, d^0.08 here, and is at most 0.91 of it. The analysis "
        "linf_on_linear_losses derives the exponents with the best lambda from an equation for the "
        "threshold, and a smaller exponent of d where d is larger. Delta follows epsilon, so "
        "that epsilon over the Gaussian parameter mu is 5."
    ),
    algorithms=lab.Method("linf", "linf_output_perturbation", {"projection": "ball"}).twice(
        regularisation=lab.ladder(0.1, 0.5)
    ),
    families=(replace(FAMILIES["sparse_linear"], strengths=(4.0, 8.0)),),
    base=lab.Setting(n=1024, dim=32_768, sparsity=4, epsilon=1.0),
    axes=(
        lab.Axis("n", (512, 1024, 2048, 4096)),
        lab.Axis("dim", (2**15, 2**16, 2**17, 2**18)),
        lab.Axis("sparsity", (1, 2, 4, 8)),
        lab.Axis("epsilon", (0.5, 1.0, 2.0, 4.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 300},
)

MU, GRID, RUNS = 0.2, lab.ladder(0.04, 1.6), 100
BASE = {"n": 1024, "dim": 2**15, "sparsity": 4}
LADDERS = {
    "n, 512 to 4,096": ("n", (512, 1024, 2048, 4096)),
    "d, 2^13 to 2^16": ("dim", (2**13, 2**14, 2**15, 2**16)),
    "d, 2^18 to 2^21": ("dim", (2**18, 2**19, 2**20, 2**21)),
    "s, 1 to 8": ("sparsity", (1, 2, 4, 8)),
}
MOST = 2**16  # largest dimension of the runs


def moments(centre, threshold):
    """Return ``E S_t(centre + Z)`` and ``E S_t(centre + Z)^2`` for standard normal ``Z``."""
    upper, lower = centre - threshold, -centre - threshold
    first = norm.pdf(upper) + upper * norm.cdf(upper) - norm.pdf(lower) - lower * norm.cdf(lower)
    second = [(1.0 + x * x) * norm.cdf(x) + x * norm.pdf(x) for x in (upper, lower)]
    return first, sum(second)


def solved(regularisation, strength, n, dim, sparsity):
    """Return the excess risk at the threshold for which the mean squared norm is 1.

    The minimiser is ``g min(1/lambda, 1/|g|)``, where ``g`` has ``K s`` equal nonzeros; its noise
    has ``sigma = 2/(lambda n mu)``. For many coordinates ``|S_t(w + sigma z)|^2`` is close to its
    mean. The ``t`` at which it is 1 is therefore almost constant, and so is ``<g, S_t(w + sigma
    z)>``.
    """
    size = math.ceil(strength * math.sqrt(sparsity) / MU - 1e-9)  # records of a block
    used = min(n // size, dim // sparsity) * sparsity
    gradient = size / (n * math.sqrt(sparsity))
    length = math.sqrt(used) * gradient
    noise_std = 2.0 / (regularisation * n * MU)
    centre = gradient * min(1.0 / regularisation, 1.0 / length) / noise_std

    def excess(threshold):
        squares = used * moments(centre, threshold)[1] + (dim - used) * moments(0.0, threshold)[1]
        return noise_std**2 * squares - 1.0

    threshold = brentq(excess, 0.0, 40.0 + centre) if excess(0.0) > 0.0 else 0.0
    return length - used * gradient * noise_std * moments(centre, threshold)[0]


@cache
def hardest(n, dim, sparsity):
    """Return the largest best risk on the grid over the strengths, with strength and lambda."""
    best = []
    for strength in (1.0, 2.0, 4.0, 8.0):
        risk, number = min((solved(x, strength, n, dim, sparsity), i) for i, x in enumerate(GRID))
        best.append((risk, strength, GRID[number]))
    return max(best)


@cache
def measured(n, dim, sparsity):
    """Return the excess risks of the runs and the bound."""
    _, strength, regularisation = hardest(n, dim, sparsity)
    delta = privopt.privacy.gaussian_delta(1.0, mu=MU).upper
    budget = privopt.Budget(epsilon=1.0, delta=delta, relation="replace_one")
    ratio = math.sqrt(dim) / (n * MU)
    where = family("sparse_linear").build(
        n=n, dim=dim, sparsity=sparsity, noise_ratio=ratio, strength=strength
    )
    plan = privopt.linf_output_perturbation(
        where.problem_class, budget, projection="ball", regularisation=regularisation
    )
    place = f"{n} {dim} {sparsity}"
    keys = lab.replicate_keys(lab.stream(0, experiment="linf_on_linear_losses", place=place), RUNS)
    points = privopt.run_many([plan], where, keys).released[0]
    return np.asarray(where.excess_risk(points)), plan.rate.upper


def risks(_):
    """Yield a row for every place of the ladders with runs."""
    places = [BASE | {axis: x} for axis, values in LADDERS.values() for x in values if x <= MOST]
    for n, dim, sparsity in dict.fromkeys(tuple(place.values()) for place in places):
        excess, bound = measured(n, dim, sparsity)
        mean, error = float(excess.mean()), 3.0 * float(excess.std(ddof=1)) / math.sqrt(RUNS)
        risk = hardest(n, dim, sparsity)[0]
        yield {
            "label": f"n = {n:,}, d = {dim:,}, s = {sparsity}",
            "n": n, "sparsity": sparsity, "dim": dim, "solved": risk, "mean": mean,
            "ratio": privopt.Interval((mean - error) / risk, (mean + error) / risk),
            "one": 1.0, "bound": bound,
        }  # fmt: skip


def along_dim(profile):
    """Return the rows with n = 1,024 and s = 4, ordered by dimension."""
    rows = [row for row in risks(profile) if (row["n"], row["sparsity"]) == (1024, 4)]
    return sorted(rows, key=lambda row: row["dim"])


def exponents(_):
    """Yield the exponent of the risk from the equation along each ladder."""
    for label, (axis, values) in LADDERS.items():
        solutions = [hardest(**BASE | {axis: x})[0] for x in values]
        slope = np.polyfit(np.log(values), np.log(solutions), 1)[0]
        yield {"label": label, "solved": float(slope)}


def dimension_figure(frames):
    """Mean excess risk of 100 runs at n = 1,024, s = 4, ε = 1, and its upper bound.

    λ and the size of the blocks are those with the largest oracle-tuned risk. The risk from the
    equation for the threshold agrees with the runs.
    """
    title = "ℓ∞ output perturbation on sparse linear losses: excess risk against d"
    figure, (axes,) = plotting.panels(title)
    axes.set(xlabel="d", ylabel="excess risk", xscale="log", yscale="log")
    for name, label, style in (
        ("bound", "upper bound", {"color": plotting.GREY}),
        ("solved", "equation for the threshold", {"color": plotting.ORANGE}),
        ("mean", "mean of the runs", {"color": plotting.PURPLE, "marker": "o"}),
    ):
        plotting.curve(axes, frames["along_dim"], "dim", name, label=label, **style)
    return figure


linear = lab.Analysis(
    name="linf_on_linear_losses",
    profiles=("full",),
    title="l-infinity output perturbation on sparse linear losses: risk from an equation",
    description=(
        "Linear losses of blocks of identical records with s nonzeros on the unit ball, at mu = "
        "0.2 under replace-one. Lambda and the size of the blocks are those with the largest best "
        "risk, so they are oracle-tuned. The noise on linear losses has mean zero, so only the "
        "threshold t costs. It solves the equation E |S_t(w + z)|^2 = 1 in d sigma^2, and the risk "
        "at this threshold has the measured exponents. The bound at the same lambda takes a "
        "threshold that is proved for every minimiser of its norm. "
        f"The exponent of d decreases with d, like that of a logarithm. {RUNS} runs at each place."
    ),
    parts={part.__name__: part for part in (risks, along_dim, exponents)},
    claims=(
        Claim("the equation gives the mean within 3 %", "risks", close("ratio", "one", 0.03)),
        Claim("the risk is at most the bound", "risks", at_most("mean", "bound")),
    ),
    figures={"dimension": dimension_figure},
    listings=(
        Listing(
            "exponents",
            "Exponents of the risk from the equation",
            {"along": "{label}", "exponent": "{solved:.3f}"},
        ),
        Listing(
            "risks",
            "Mean excess risks",
            {
                "": "{label}", "equation": "{solved:.4f}", "runs": "{mean:.4f}",
                "runs / equation": "{ratio_lower:.3f} to {ratio_upper:.3f}",
                "bound": "{bound:.3f}",
            },
        ),
    ),
)  # fmt: skip
