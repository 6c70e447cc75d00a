"""Excess risk along the run of each first-order method, recorded inside the compiled program.

Each method has a separate key stream.
"""

import math
from functools import cache, partial

import numpy as np
import optax

import privopt
from privopt.convex import Update
from privopt.lab import Analysis, Chart, Claim, at_most, plotting, replicate_keys, stream
from privopt.problems import family

STEPS, BATCH, POINTS = 2000, 128, 25
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
AVERAGE = "average_after_step"
METHODS = {
    "dp_gd": ("dp_gd", {"output": AVERAGE}),
    "dp_sgd": ("dp_sgd", {"batch_size": BATCH, "output": AVERAGE}),
    "momentum": ("dp_sgd", {"batch_size": BATCH, "update": Update.of(optax.sgd, momentum=0.9)}),
    "noisy_adam": ("noisy_adam", {"batch_size": BATCH}),
    "corrected": ("noisy_adam", {"batch_size": BATCH, "noise_correction": True}),
}
PROBLEMS = {"sphere": ("sphere_logistic", 8192, 20), "digits": ("digits_logistic", 1797, 64)}


@cache
def measured(name, profile):
    """Return the recorded steps, and the bound, mean risks and intervals of each method."""
    kind, n, dim = PROBLEMS[name]
    problem = family(kind).build(n=n, dim=dim, noise_ratio=1.0, strength=1.0)
    replicates = 30 if profile == "quick" else 100
    results = {}
    for label, (algorithm, choices) in METHODS.items():
        plan = privopt.ALGORITHMS[algorithm].plan(
            problem.problem_class, BUDGET, steps=STEPS, record=POINTS, **choices
        )
        keys = replicate_keys(stream(0, problem=name, method=label), replicates)
        path = privopt.run_many([plan], problem, keys).path
        excess = problem.excess_risk(path.points[0])
        means, errors = excess.mean(axis=0), 3.0 * excess.std(axis=0, ddof=1) / math.sqrt(len(keys))
        bands = [
            privopt.Interval(float(mean - error), float(mean + error))
            for mean, error in zip(means, errors, strict=True)
        ]
        results[label] = plan.rate.upper, means.tolist(), bands
    return np.asarray(path.steps[0, 0]).tolist(), results


def curves(name, profile):
    """Yield a row for each recorded step."""
    steps, results = measured(name, profile)
    for i, step in enumerate(steps):
        row = {"label": f"step {step}", "steps": step, "bound": results["dp_sgd"][0]}
        for label, (_, means, bands) in results.items():
            row |= {label: means[i], f"{label}_band": bands[i]}
        yield row


def ends(profile):
    """Yield the risk after the last step of each method with a bound."""
    for name in PROBLEMS:
        for label, (bound, _, bands) in measured(name, profile)[1].items():
            if bound < math.inf:
                yield {"label": f"{label} on {name}", "risk": bands[-1], "bound": bound}


LINES = {
    "dp_gd": ("DP-GD, average", plotting.BLUE),
    "dp_sgd": ("DP-SGD, average", plotting.ORANGE),
    "momentum": ("DP-SGD with momentum, last", plotting.PURPLE),
    "noisy_adam": ("NoisyAdam, last", plotting.GREEN),
    "corrected": ("NoisyAdam, noise correction", plotting.SKY),
}


def along_the_run(frames):
    """Excess empirical risk against steps (mean of all runs, band of 3 standard errors).

    The dotted line is the bound of DP-SGD after all steps. NoisyAdam with noise correction reduces
    the risk fastest at first. After the last step the average iterates have the largest risk.
    """
    names = ("logistic on the sphere, n = 8192, d = 20", "logistic on digits, n = 1797, d = 64")
    title = "First-order methods on logistic regression: excess risk against steps"
    figure, panels = plotting.panels(title, *names)
    for part, axes in zip(PROBLEMS, panels, strict=True):
        axes.set(xlabel="steps", ylabel="excess risk", xscale="log", yscale="log")
        for name, (label, color) in LINES.items():
            line = {"band": f"{name}_band", "label": label, "color": color}
            plotting.curve(axes, frames[part], "steps", name, **line)
        style = {"label": "bound of DP-SGD", "color": plotting.ORANGE, "ls": ":"}
        plotting.curve(axes, frames[part], "steps", "bound", **style)
    return figure


experiment = Analysis(
    name="along_the_run",
    title="First-order methods on logistic regression: excess risk along the run",
    description=(
        "All methods have the budget ε = 1, δ = 1e-6 under add-or-remove-one for "
        f"{STEPS} steps. Each run records what it would have released after fewer steps; the "
        "guarantee of the whole run covers all these points. Step sizes depend only on the problem "
        "class: DP-GD and DP-SGD have those of their theorems, the other methods a linear decay "
        "from radius/sqrt(d T), for which no theorem is known."
    ),
    parts={name: partial(curves, name) for name in PROBLEMS} | {"ends": ends},
    claims=(
        Claim("the risk is within the bound of the theorem", "ends", at_most("risk", "bound")),
    ),
    figures={"along_the_run": along_the_run},
    charts=tuple(Chart(f"logistic_on_{name}", name, "steps", band="band") for name in PROBLEMS),
)
