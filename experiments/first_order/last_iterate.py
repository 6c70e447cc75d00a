"""The last iterate of descent by its steps, along T: c/sqrt(t) has a logarithm, linear decay none.

The hard instance is a maximum of linear pieces, of Harvey, Liaw, Plan and Randhawa (2019): descent
with steps c/sqrt(t) meets them one after another, and every step undoes a little of all earlier
ones. What goes red: ``a`` and ``b`` in the reverse order, on which no rule is told from another,
and the bound of linear decay in the place of ``root_bound``, which the last iterate exceeds.
"""

import math
from functools import cache

import numpy as np

import privopt
from privopt.convex import StepSizes
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.problems import family

LENGTHS = (16, 64, 256, 1024, 4096)
RUNS, ERRORS = 200, 4.0  # standard errors of an interval, to either side
N, DIM, EPSILON, DELTA = 16_384, 16, 4.0, 1e-6
BUDGET = privopt.Budget(epsilon=EPSILON, delta=DELTA, relation="replace_one")
RADIUS = 1.0
RULES = {
    "root": (StepSizes.inverse_root, "last"),
    "average": (StepSizes.constant, "average"),
    "decay": (StepSizes.linear_decay, "last"),
}


def pieces(steps):
    """``a`` and ``b`` of ``h_i = (a_1, .., a_{i-1}, -b_i, 0, ..)``, the longest of norm 1."""
    j = np.arange(1.0, steps + 1.0)
    a, b = 1.0 / (8.0 * (steps - j + 1.0)), 0.5 * np.sqrt(j / steps)
    squares = np.concatenate([[0.0], np.cumsum(a**2)])
    longest = math.sqrt(max((squares[:-1] + b**2).max(), squares[-1]))
    return a / longest, b / longest


def values(point, a, b):
    """``<h_i, w>`` of all ``i``; where pieces agree, so do the last digits of these."""
    sums = np.concatenate([[0.0], np.cumsum(a * point)])
    return sums - np.concatenate([b * point, [0.0]])


def descend(steps, sizes):
    """The last point and the mean of all, by subgradients of the first piece that is largest."""
    a, b = pieces(steps)
    point, total = np.zeros(steps), np.zeros(steps)
    for size in sizes:
        total += point
        first = int(values(point, a, b).argmax())
        point = point.copy()
        point[:first] -= size * a[:first]
        if first < steps:
            point[first] += size * b[first]
        point /= max(1.0, np.linalg.norm(point) / RADIUS)
    total += point
    return values(point, a, b).max(), values(total / (steps + 1.0), a, b).max()


def bound(rule, steps):
    """privopt's, without noise, at ``c = R/L`` or its like."""
    sizes, output = RULES[rule]
    facts = privopt.ProblemClass(n=1, dim=steps, lipschitz=1.0, radius=RADIUS)
    scale = RADIUS if rule == "root" else RADIUS / math.sqrt(steps + 1.0)
    plan = privopt.gradient_descent(
        facts, BUDGET, steps=steps, step_size=sizes(scale), output=output
    )
    return plan.rate.upper


def hard(profile):
    """``sqrt(T) (F(w) - F(w_1))``, no more than the excess risk: what the three rules come to."""
    del profile
    for steps in LENGTHS:
        t, root = np.arange(1.0, steps + 1.0), math.sqrt(steps)
        last, _ = descend(steps, 1.0 / np.sqrt(t))
        _, average = descend(steps, np.full(steps, 1.0 / root))
        decay, _ = descend(steps, (1.0 - (t - 1.0) / steps) / root)
        yield {
            "label": f"T = {steps}", "steps": steps,
            "root": root * last, "average": root * average, "decay": root * decay,
            "root_bound": root * bound("root", steps), "decay_bound": root * bound("decay", steps),
            "published": 5.0 * (2.0 + math.log(steps)),
        }  # fmt: skip


def long(profile):
    """From 256 steps on."""
    return (row for row in hard(profile) if row["steps"] >= 256)


def growth(profile):
    """What ``ln T`` adds to each."""
    rows = list(hard(profile))
    logs = np.log([row["steps"] for row in rows])
    for rule in RULES:
        slope = float(np.polyfit(logs, [row[rule] for row in rows], 1)[0])
        yield {"label": rule, "slope": slope, "least": 1.0 / 32.0, "none": 0.0}


def grows(profile):
    """Of these the last iterate with steps c/sqrt(t)."""
    return (row for row in growth(profile) if row["label"] == "root")


def stays(profile):
    """Of these the other two."""
    return (row for row in growth(profile) if row["label"] != "root")


@cache
def planned(rule, steps, problem_class):
    """DP-GD by one of the rules, its steps ``c/sqrt(t)`` with ``c = R/G``, or the theorem's."""
    sizes, output = RULES[rule]
    plan = privopt.dp_gd(problem_class, BUDGET, steps=steps, output=output)
    if rule != "root":
        return plan
    noise = float(plan.params.mechanism.scale)
    scale = RADIUS / math.sqrt(1.0 + problem_class.dim * noise**2)
    return privopt.dp_gd(problem_class, BUDGET, steps=steps, step_size=sizes(scale), output=output)


