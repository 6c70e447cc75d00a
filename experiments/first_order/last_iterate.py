"""Last and average iterates of gradient descent against the number of steps T, by step sizes.

The hard instance is a maximum of linear pieces, of Harvey, Liaw, Plan and Randhawa (2019): descent
with steps c/sqrt(t) meets the pieces in turn, and every step partly undoes all earlier ones. The
experiment fails for ``a`` and ``b`` in reverse order, which have the same effect on all rules, and
for the bound of linear decay in place of ``root_bound``, which the last iterate exceeds.
"""

import math
from functools import cache, partial

import numpy as np

import privopt
from privopt import lab
from privopt.convex import StepSizes
from privopt.lab import Analysis, Claim, Listing, at_most, below, close, plotting
from privopt.problems import family

LENGTHS = (16, 64, 256, 1024, 4096)
RUNS, ERRORS = 200, 4.0  # half width of an interval, in standard errors
N, DIM, EPSILON, DELTA, RADIUS = 16_384, 16, 4.0, 1e-6, 1.0
BUDGET = privopt.Budget(epsilon=EPSILON, delta=DELTA, relation="replace_one")
RULES = {
    "root": (StepSizes.inverse_root, "last"),
    "average": (StepSizes.constant, "average"),
    "decay": (StepSizes.linear_decay, "last"),
}


def pieces(steps):
    """Return ``a`` and ``b`` of the pieces ``(a_1, .., a_{i-1}, -b_i, 0, ..)`` of norm up to 1."""
    j = np.arange(1.0, steps + 1.0)
    a, b = 1.0 / (8.0 * (steps - j + 1.0)), 0.5 * np.sqrt(j / steps)
    squares = np.concatenate([[0.0], np.cumsum(a**2)])
    longest = math.sqrt(max((squares[:-1] + b**2).max(), squares[-1]))
    return a / longest, b / longest


def values(point, a, b):
    """Return all ``<h_i, w>``; equal pieces are equal to the last digit."""
    sums = np.concatenate([[0.0], np.cumsum(a * point)])
    return sums - np.concatenate([b * point, [0.0]])


def descend(steps, sizes):
    """Return the values of the last and the average point; ties go to the first piece."""
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
    """Return the bound without noise, at ``c = R/L`` or the corresponding constant."""
    sizes, output = RULES[rule]
    problem_class = privopt.ProblemClass(n=1, dim=steps, lipschitz=1.0, radius=RADIUS)
    step_size = sizes(RADIUS if rule == "root" else RADIUS / math.sqrt(steps + 1.0))
    plan = privopt.gradient_descent(
        problem_class, BUDGET, steps=steps, step_size=step_size, output=output
    )
    return plan.rate.upper


@cache
def hard(profile):
    """Return rows of ``sqrt(T) (F(w) - F(w_1))``, a lower bound of the scaled excess risk."""
    rows = []
    for steps in LENGTHS:
        t, root = np.arange(1.0, steps + 1.0), math.sqrt(steps)
        last, _ = descend(steps, 1.0 / np.sqrt(t))
        _, average = descend(steps, np.full(steps, 1.0 / root))
        decay, _ = descend(steps, (1.0 - (t - 1.0) / steps) / root)
        rows.append({
            "label": f"T = {steps}", "steps": steps,
            "root": root * last, "average": root * average, "decay": root * decay,
            "root_bound": root * bound("root", steps), "decay_bound": root * bound("decay", steps),
            "published": 5.0 * (2.0 + math.log(steps)),
        })  # fmt: skip
    return rows


def growth(profile):
    """Return the slope in ``ln T`` of every rule."""
    rows = hard(profile)
    logs = np.log([row["steps"] for row in rows])
    slopes = {rule: np.polyfit(logs, [row[rule] for row in rows], 1)[0] for rule in RULES}
    return [
        {"label": rule, "slope": float(slope), "least": 1.0 / 32.0, "none": 0.0}
        for rule, slope in slopes.items()
    ]


@cache
def measured(rule, steps):
    """Return the mean risk of DP-GD, its interval, and the bound.

    Steps ``c/sqrt(t)`` have ``c = R/G``; the others are the default of their theorem.
    """
    problem = family("far_distance").build(n=N, dim=DIM, noise_ratio=1.0, strength=1.0)
    (sizes, output), problem_class = RULES[rule], problem.problem_class
    dp_gd = partial(privopt.dp_gd, problem_class, BUDGET, steps=steps, output=output)
    plan = dp_gd()
    if rule == "root":
        noise = float(plan.params.mechanism.scale)
        plan = dp_gd(step_size=sizes(RADIUS / math.sqrt(1.0 + DIM * noise**2)))
    keys = lab.replicate_keys(lab.stream(0, rule=rule, steps=steps), RUNS)
    risks = problem.excess_risk(privopt.run_many([plan], problem, keys).released[0])
    mean, error = float(risks.mean()), ERRORS * float(risks.std(ddof=1)) / math.sqrt(RUNS)
    return mean, privopt.Interval(max(0.0, mean - error), mean + error), plan.rate.upper


