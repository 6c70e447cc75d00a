"""Output perturbation with sparse gradients: projection in the l-infinity and in the l2 norm.

Linear losses on the unit ball. In one family all records are equal, so the minimiser is the record
itself. Both methods have the same lambda and the same noise in every run.
"""

import math
from functools import cache, partial

import numpy as np

import privopt
from privopt.lab import Analysis, Claim, Listing, at_most, below, plotting, replicate_keys, stream
from privopt.problems import family

SIZES = (256, 1024, 4096, 16_384, 65_536)
DIMS = {"quick": (2**10, 2**14), "full": (2**10, 2**14, 2**18)}
RUNS = {"quick": 20, "full": 100}
SPARSITY, ERRORS = 4, 3.0
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
MU = privopt.privacy.gaussian_mu(1.0, 1e-6)
STRENGTHS = {"sparse_same_linear": 1.0, "sparse_linear": 4.0}
ONE = "sparse_same_linear"
PROJECTIONS = ("linf", "l2")
BLOCK = 2**22  # coordinates that are in memory at once


@cache
def problem(name, n, dim):
    """Return a problem of a family at its strength."""
    return family(name).build(
        n=n, dim=dim, sparsity=SPARSITY, noise_ratio=math.sqrt(dim) / (n * MU),
        strength=STRENGTHS[name],
    )  # fmt: skip


def planned(problem_class, projection):
    """Return the plan; both projections have the lambda of the l-infinity theorem."""
    plan = privopt.linf_output_perturbation(problem_class, BUDGET)
    if projection == "linf":
        return plan
    return privopt.linf_output_perturbation(
        problem_class, BUDGET, projection=projection,
        regularisation=plan.params.mechanism.query.regularisation,
    )  # fmt: skip