@cache
def measured(rule, steps):
    """The mean risk, its interval, and the bound."""
    problem = family("far_distance").build(n=N, dim=DIM, noise_ratio=1.0, strength=1.0)
    plan = planned(rule, steps, problem.problem_class)
    keys = replicate_keys(stream(0, rule=rule, steps=steps), RUNS)
    risks = problem.excess_risk(privopt.run_many([plan], problem, keys).released[0])
    mean, error = float(risks.mean()), ERRORS * float(risks.std(ddof=1)) / math.sqrt(RUNS)
    return mean, privopt.Interval(max(0.0, mean - error), mean + error), plan.rate.upper


def private(profile):
    """DP-GD on one distance, the three rules beside each other."""
    del profile
    for steps in LENGTHS:
        row = {"label": f"T = {steps}", "steps": steps}
        for rule in RULES:
            mean, risk, upper = measured(rule, steps)
            row |= {rule: mean, f"{rule}_risk": risk, f"{rule}_bound": upper}
        yield row


def bounds(profile):
    """One row a rule and length."""
    del profile
    for rule in RULES:
        for steps in LENGTHS:
            _, risk, upper = measured(rule, steps)
            yield {"label": f"{rule}, T = {steps}", "risk": risk, "bound": upper}


PARTS = (hard, long, growth, grows, stays, private, bounds)
NAMES = {
    "decay": ("last, linear decay", "green", "line"),
    "average": ("average, constant steps", "orange", "dashes"),
    "root": ("last, steps c/sqrt(t)", "blue", "line"),
}

experiment = Study(
    name="last_iterate",
    title="Does the last iterate pay a logarithm? With steps c/sqrt(t) it does",
    description=(
        "Left, without noise or privacy: subgradient descent on the maximum of T + 1 linear "
        "pieces in T dimensions, L = R = 1. What is drawn is sqrt(T) times the rise over the "
        "start, which the excess risk is not below. The last iterate with steps c/sqrt(t), c = "
        "R/L, rises like ln T, as the bound of Shamir and Zhang (2013) allows, (D²/c + c L²)(2 + "
        "ln T)/sqrt(T) with D = 2 R; the average of constant steps and the last iterate of steps "
        "in linear decay do not.\n\n"
        f"Right, DP-GD within ε = {EPSILON:g}, δ = 1e-6 under replace-one on distances to "
        f"one point, n = {N:,}, d = {DIM}: all three obey their bounds, and none shows a "
        "logarithm there. Bands are four standard errors to either side. Step sizes are the "
        "theorems', nothing is tuned."
    ),
    parts={part.__name__: part for part in PARTS},
    claims=(
        Claim("last iterate with c/sqrt(t): ln T/32 or more", "grows", "least <= slope"),
        Claim("average and linear decay have no logarithm", "stays", "slope = none ± 0.01"),
        Claim("with c/sqrt(t) it exceeds the bound of linear decay", "long", "decay_bound < root"),
        Claim("with c/sqrt(t) it stays within its own bound", "hard", "root <= root_bound"),
        Claim(
            "that bound is at most the one of Shamir and Zhang", "hard", "root_bound <= published"
        ),
        Claim("DP-GD within the bound of its rule", "bounds", "risk <= bound"),
    ),
    plots=(
        Plot(
            "last_iterate",
            "Average, linear decay, and the last iterate of c/sqrt(t)",
            Panel(
                part="hard",
                title="the hard instance, no noise",
                x="steps",
                x_label="steps T",
                y_label="sqrt(T) (F(w) - F(start))",
                log="x",
                lines=(
                    Line("decay_bound", "bound, linear decay", "green", "dots"),
                    *(Line(rule, *shown) for rule, shown in NAMES.items()),
                ),
            ),
            Panel(
                part="private",
                title="DP-GD on the distance to a point",
                x="steps",
                x_label="steps T",
                y_label="excess risk",
                log="xy",
                lines=(
                    Line("root_bound", "bound, c/sqrt(t)", "blue", "dots"),
                    Line("decay_bound", "bound, linear decay", "green", "dots"),
                    *(Line(rule, *shown, band=f"{rule}_risk") for rule, shown in NAMES.items()),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "hard",
            "sqrt(T) times the rise over the start, and bounds of the excess risk",
            Column("T", "{steps}"),
            Column("average", "{average:.3f}"),
            Column("linear decay", "{decay:.3f}"),
            Column("its bound", "{decay_bound:.3f}"),
            Column("c/sqrt(t)", "{root:.3f}"),
            Column("its bound", "{root_bound:.3f}"),
            Column("Shamir and Zhang", "{published:.1f}"),
        ),
    ),
    profiles=("full",),
)
