"""Excess risk along the run of each first-order method, recorded inside the compiled program.

Each method has a stream of keys of its own: the numbers are sampled, but the same every time.
"""

import math
from functools import cache, partial

import numpy as np
import optax

import privopt
from privopt.convex import Update
from privopt.lab import Claim, Line, Panel, Plot, Study, replicate_keys, stream
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
    """Steps, and for each method its bound, mean risks and their intervals at each of them."""
    kind, n, dim = PROBLEMS[name]
    problem = family(kind).build(n=n, dim=dim, noise_ratio=1.0, strength=1.0)
    replicates = 30 if profile == "quick" else 100
    found = {}
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
        found[label] = plan.rate.upper, means.tolist(), bands
    return np.asarray(path.steps[0, 0]).tolist(), found


def curves(name, profile):
    """One row a recorded step."""
    steps, found = measured(name, profile)
    for i, step in enumerate(steps):
        row = {"label": f"step {step}", "steps": step, "bound": found["dp_sgd"][0]}
        for label, (_, means, bands) in found.items():
            row |= {label: means[i], f"{label}_band": bands[i]}
        yield row


def sphere(profile):
    """Logistic regression on the sphere, 20 dimensions."""
    yield from curves("sphere", profile)


def digits(profile):
    """Logistic regression on handwritten digits."""
    yield from curves("digits", profile)


def ends(profile):
    """After the last step, for the methods that have a bound."""
    for name in PROBLEMS:
        for label, (bound, _, bands) in measured(name, profile)[1].items():
            if bound < math.inf:
                yield {"label": f"{label} on {name}", "risk": bands[-1], "bound": bound}


LINES = (
    Line("dp_gd", "DP-GD, average", "grey", band="dp_gd_band"),
    Line("dp_sgd", "DP-SGD, average", "blue", band="dp_sgd_band"),
    Line("momentum", "DP-SGD with momentum, last", "green", band="momentum_band"),
    Line("noisy_adam", "NoisyAdam, last", "orange", band="noisy_adam_band"),
    Line("corrected", "NoisyAdam, noise taken out", "purple", band="corrected_band"),
    Line("bound", "bound of DP-SGD", "blue", "dots"),
)
panel = partial(Panel, x="steps", x_label="steps", y_label="excess risk", lines=LINES, log="xy")

experiment = Study(
    name="along_the_run",
    title="Along the run: averages are safe, moments are fast",
    description=(
        "Excess risk against steps at one budget, ε = 1, δ = 1e-6 under add-or-remove, spent over "
        f"{STEPS} steps; curves are means over replicates, bands three standard errors of them to "
        "either side. Every curve is one compiled program, which records what it would have "
        "released after fewer steps; the guarantee of the whole run covers them all. Step sizes "
        "follow from public facts: theory's for descent, radius/sqrt(d T) in linear decay for "
        "the others, for which there is no theory."
    ),
    parts={"sphere": sphere, "digits": digits, "ends": ends},
    claims=(Claim("risk within the bound of the theorem", "ends", "risk <= bound"),),
    plots=(
        Plot(
            "along_the_run",
            "One budget, 2000 steps",
            panel(part="sphere", title="logistic on the sphere, n = 8192, d = 20"),
            panel(part="digits", title="digits, n = 1797, d = 64"),
        ),
    ),
)