@cache
def measured(name, n, dim, projection, profile):
    """Return bound, mean excess risk, three standard errors, and the risk of the minimiser.

    The last is the mean excess risk without projection: losses are linear and the noise has mean 0.
    """
    where = problem(name, n, dim)
    plan = planned(where.problem_class, projection)
    keys = replicate_keys(stream(0, family=name, n=n, dim=dim), RUNS[profile])
    chunk = max(1, min(len(keys), BLOCK // dim))
    keys, execution = keys[: len(keys) // chunk * chunk], privopt.Execution(chunk=chunk)
    runs = privopt.run_many([plan], where, keys, execution=execution)
    excess = where.excess_risk(np.asarray(runs.released[0]))
    error = ERRORS * float(excess.std(ddof=1)) / math.sqrt(len(excess)) + where.reference.gap
    minimiser = float(where.excess_risk(np.asarray(runs.secret.minimiser[0, 0])))
    return plan.rate.upper, float(excess.mean()), error, minimiser


def dims(name, profile):
    """Return all dimensions for the family of one record, the largest for the other."""
    return DIMS[profile] if name == ONE else DIMS[profile][-1:]


def interval(mean, error):
    """Return the interval around a mean, cut at 0."""
    return privopt.Interval(max(0.0, mean - error), mean + error)


def rows(name, profile):
    """Yield a row for every dimension and n."""
    for dim in dims(name, profile):
        for n in SIZES:
            row = {"label": f"{name}, n = {n}, d = {dim}", "n": n, "dim": dim}
            for projection in PROJECTIONS:
                bound, mean, error, minimiser = measured(name, n, dim, projection, profile)
                row |= {projection: mean, f"{projection}_risk": interval(mean, error)}
                row |= {"none": minimiser} | ({"bound": bound} if projection == "linf" else {})
            yield row


same_record, blocks = (partial(rows, name) for name in STRENGTHS)


def widest(profile):
    """Return the rows of one record in the largest dimension."""
    return [row for row in same_record(profile) if row["dim"] == max(DIMS[profile])]


def broken(profile):
    """Return the rows of :func:`widest` with 1,024 records."""
    return [row for row in widest(profile) if row["n"] == 1024]


def both(profile):
    """Return the rows of both families."""
    return [*same_record(profile), *blocks(profile)]


def growth(profile):
    """Yield the risk of one record in the largest over that in the smallest dimension.

    Intervals are three standard errors of a quotient of means, to first order.
    """
    ends = min(DIMS[profile]), max(DIMS[profile])
    for n in SIZES:
        row = {"label": f"n = {n}", "n": n}
        for projection in PROJECTIONS:
            (_, first, first_error, _), (_, last, last_error, _) = (
                measured(ONE, n, dim, projection, profile) for dim in ends
            )
            relative = math.hypot(first_error / first, last_error / last)
            row[projection] = interval(last / first, last / first * relative)
        yield row


def slopes(profile):
    """Yield the exponents in n over all sizes."""
    for name in STRENGTHS:
        for dim in dims(name, profile):
            row = {"label": f"{name}, d = {dim}"}
            for projection in PROJECTIONS:
                means = [measured(name, n, dim, projection, profile)[1] for n in SIZES]
                row[projection] = float(np.polyfit(np.log(SIZES), np.log(means), 1)[0])
            yield row


def risk_figure(frames):
    """Mean excess risk of 96 runs at d = 2^18, with the bound for the ℓ∞ projection.

    For one record the risk of the Euclidean projection is above that bound, and 2 to 39 times the
    risk of the ℓ∞ projection. For blocks of identical records the two risks are almost equal.
    """
    title = "Output perturbation on sparse linear losses: excess risk against n, d = 2^18"
    figure, places = plotting.panels(title, "one record, n times", "blocks of identical records")
    for axes, part in zip(places, ("widest", "blocks"), strict=True):
        axes.set(xlabel="n", ylabel="excess risk", xscale="log", yscale="log")
        plotting.curve(axes, frames[part], "n", "bound", label="bound, ℓ∞ projection", ls=":")
        for name, label, style in (
            ("linf", "ℓ∞ projection", {"ms": 4}),
            ("l2", "Euclidean projection", {"color": plotting.ORANGE, "ms": 8, "mfc": "none"}),
        ):
            style |= {"label": label, "marker": "o", "ls": ""}
            plotting.curve(axes, frames[part], "n", name, **style)
    return figure


experiment = Analysis(
    name="sparse_output_perturbation",
    title="Output perturbation on sparse linear losses: ℓ∞ and Euclidean projection",
    description=(
        "Linear losses on the unit ball, records with four nonzeros, ε = 1, δ = 1e-6. Gaussian "
        "noise is added to all coordinates of the regularised minimiser. The ℓ∞ projection returns "
        "a nearest point of the ball in the ℓ∞ norm, a soft threshold that removes small "
        "coordinates. The Euclidean projection scales signal and noise equally. Both have the "
        "noise and the λ of the ℓ∞ theorem. Without a projection the mean excess risk of linear "
        "losses is that of the regularised minimiser, because the noise has mean zero, but the "
        "output is outside the ball. Intervals are three standard errors to either side."
    ),
    parts={"same_record": same_record, "blocks": blocks}
    | {part.__name__: part for part in (widest, broken, both, growth, slopes)},
    claims=(
        Claim("ℓ∞: risk at most its bound", "both", at_most("linf_risk", "bound")),
        Claim("one record: ℓ∞ has less risk than l2", "widest", below("linf_risk", "l2_risk")),
        Claim("one record, n = 1,024: l2 above the ℓ∞ bound", "broken", below("bound", "l2_risk")),
        Claim("one record: the ℓ∞ risk grows less with d", "growth", below("linf", "l2")),
    ),
    figures={"sparse_output_perturbation": risk_figure},
    listings=(
        Listing(
            "both",
            "Mean excess risk",
            {
                "problem": "{label}", "ℓ∞ projection": "{linf:.4f}",
                "Euclidean projection": "{l2:.4f}", "no projection": "{none:.4f}",
                "bound, ℓ∞ projection": "{bound:.3f}",
            },
            checks={"bound, ℓ∞ projection": at_most("linf_risk", "bound")},
        ),
        Listing(
            "slopes",
            "Exponents in n, all sizes",
            {
                "problem": "{label}", "ℓ∞ projection": "{linf:.2f}",
                "Euclidean projection": "{l2:.2f}",
            },
        ),
    ),
    profiles=("full",),
)  # fmt: skip
