"""Number of steps of bias-reduced SGD under its published stopping rule, by simulation.

Steps at random levels are counted until their costs reach the limits of the rule.
"""

import math
from functools import cache

import numpy as np

import privopt
from privopt.lab import Analysis, Claim, Listing, at_most, close, plotting
from privopt.mechanisms import LevelLaw, PublishedStop

SIZES = {"quick": range(8, 15), "full": range(8, 19)}
RUNS = {"quick": 400, "full": 4000}


def delta_at(n):
    """Return ``min(1e-6, 1/(2 n^2))``."""
    return min(1e-6, 0.5 / n**2)


@cache
def simulated(power, profile):
    """Return the steps of every run, counts of levels, their probabilities and the most steps.

    The published rule checks the limits before a level is drawn; its counts come first. The other
    counts are those of a rule that draws a level and stops if the level does not fit.
    """
    n = 2**power
    law = LevelLaw.of(n, 1)
    budget = privopt.Budget(epsilon=1.0, delta=delta_at(n), relation="replace_one")
    rule = PublishedStop.of(budget, n, 1, law.highest)
    rng, levels = np.random.default_rng([power, 0]), law.highest + 1
    costs = rule.costs.astype(np.int64)
    steps, counts = [], np.zeros((2, levels))
    for _ in range(RUNS[profile]):
        draws = rng.choice(levels, size=rule.most_steps, p=law.probabilities)
        exceeds = (np.cumsum(costs[draws], axis=0) > rule.limits).any(axis=1)
        steps.append(int(exceeds.argmax()) + 1)
        counts += [np.bincount(draws[: steps[-1] - k], minlength=levels) for k in (0, 1)]
    return np.array(steps), counts, np.array(law.probabilities), rule.most_steps


def lengths(profile):
    """Yield a row for every n: the number of steps in units of ``n/ln(4/delta)``."""
    for power in SIZES[profile]:
        n = 2**power
        steps, *_, most = simulated(power, profile)
        units = steps * math.log(4.0 / delta_at(n)) / n
        mean, error = units.mean(), 3.0 * units.std() / math.sqrt(units.size)
        yield {
            "label": f"n = 2^{power}", "n": n,
            "mean": privopt.Interval(float(mean - error), float(mean + error)),
            "quartile": float(np.quantile(units, 0.25)),
            "twentieth": float(np.quantile(units, 0.05)),
            "predicted": 2.0, "least_quartile": 1.5,
            "longest": int(steps.max()), "most": most, "allowed": 4 * n / 7 + 1,
        }  # fmt: skip


def large(profile):
    """Return the rows of :func:`lengths` from n = 2,048 on, where the mean is near its limit."""
    return (row for row in lengths(profile) if row["n"] >= 2**11)


def mass(profile):
    """Yield the deviation of the levels from their law, and the part of the sum that is lost."""
    for power in SIZES[profile]:
        _, counts, law, _ = simulated(power, profile)
        shares, fitting = counts / counts.sum(axis=1, keepdims=True)
        errors = np.sqrt(law * (1.0 - law) / counts[0].sum())
        yield {
            "label": f"n = 2^{power}", "n": 2**power,
            "worst": float(np.abs((shares - law) / errors).max()), "allowed": 5.0,
            "lost": float(np.maximum(0.0, 1.0 - fitting / law).mean()),
            "top": float(fitting[-1]), "none": 0.0,
        }  # fmt: skip


def lengths_figure(frames):
    """Number of steps of a run in units of n/ln(4/δ), over 400 simulated runs (4,000 at full size).

    The band is the mean plus or minus 3 standard errors; the line is its upper end. From n = 2,048
    on the mean is close to its limit 2. The lower tail is heavy: one run of twenty has less than
    0.5 n/ln(4/δ) steps.
    """
    figure, (axes,) = plotting.panels("Bias-reduced SGD, published stopping rule: steps against n")
    axes.set(xlabel="n", ylabel="steps ln(4/δ)/n", xscale="log")
    for name, label, color, ls in (
        ("predicted", "limit of the mean", plotting.GREY, ":"),
        ("twentieth", "5 % quantile", plotting.ORANGE, ":"),
        ("quartile", "25 % quantile", plotting.ORANGE, "--"),
        ("mean", "mean ± 3 standard errors", plotting.BLUE, "-"),
    ):
        plotting.curve(axes, frames["lengths"], "n", name, label=label, color=color, ls=ls)
    return figure


experiment = Analysis(
    name="stopping_law",
    title="Bias-reduced SGD under its published stopping rule: number of steps against n",
    description=(
        "The rule of Ghazi et al. (2024) stops a run by the cost of its levels. The number of "
        "steps has a heavy lower tail and a mean of 2 n/ln(4/δ). The rule must check the limits "
        "before a level is drawn: a rule that rejects a level that does not fit never uses the "
        "largest batches, and its bias is that of smaller ones."
    ),
    parts={part.__name__: part for part in (lengths, large, mass)},
    claims=(
        Claim("the mean is 2 n/ln(4/δ), within 0.25", "large", close("mean", "predicted", 0.25)),
        Claim("the lower quartile is at least 1.5", "large", at_most("least_quartile", "quartile")),
        Claim("no run has more than 4 n/7 + 1 steps", "lengths", at_most("longest", "allowed")),
        Claim("levels: within 5 standard errors of their law", "mass", at_most("worst", "allowed")),
        Claim("a rule that rejects never uses the largest batch", "mass", at_most("top", "none")),
    ),
    figures={"lengths": lengths_figure},
    listings=(
        Listing(
            "mass",
            "Share of the telescoping sum that a rule loses by rejecting levels",
            {"": "{label}", "lost": "{lost:.2f}"},
        ),
    ),
)  # fmt: skip
