"""Phased SGD at a large privacy budget, at which the sampling error dominates.

The bound is ``4 L R sqrt(1/(6n) + 16 d/(n mu)^2)``. For ``n mu^2 >= 5000 d`` its local slope is
within 0.02 of -1/2; ``n = 500``, ``mu = 5`` and ``d = 2`` satisfy this. The mean record is
``c/sqrt(n)``, and the risk is largest for a ``c`` between 1 and 4. Privacy noise does not affect
this exponent, so controls with other noise are not informative; the exponent is a claim.
"""

import math
from functools import cache

import numpy as np

import privopt
from privopt.lab import Analysis, Claim, at_most, close, plotting, replicate_keys, stream
from privopt.problems import family

MU, DIM, SIZES = 5.0, 2, (500, 1000, 2000, 4000)
PULLS = (0.5, 1.0, 2.0, 4.0, 8.0)
EXPONENT, MARGIN, RESAMPLED = 0.5, 0.05, 2000


@cache
def measured(profile):
    """Return bounds, shape (sizes,), and the risks of all runs, shape (sizes, pulls, runs)."""
    delta = privopt.privacy.gaussian_delta(5.0 * MU, mu=MU).upper
    budget = privopt.Budget(epsilon=5.0 * MU, delta=delta, relation="replace_one")
    runs = 1500 if profile == "quick" else 4000
    losses, bounds, risks = family("linear_population"), [], []
    for n in SIZES:
        for pull in PULLS:
            mean = pull / math.sqrt(n)
            problem = losses.build(n=n, dim=DIM, noise_ratio=1.0, strength=mean)
            plan = privopt.phased_sgd(problem.problem_class, budget)
            keys = replicate_keys(stream(0, n=n, pull=pull), runs)
            risks.append(problem.excess_risk(privopt.run_many([plan], problem, keys).released[0]))
        bounds.append(plan.rate.upper)
    return np.array(bounds), np.array(risks).reshape(len(SIZES), len(PULLS), runs)


def sizes(profile):
    """Yield the largest mean risk over the pulls, and the bound."""
    bounds, risks = measured(profile)
    errors = 3.0 * risks.std(axis=2, ddof=1) / math.sqrt(risks.shape[2])
    for n, bound, mean, error in zip(SIZES, bounds, risks.mean(axis=2), errors, strict=True):
        worst = mean.argmax()
        low, high = mean[worst] - error[worst], mean[worst] + error[worst]
        yield {
            "label": f"n = {n}", "n": n, "pull": PULLS[worst], "bound": bound, "mean": mean[worst],
            "risk": privopt.Interval(float(low), float(high)),
        }  # fmt: skip


def slope(profile):
    """Yield the exponent of 1/n in the worst risk, with a bootstrap interval of level 0.99."""
    _, risks = measured(profile)
    rng = np.random.default_rng(0)
    logs = np.log(SIZES).mean() - np.log(SIZES)
    slopes = []
    for _ in range(RESAMPLED):
        resampled = rng.integers(risks.shape[2], size=risks.shape)
        worst = np.take_along_axis(risks, resampled, axis=2).mean(axis=2).max(axis=1)
        slopes.append(logs @ np.log(worst) / (logs @ logs))
    low, high = np.quantile(slopes, (0.005, 0.995))
    yield {"label": "n", "slope": privopt.Interval(low, high), "exponent": EXPONENT}


def risk_figure(frames):
    """Excess population risk against n: largest mean of five pulls, band of 3 standard errors.

    The dotted line is the upper bound. Both decrease like the square root of 1/n.
    """
    figure, (axes,) = plotting.panels("Phased SGD on linear losses: population risk, μ = 5, d = 2")
    axes.set(xlabel="n", ylabel="excess population risk", xscale="log", yscale="log")
    style = plotting.method_style("phased_sgd")
    plotting.curve(axes, frames["sizes"], "n", "mean", band="risk", **style)
    plotting.curve(axes, frames["sizes"], "n", "bound", **style | {"label": "bound", "ls": ":"})
    return figure


experiment = Analysis(
    name="phased_sgd_sampling",
    title="Phased SGD on linear losses at a large budget: population risk against n",
    description=(
        "The budget, μ = 5, is so large that the sampling of n records, and not the noise, "
        "dominates the risk. The mean record of the linear losses is of order 1/√n; at every n the "
        "risk is the largest of five such means (pulls)."
    ),
    parts={"sizes": sizes, "slope": slope},
    claims=(
        Claim("the risk is within the bound of the theorem", "sizes", at_most("risk", "bound")),
        Claim("the exponent of 1/n is 1/2 up to 0.05", "slope", close("slope", "exponent", MARGIN)),
    ),
    figures={"phased_sgd_sampling": risk_figure},
)
