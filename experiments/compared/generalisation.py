"""Privacy gives generalisation: the gap of a private method beside three bounds of it.

What goes red: an empirical risk on other records than the run's (the gap is then 0), and a bound
by ``mu/10``.
"""

import math
from functools import cache

import jax
import numpy as np
from scipy.stats import norm

import privopt
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.problems import logistic
from privopt.theory import (
    expected_generalisation,
    generalisation_gap,
    information_generalisation,
)

DIM, RADIUS, RECORDS = 20, 4.0, 2048
SIZES = {"quick": (64, 256), "full": (32, 64, 128, 256, 512, 1024)}
RUNS = {"quick": 300, "full": 3000}
EPSILONS = (1.0, 8.0)
SURE = 4.0  # standard errors: all intervals hold together but for one time in a thousand
STEPS = 50


def population(n):
    """Labels that are fair coins: all that is learned of them is the sample's own."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(RECORDS, DIM))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    facts = privopt.ProblemClass(n=n, dim=DIM, lipschitz=1.0, radius=RADIUS, smoothness=0.25)
    return logistic(
        features,
        rng.choice([-1.0, 1.0], RECORDS),
        problem_class=facts,
        probabilities=np.full(RECORDS, 1.0 / RECORDS),
    )


@cache
def optimum():
    """The minimiser of the population's risk."""
    return population(1).reference.minimiser


@cache
def gap(profile, n, epsilon):
    """``E R - E R_S`` of noisy descent: measured, and what each theorem says it can be."""
    problem = population(n)
    budget = privopt.Budget(epsilon=epsilon, delta=1e-6, relation="replace_one")
    plan = privopt.dp_gd(
        problem.problem_class, budget, steps=STEPS, step_size=4.0, output="average"
    )
    keys = replicate_keys(stream(0, n=n, epsilon=epsilon), RUNS[profile])
    points = np.asarray(privopt.run_many([plan], problem, keys).released[0], np.float64)
    source = problem.source
    counts = np.asarray(jax.vmap(lambda key: source.sample(source.keys(key)[0]).counts)(keys))
    features, labels = (np.asarray(each) for each in problem.data)
    known = optimum()  # its own gap has mean 0, and varies alike
    rows = [points, np.broadcast_to(known, points.shape)]
    losses = [np.logaddexp(0.0, -labels * (w @ features.T)) for w in rows]
    of_one, of_known = (each.mean(axis=1) - (counts * each).sum(axis=1) / n for each in losses)
    found = of_one - of_known
    off = SURE * found.std(ddof=1) / math.sqrt(len(found))
    variation = plan.guarantee.delta(0.0).upper
    mu = 2.0 * float(norm.isf(0.5 * (1.0 - variation)))
    least = min(
        expected_generalisation(e, plan.guarantee.delta(e).upper, spread=RADIUS)
        for e in np.geomspace(0.01, 1.0, 25)
    )
    spread = {"spread": RADIUS}
    return {
        "label": f"n = {n}, \u03b5 = {epsilon:g}", "n": n, "epsilon": epsilon,
        "gap": float(found.mean()), "low": float(found.mean() - off),
        "high": float(found.mean() + off),
        "band": privopt.Interval(max(0.0, float(found.mean() - off)), float(found.mean() + off)),
        "private": least, "variation": expected_generalisation(0.0, variation, **spread),
        "information": information_generalisation(0.5 * n * mu**2, n=n, **spread),
        "stability": generalisation_gap(problem.problem_class, steps=STEPS, step_size=4.0),
        "spread": RADIUS, "zero": 0.0,
    }  # fmt: skip


def gaps(profile):
    """Every size at every budget."""
    return (gap(profile, n, epsilon) for epsilon in EPSILONS for n in SIZES[profile])


def along(profile):
    """Along ``n``, a column a budget."""
    for n in SIZES[profile]:
        told = {"label": f"n = {n}", "n": n}
        for epsilon in EPSILONS:
            row = gap(profile, n, epsilon)
            names = ("gap", "band", "private", "variation", "information")
            told |= {f"{name}_{epsilon:g}": row[name] for name in names}
            told |= {"stability": row["stability"]}
        yield told


experiment = Study(
    name="generalisation",
    title="Privacy gives generalisation: the gap, and three bounds of it",
    description=(
        f"Noisy gradient descent ({STEPS} steps of 4, averaged, nothing tuned) on logistic "
        f"regression in {DIM} dimensions with labels that are fair coins, radius {RADIUS:g}, "
        "δ = 1e-6, replace-one. The population is 2,048 records, so that its risk is a finite sum. "
        "The gap is the population's risk minus that of the run's own records. Bounds: "
        "differential privacy, range (e^ε - 1 + δ(ε)) at the best ε of the run's whole profile, "
        "and at ε = 0, the total variation; information that records leave in the release, n mu²/2 "
        "nats at most; uniform stability, which knows the losses and not the noise. Bands: 4 "
        "standard errors."
    ),
    parts={part.__name__: part for part in (gaps, along)},
    claims=(
        Claim("the gap is below e^ε - 1 + δ", "gaps", "high <= private"),
        Claim("the gap is below the bound by total variation", "gaps", "high <= variation"),
        Claim("the gap is below the bound by information", "gaps", "high <= information"),
        Claim("the gap is below the bound by stability", "gaps", "high <= stability"),
        Claim("there is a gap", "gaps", "zero < low"),
    ),
    plots=(
        Plot(
            "generalisation",
            "Risk of the population minus that of the records, noisy descent",
            *(
                Panel(
                    part="along", x="n", x_label="n", y_label="gap", log="xy",
                    title=f"\u03b5 = {epsilon}, \u03b4 = 1e-6",
                    lines=(
                        Line(f"private_{epsilon}", "e^\u03b5 - 1 + \u03b4", "grey", "dots"),
                        Line(f"information_{epsilon}", "information", "orange", "dashes"),
                        Line(f"variation_{epsilon}", "total variation", "purple"),
                        Line("stability", "stability", "green"),
                        Line(f"gap_{epsilon}", "measured", "blue", band=f"band_{epsilon}"),
                    ),
                )
                for epsilon in ("1", "8")
            ),
        ),
    ),
    listings=(
        Listing(
            "gaps",
            "The gap and its bounds",
            Column("n", "{n}"),
            Column("\u03b5", "{epsilon:g}"),
            Column("measured", "{band:.4f}"),
            Column("e^\u03b5 - 1 + \u03b4", "{private:.3f}", "high <= private"),
            Column("total variation", "{variation:.3f}", "high <= variation"),
            Column("information", "{information:.3f}", "high <= information"),
            Column("stability", "{stability:.3f}", "high <= stability"),
        ),
    ),
)  # fmt: skip
