"""Nearest in the largest coordinate beside nearest in Euclid's: one sparse record, n times over.

Linear losses on the unit ball; the minimiser is the record itself, and noise lies on all
coordinates. Both methods have the same lambda and the same noise, draw by draw.
"""

import math
from functools import cache

import numpy as np

import privopt
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.problems import family

SIZES = (256, 1024, 4096, 16_384, 65_536)
DIMS = {"quick": (2**10, 2**14), "full": (2**10, 2**14, 2**18)}
RUNS = {"quick": 20, "full": 100}
SPARSITY, ERRORS = 4, 3.0
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
MU = privopt.privacy.gaussian_mu(1.0, 1e-6)
FAMILIES = {"sparse_same_linear": 1.0, "sparse_linear": 4.0}
PROJECTIONS = ("linf", "l2")
BLOCK = 2**22  # numbers of runs that are held at once


@cache
def problem(name, n, dim):
    """A problem of a family, at the strength that is used."""
    ratio = math.sqrt(dim) / (n * MU)
    return family(name).build(
        n=n, dim=dim, sparsity=SPARSITY, noise_ratio=ratio, strength=FAMILIES[name]
    )


def planned(name, n, dim, projection):
    """With the regulariser of the l_inf theory, whatever is projected."""
    facts = problem(name, n, dim).problem_class
    plan_of = privopt.ALGORITHMS["linf_output_perturbation"].plan
    plan = plan_of(facts, BUDGET)
    if projection == "linf":
        return plan
    same = plan.params.mechanism.query.regularisation
    return plan_of(facts, BUDGET, projection=projection, regularisation=same)


@cache
def measured(name, n, dim, projection, profile):
    """Bound, mean excess risk, three standard errors of it, and the minimiser's excess risk.

    The last is the mean of what is not projected: losses are linear, and the noise has mean 0.
    """
    plan, where = planned(name, n, dim, projection), problem(name, n, dim)
    keys = replicate_keys(stream(0, family=name, n=n, dim=dim), RUNS[profile])
    chunk = max(1, min(len(keys), BLOCK // dim))
    found = privopt.run_many(
        [plan], where, keys[: len(keys) // chunk * chunk], execution=privopt.Execution(chunk=chunk)
    )
    excess = where.excess_risk(np.asarray(found.released[0]))
    error = ERRORS * float(excess.std(ddof=1)) / math.sqrt(len(excess)) + where.reference.gap
    still = float(where.excess_risk(np.asarray(found.secret.minimiser[0, 0])))
    return plan.rate.upper, float(excess.mean()), error, still


def dims(name, profile):
    """All for one record, which is where they count; for blocks the largest."""
    return DIMS[profile] if name == "sparse_same_linear" else DIMS[profile][-1:]


def interval(mean, error):
    """No risk of a member is below 0."""
    return privopt.Interval(max(0.0, mean - error), mean + error)


def rows(name, profile):
    """One row a place."""
    for dim in dims(name, profile):
        for n in SIZES:
            row = {"label": f"{name}, n = {n}, d = {dim}", "n": n, "dim": dim}
            for projection in PROJECTIONS:
                bound, mean, error, still = measured(name, n, dim, projection, profile)
                row[projection] = mean
                row[f"{projection}_risk"] = interval(mean, error)
                row["none"] = still
                if projection == "linf":
                    row["bound"] = bound
            yield row


def same_record(profile):
    """One record, n times over."""
    yield from rows("sparse_same_linear", profile)


def blocks(profile):
    """Blocks of identical records, of strength 4."""
    yield from rows("sparse_linear", profile)


def widest(profile):
    """One record, in the largest dimension."""
    dim = max(DIMS[profile])
    return [row for row in same_record(profile) if row["dim"] == dim]


def broken(profile):
    """The same at 1024 records."""
    return [row for row in widest(profile) if row["n"] == 1024]


def both(profile):
    """All places of both families."""
    return [*same_record(profile), *blocks(profile)]


def quotient_error(first, second):
    """Three standard errors of a quotient of means, to first order."""
    relative = math.hypot(first[2] / first[1], second[2] / second[1])
    return second[1] / first[1] * relative


def growth(profile):
    """By which factor the risk of one record grows from the smallest to the largest dimension."""
    first, last = min(DIMS[profile]), max(DIMS[profile])
    for n in SIZES:
        row = {"label": f"n = {n}", "n": n}
        for projection in PROJECTIONS:
            ends = [
                measured("sparse_same_linear", n, dim, projection, profile) for dim in (first, last)
            ]
            row[projection] = interval(ends[1][1] / ends[0][1], quotient_error(*ends))
        yield row


def slopes(profile):
    """Exponents in n over all sizes."""
    for name in FAMILIES:
        for dim in dims(name, profile):
            row = {"label": f"{name}, d = {dim}"}
            for projection in PROJECTIONS:
                means = [measured(name, n, dim, projection, profile)[1] for n in SIZES]
                row[projection] = float(np.polyfit(np.log(SIZES), np.log(means), 1)[0])
            yield row


def panel(part, title):
    """Risks of one part."""
    return Panel(
        part=part,
        title=title,
        x="n",
        x_label="n",
        y_label="excess risk",
        lines=(
            Line("bound", "bound, nearest in l∞", "blue", "dots"),
            Line("linf", "nearest in l∞", "blue", "points"),
            Line("l2", "nearest in l2", "orange", "points"),
        ),
        log="xy",
    )


experiment = Study(
    name="sparse_output_perturbation",
    title="Sparse risks feel the largest coordinate: one noisy minimiser, two nearest members",
    description=(
        "Linear losses on the unit ball, records of four numbers, ε = 1, δ = 1e-6. The regularised "
        "minimiser gets Gaussian noise on all coordinates. The member of the ball that is nearest "
        "in the largest coordinate is a soft threshold of it: what noise alone has put there is "
        "gone. The Euclidean projection shortens signal and noise alike. Noise and regulariser are "
        "the same for both, by the l∞ theory. Without a projection the mean risk of linear losses "
        "is that of the regulariser, for the noise has mean zero; but what is released is no "
        "member of the ball, and its risk may be below the least one. Intervals are three standard "
        "errors to either side."
    ),
    parts={
        part.__name__: part for part in (same_record, blocks, widest, broken, both, growth, slopes)
    },
    claims=(
        Claim("risk within the bound, nearest in l∞", "both", "linf_risk <= bound"),
        Claim(
            "one record, largest dimension: nearest in l∞ has less risk",
            "widest",
            "linf_risk < l2_risk",
        ),
        Claim(
            "there the Euclidean projection breaks the bound of the other",
            "broken",
            "bound < l2_risk",
        ),
        Claim(
            "one record: the Euclidean projection grows faster with the dimension",
            "growth",
            "linf < l2",
        ),
    ),
    plots=(
        Plot(
            "sparse_output_perturbation",
            "Excess risk and the bound",
            panel("widest", "one record, largest dimension"),
            panel("blocks", "blocks of identical records"),
        ),
    ),
    listings=(
        Listing(
            "both",
            "Excess risks",
            Column("problem", "{label}"),
            Column("nearest in l∞", "{linf:.4f}"),
            Column("nearest in l2", "{l2:.4f}"),
            Column("not projected", "{none:.4f}"),
            Column("bound, l∞", "{bound:.3f}", "linf_risk <= bound"),
        ),
        Listing(
            "slopes",
            "Exponents in n, all sizes",
            Column("problem", "{label}"),
            Column("nearest in l∞", "{linf:.2f}"),
            Column("nearest in l2", "{l2:.2f}"),
        ),
    ),
    profiles=("full",),
)
