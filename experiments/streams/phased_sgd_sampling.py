"""Phased SGD where sampling leads: at a loose budget one pass learns as fast as draws allow.

Where the sizes come from. The bound is 4 L R sqrt(1/(6n) + 16 d/(n mu)^2): from n mu^2 = 5000 d
on, its own slope is within 0.02 of -1/2, and n = 500 at mu = 5 and d = 2 is there. The records
pull towards the minimiser by c/sqrt(n), hardest at a c between 1 and 4. Privacy noise plays no
part in this exponent, so controls that change that noise would show nothing: it is a claim, not a
slope of noise.
"""

import math
from functools import cache

import numpy as np

import privopt
from privopt.lab import Claim, Line, Panel, Plot, Study, replicate_keys, stream
from privopt.problems import linear

MU, DIM, SIZES = 5.0, 2, (500, 1000, 2000, 4000)
PULLS = (0.5, 1.0, 2.0, 4.0, 8.0)
EXPONENT, MARGIN, RESAMPLED = 0.5, 0.05, 2000


def population(n, pull):
    """Linear losses along one coordinate, whose records have mean ``pull / sqrt(n)`` there."""
    mean = pull / math.sqrt(n)
    return linear(
        np.array([[1.0, 0.0], [-1.0, 0.0]]),
        problem_class=privopt.ProblemClass(n=n, dim=DIM, lipschitz=1.0, radius=1.0, smoothness=0.0),
        probabilities=np.array([1.0 + mean, 1.0 - mean]) / 2.0,
        minimiser=np.array([1.0, 0.0]),
        name="linear_population",
    )


@cache
def measured(profile):
    """Bounds, and risks of every run at every pull: shapes (sizes,) and (sizes, pulls, runs)."""
    budget = privopt.Budget(
        epsilon=5.0 * MU,
        delta=privopt.privacy.gaussian_delta(5.0 * MU, mu=MU).upper,
        relation="replace_one",
    )
    runs = 1500 if profile == "quick" else 4000
    bounds, risks = [], []
    for n in SIZES:
        for pull in PULLS:
            problem = population(n, pull)
            plan = privopt.phased_sgd(problem.problem_class, budget)
            keys = replicate_keys(stream(0, n=n, pull=pull), runs)
            risks.append(problem.excess_risk(privopt.run_many([plan], problem, keys).released[0]))
        bounds.append(plan.rate.upper)
    return np.array(bounds), np.array(risks).reshape(len(SIZES), len(PULLS), runs)


def sizes(profile):
    """The risk at the pull that hurts most, beside the bound."""
    bounds, risks = measured(profile)
    errors = 3.0 * risks.std(axis=2, ddof=1) / math.sqrt(risks.shape[2])
    for n, bound, mean, error in zip(SIZES, bounds, risks.mean(axis=2), errors, strict=True):
        worst = mean.argmax()
        low, high = mean[worst] - error[worst], mean[worst] + error[worst]
        risk = privopt.Interval(float(low), float(high))
        told = {"label": f"n = {n}", "n": n, "pull": PULLS[worst], "bound": bound}
        yield told | {"mean": mean[worst], "risk": risk}


def slope(profile):
    """The exponent of 1/n in the worst risk, its interval of level 0.99 from resampled runs."""
    _, risks = measured(profile)
    rng = np.random.default_rng(0)
    logs = np.log(SIZES).mean() - np.log(SIZES)
    found = []
    for _ in range(RESAMPLED):
        chosen = rng.integers(risks.shape[2], size=risks.shape)
        worst = np.take_along_axis(risks, chosen, axis=2).mean(axis=2).max(axis=1)
        found.append(logs @ np.log(worst) / (logs @ logs))
    low, high = np.quantile(found, (0.005, 0.995))
    yield {"label": "n", "slope": privopt.Interval(low, high), "exponent": EXPONENT}


experiment = Study(
    name="phased_sgd_sampling",
    title="Where privacy is cheap, one pass learns as fast as draws allow",
    description=(
        "Phased SGD at a budget so loose that the draws of n records, not the noise, are the "
        "larger error. Linear losses whose records pull towards the minimiser with a mean of "
        "order 1/sqrt(n): of five strengths of that pull the worst is taken at every n."
    ),
    parts={"sizes": sizes, "slope": slope},
    claims=(
        Claim("risk within the bound of the theorem", "sizes", "risk <= bound"),
        Claim("the exponent of 1/n is 1/2, up to 0.05", "slope", f"slope = exponent ± {MARGIN}"),
    ),
    plots=(
        Plot(
            "phased_sgd_sampling",
            "The worst risk falls like the bound",
            Panel(
                part="sizes",
                title="population risk, mu = 5, d = 2",
                x="n",
                x_label="n",
                y_label="excess risk",
                lines=(
                    Line("mean", "phased SGD, worst pull", "blue", band="risk"),
                    Line("bound", "bound", "blue", "dots"),
                ),
                log="xy",
            ),
        ),
    ),
)
