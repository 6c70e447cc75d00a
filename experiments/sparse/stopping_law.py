"""How long the published stopping rule of bias-reduced SGD lets a run go on.

Steps at random levels are counted until their costs reach the rule's limits, thousands of times.
"""

import math
from functools import cache

import numpy as np

import privopt
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study
from privopt.mechanisms import LevelLaw, PublishedStop

EPSILON = 1.0
SIZES = {"quick": range(8, 15), "full": range(8, 19)}
RUNS = {"quick": 400, "full": 4000}


def delta_at(n):
    """``min(1e-6, 1/(2 n^2))``."""
    return min(1e-6, 0.5 / n**2)


@cache
def simulated(power, profile):
    """Steps of every run, and how often each level was taken, by the rule and by one that rejects.

    The rule looks before a level is drawn. The other draws one and stops if it does not fit.
    """
    n = 2**power
    law = LevelLaw.of(n, 1)
    budget = privopt.Budget(epsilon=EPSILON, delta=delta_at(n), relation="replace_one")
    rule = PublishedStop.of(budget, n, 1, law.highest)
    rng, levels = np.random.default_rng([power, 0]), law.highest + 1
    steps, taken, fitting = [], np.zeros(levels), np.zeros(levels)
    costs = rule.costs.astype(np.int64)
    for _ in range(RUNS[profile]):
        drawn = rng.choice(levels, size=rule.most_steps, p=law.probabilities)
        spent = np.cumsum(costs[drawn], axis=0)
        crossed = (spent > rule.limits).any(axis=1)
        count = int(crossed.argmax()) + 1
        steps.append(count)
        taken += np.bincount(drawn[:count], minlength=levels)
        fitting += np.bincount(drawn[: count - 1], minlength=levels)
    return np.array(steps), taken, fitting, np.array(law.probabilities), rule.most_steps


def lengths(profile):
    """One row a size: steps in units of ``n/ln(4/delta)``."""
    for power in SIZES[profile]:
        n = 2**power
        steps, _, _, _, most = simulated(power, profile)
        units = steps * math.log(4.0 / delta_at(n)) / n
        mean, error = units.mean(), 3.0 * units.std() / math.sqrt(units.size)
        yield {
            "label": f"n = 2^{power}",
            "n": n,
            "mean": privopt.Interval(float(mean - error), float(mean + error)),
            "quartile": float(np.quantile(units, 0.25)),
            "twentieth": float(np.quantile(units, 0.05)),
            "predicted": 2.0,
            "least_quartile": 1.5,
            "longest": int(steps.max()),
            "most": most,
            "allowed": 4 * n / 7 + 1,
        }


def large(profile):
    """The same for the sizes at which the limit is near."""
    return (row for row in lengths(profile) if row["n"] >= 2**11)


def mass(profile):
    """Of the telescoping sum that is left out: the levels that are never or too seldom taken."""
    for power in SIZES[profile]:
        _, taken, fitting, law, _ = simulated(power, profile)
        shares, kept = taken / taken.sum(), fitting / fitting.sum()
        errors = np.sqrt(law * (1.0 - law) / taken.sum())
        yield {
            "label": f"n = 2^{power}",
            "n": 2**power,
            "worst": float(np.abs((shares - law) / errors).max()),
            "allowed": 5.0,
            "lost": float(np.maximum(0.0, 1.0 - kept / law).mean()),
            "top": float(kept[-1]),
            "none": 0.0,
        }


experiment = Study(
    name="stopping_law",
    title="How long bias-reduced SGD runs under its published stopping rule",
    description=(
        "The rule of Ghazi et al. (2024) stops by what levels have cost. The number of steps has a "
        "heavy lower tail, and a mean of 2 n/ln(4/δ). It must look before a level is drawn: a rule "
        "that rejects one that does not fit never takes the largest batches, and the bias is that "
        "of smaller ones."
    ),
    parts={part.__name__: part for part in (lengths, large, mass)},
    claims=(
        Claim("the mean is 2 n/ln(4/δ), within 0.25", "large", "mean = predicted ± 0.25"),
        Claim("three runs of four take 1.5 n/ln(4/δ) steps", "large", "least_quartile <= quartile"),
        Claim("no run is longer than 4 n/7 + 1", "lengths", "longest <= allowed"),
        Claim("levels at steps taken have their own law", "mass", "worst <= allowed"),
        Claim("a rule that rejects never takes the largest batch", "mass", "top <= none"),
    ),
    plots=(
        Plot(
            "lengths",
            "Steps of a run, in units of n/ln(4/δ)",
            Panel(
                part="lengths",
                x="n",
                x_label="n",
                y_label="steps",
                log="x",
                lines=(
                    Line("predicted", "2", "grey", "dots"),
                    Line("twentieth", "5% quantile", "orange", "dots"),
                    Line("quartile", "lower quartile", "orange", "dashes"),
                    Line("mean", "mean"),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "mass",
            "Share of the telescoping sum that a rejecting rule leaves out",
            Column("records", "{label}"),
            Column("left out", "{lost:.2f}"),
        ),
    ),
)
