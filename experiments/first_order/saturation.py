"""How large the excess risk gets where privacy allows nothing to be learnt.

The sweep is over r = sqrt(d)/(n mu), from .01 to 1000, at one n and d: the budget alone changes.
The theory's numbers go to zero steps and infinite regularisers where noise is large, and reach L R
without any noise too; so both methods stand twice, with absolute numbers that no theory sets. What
goes red: these without noise (``with_noise(0.0)`` in place of the plan).
"""

import math
from functools import cache

import privopt
from privopt import theory
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.problems import FAMILIES

N, DIM, RELATION = 256, 64, privopt.Relation.REPLACE_ONE
RATIOS = tuple(10.0 ** (k / 2.0) for k in range(-4, 7))  # sqrt(d)/(n mu)
OVER_MU = 5.0  # epsilon over mu: delta follows
RUNS, ERRORS = 400, 4.0  # standard errors of an interval, to either side
FAMILY = {"dp_gd": "linear", "output_perturbation": "two_kinks"}
FIXED = {"dp_gd": {"steps": 64, "step_size": 0.25}, "output_perturbation": {"regularisation": 0.1}}
KINDS = ("theory", "fixed", "silent")  # the last is the second without its noise
NOTHING = 100.0  # ratio from which nothing is learnt


def mu(ratio):
    """What leaves this ratio at ``N`` and ``DIM``."""
    return math.sqrt(DIM) / (N * ratio)


def planned(method, kind, ratio, problem_class):
    """A plan of one of ``KINDS``."""
    epsilon = OVER_MU * mu(ratio)
    delta = privopt.privacy.gaussian_delta(epsilon, mu=mu(ratio)).upper
    budget = privopt.Budget(epsilon=epsilon, delta=delta, relation=RELATION)
    choices = {} if kind == "theory" else FIXED[method]
    return privopt.ALGORITHMS[method].plan(problem_class, budget, **choices)


@cache
def measured(method, kind, ratio):
    """The worst mean risk of the family's strengths, its interval, and the bound."""
    found = []
    for strength in FAMILIES[FAMILY[method]].strengths:
        problem = FAMILIES[FAMILY[method]].build(n=N, dim=DIM, noise_ratio=ratio, strength=strength)
        plan = planned(method, kind, ratio, problem.problem_class)
        chosen = plan.with_noise(0.0) if kind == "silent" else plan
        keys = replicate_keys(
            stream(0, method=method, ratio=f"{ratio:.3g}", strength=strength), RUNS
        )
        risks = problem.excess_risk(privopt.run_many([chosen], problem, keys).released[0])
        error = ERRORS * float(risks.std(ddof=1)) / math.sqrt(RUNS)
        found.append((float(risks.mean()), error))
    mean, error = max(found)
    return mean, privopt.Interval(max(0.0, mean - error), mean + error), plan.rate.upper


def least(ratio):
    """What no method with this ``mu`` stays below on every problem of the class."""
    facts = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=1.0)
    return theory.lower_bound(facts, theory.GaussianAdvantage(mu(ratio), RELATION)).value


def ratios(profile):
    """One row a ratio, both methods beside each other."""
    del profile
    for ratio in RATIOS:
        row = {"label": f"r = {ratio:.3g}", "ratio": ratio, "centre": 1.0, "lower": least(ratio)}
        for method in FIXED:
            for kind in KINDS:
                mean, risk, bound = measured(method, kind, ratio)
                name = f"{method}_{kind}"
                row |= {name: mean, f"{name}_risk": risk, f"{name}_bound": bound}
        yield row


def bounds(profile):
    """One row a method, with which numbers, and ratio."""
    del profile
    for method in FIXED:
        for kind in KINDS[:2]:
            for ratio in RATIOS:
                _, risk, bound = measured(method, kind, ratio)
                told = {"label": f"{method}, {kind}, r = {ratio:.3g}", "ratio": ratio}
                yield told | {"risk": risk, "upper": bound, "lower": least(ratio), "centre": 1.0}


def plateau(profile):
    """Where the powers of r alone would give 100 times L R and more."""
    return (row for row in bounds(profile) if row["ratio"] >= NOTHING)


def silent(profile):
    """There, at numbers that no theory sets, without the noise."""
    del profile
    for method in FIXED:
        for ratio in RATIOS:
            if ratio >= NOTHING:
                risk = measured(method, "silent", ratio)[1]
                yield {"label": f"{method}, r = {ratio:.3g}", "risk": risk, "half": 0.5}


LOWER = {
    "dp_gd": Line("lower", "lower bound", "green", "dashes"),
    "output_perturbation": Line("lower", "minimax, other problem", "green", "tick"),
}


def panel(method, title):
    """A method beside its bounds."""
    return Panel(
        part="ratios",
        title=title,
        x="ratio",
        x_label="r = sqrt(d)/(n mu)",
        y_label="excess risk over L R",
        log="xy",
        lines=(
            Line("centre", "public centre, L R", "grey", "dots"),
            Line(f"{method}_theory_bound", "upper bound, theory's numbers", "orange", "dashes"),
            LOWER[method],
            Line(f"{method}_silent", "fixed numbers, no noise", "purple", "dots"),
            Line(f"{method}_fixed", "fixed numbers", "purple", band=f"{method}_fixed_risk"),
            Line(f"{method}_theory", "theory's numbers", "blue", band=f"{method}_theory_risk"),
        ),
    )


experiment = Study(
    name="saturation",
    title="Where nothing can be learnt, how large is the risk? That of the public centre, L R",
    description=(
        f"Excess empirical risk where n ε is far below sqrt(d): n = {N}, d = {DIM}, replace-one, "
        "Gaussian DP with μ from 3.1 down to 0.00003 and ε = 5 μ, δ to match. At the theory's "
        "numbers risks follow their powers of r, 1 and 1/2, up to r = 0.1; from there the minimum "
        "binds: no bound exceeds 2 L R, the most that a point of the ball can have. Measured is "
        "L R, the risk of the public centre, and the lower bound for every method with this μ "
        "ends there too. It holds on linear losses, and is a tick at the margin beside two-kink "
        "losses, on which a method may be below it. The theory's steps and regularisers would end "
        "at the centre without any noise; at fixed numbers (64 steps of 0.25; a regulariser of "
        "0.1; neither tuned) the noise does it. Measured is the worst of five linear or three "
        "two-kink losses; bands are four standard errors to either side."
    ),
    parts={part.__name__: part for part in (ratios, bounds, plateau, silent)},
    claims=(
        Claim("risk within the bound of the theorem", "bounds", "risk <= upper"),
        Claim("lower bound below upper bound", "bounds", "lower <= upper"),
        Claim("risk levels off at L R, from r = 100", "plateau", "risk = centre ± 0.05"),
        Claim("the lower bound levels off there too", "plateau", "lower = centre ± 0.05"),
        Claim("without noise fixed numbers stay below L R/2", "silent", "risk < half"),
    ),
    plots=(
        Plot(
            "saturation",
            "Where nothing can be learnt, risk levels off at L R",
            panel("dp_gd", "DP-GD, worst linear loss"),
            panel("output_perturbation", "output perturbation, worst two-kink loss"),
        ),
    ),
    listings=(
        Listing(
            "bounds",
            "Excess risk over L R",
            Column("method", "{label}"),
            Column("measured", "{risk:.3f}", "risk <= upper"),
            Column("upper bound", "{upper:.3f}"),
            Column("lower bound", "{lower:.3f}"),
        ),
    ),
    profiles=("full",),
)