def private(profile):
    """Yield a row for every T, with the risk of DP-GD by every rule."""
    for steps in LENGTHS:
        row = {"label": f"T = {steps}", "steps": steps}
        for rule in RULES:
            mean, risk, upper = measured(rule, steps)
            row |= {rule: mean, f"{rule}_risk": risk, f"{rule}_bound": upper}
        yield row


def bounds(profile):
    """Yield a row for every rule and T."""
    for rule in RULES:
        for steps in LENGTHS:
            _, risk, upper = measured(rule, steps)
            yield {"label": f"{rule}, T = {steps}", "risk": risk, "bound": upper}


def last_iterate_figure(frames):
    """Gradient descent on the hard instance (left) and DP-GD on distances (right), against T.

    Left: sqrt(T) times the increase over the start, without noise. It grows like ln T for the last
    iterate with steps c/sqrt(t), and is constant for the other rules. Right: excess risk, mean of
    200 runs with bands of 4 standard errors. All rules are within their bounds (dotted).
    """
    names = "hard instance, no noise", "DP-GD on the distance to a point"
    figure, (first, second) = plotting.panels("Last and average iterates against T", *names)
    first.set(xlabel="steps T", ylabel="sqrt(T) (F(w) - F(start))", xscale="log")
    second.set(xlabel="steps T", ylabel="excess risk", xscale="log", yscale="log")
    hard, private = frames["hard"], frames["private"]
    decay = {"label": "bound, linear decay", "color": plotting.GREEN, "ls": ":"}
    root = {"label": "bound, c/sqrt(t)", "color": plotting.BLUE, "ls": ":"}
    for axes, frame, name, style in (
        (first, hard, "decay_bound", decay),
        (second, private, "root_bound", root),
        (second, private, "decay_bound", decay),
    ):
        plotting.curve(axes, frame, "steps", name, **style)
    for rule, label, color, ls in (
        ("decay", "last, linear decay", plotting.GREEN, "-"),
        ("average", "average, constant steps", plotting.ORANGE, "--"),
        ("root", "last, steps c/sqrt(t)", plotting.BLUE, "-"),
    ):
        style = {"label": label, "color": color, "ls": ls}
        plotting.curve(first, hard, "steps", rule, **style)
        plotting.curve(second, private, "steps", rule, band=f"{rule}_risk", **style)
    return figure


PARTS = {
    "hard": hard,
    "long": lambda profile: [row for row in hard(profile) if row["steps"] >= 256],
    "growth": growth,
    "grows": lambda profile: growth(profile)[:1],
    "stays": lambda profile: growth(profile)[1:],
    "private": private,
    "bounds": bounds,
}

experiment = Analysis(
    name="last_iterate",
    title="Gradient descent and DP-GD: risk of last and average iterates against T",
    description=(
        "Left, without noise or privacy: subgradient descent on the maximum of T + 1 linear "
        "pieces in T dimensions, L = R = 1, with c = R/L. The figure shows sqrt(T) times the "
        "increase over the start, a lower bound of the excess risk. The bound of Shamir and Zhang "
        "(2013) for steps c/sqrt(t) is (D²/c + c L²)(2 + ln T)/sqrt(T) with D = 2 R.\n\n"
        f"Right: DP-GD at ε = {EPSILON:g}, δ = 1e-6 under replace-one on distances to one point, "
        f"n = {N:,}, d = {DIM}. There no rule shows a logarithm. Step sizes are the theorems'."
    ),
    parts=PARTS,
    claims=(
        Claim("last iterate with c/sqrt(t): ln T/32 or more", "grows", at_most("least", "slope")),
        Claim("average and linear decay: no logarithm", "stays", close("slope", "none", 0.01)),
        Claim("c/sqrt(t) exceeds the bound of linear decay", "long", below("decay_bound", "root")),
        Claim("c/sqrt(t) is within its own bound", "hard", at_most("root", "root_bound")),
        Claim("bound at most Shamir and Zhang's", "hard", at_most("root_bound", "published")),
        Claim("DP-GD is within the bound of its rule", "bounds", at_most("risk", "bound")),
    ),
    figures={"last_iterate": last_iterate_figure},
    listings=(
        Listing(
            "hard",
            "sqrt(T) times the increase over the start, and bounds of the excess risk",
            {"T": "{steps}", "average": "{average:.3f}", "linear decay": "{decay:.3f}"}
            | {"bound, linear decay": "{decay_bound:.3f}", "c/sqrt(t)": "{root:.3f}"}
            | {"bound, c/sqrt(t)": "{root_bound:.3f}", "Shamir and Zhang": "{published:.1f}"},
        ),
    ),
    profiles=("full",),
)
