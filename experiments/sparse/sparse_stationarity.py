"""Stationary points of sines with sparse gradients: full batches, projected and not.

Where the sizes come from. A dense method's error grows like ``sqrt(d)/n``, that of a projected one
like ``(s ln d)^(1/4)/sqrt(n)`` until ``n`` is about ``d sqrt(T)/(mu sqrt(s ln d))``, where they
meet: 100,000 records at ``d = 2^16`` and three steps. The fits stay a factor of four below.
"""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import privopt
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.problems import family

DIM, SPARSITY, EPSILON, DELTA = 2**16, 4, 1.0, 1e-6
BUDGET = privopt.Budget(epsilon=EPSILON, delta=DELTA, relation="replace_one")
MU = privopt.privacy.gaussian_mu(EPSILON, DELTA)
FAMILIES = {"hard": ("sparse_sines", 4.0), "same": ("sparse_same_sines", 1.0)}
METHODS = {"projected": "sparse", "dense": None}
SIZES = {"quick": range(9, 15), "full": range(9, 16)}
STEPS = {"quick": (3,), "full": (3, 10)}
REPLICATES = {"quick": 10, "full": 100}


@cache
def norms(kind, steps, n, profile):
    """``|grad F|`` at the last iterate of every replicate, by method; and at zero."""
    name, strength = FAMILIES[kind]
    ratio = math.sqrt(DIM) / (n * MU)
    problem = family(name).build(
        n=n, dim=DIM, sparsity=SPARSITY, noise_ratio=ratio, strength=strength
    )
    found = {"zero": gradient_norms(problem, np.zeros((1, DIM)))}
    for method, post in METHODS.items():
        plan = privopt.dp_gd(
            problem.problem_class, BUDGET, steps=steps, step_size=1.0, post=post, output="last"
        )
        key = stream(0, experiment="sparse_stationarity", kind=kind, method=method, n=n)
        runs = privopt.run_many([plan], problem, replicate_keys(key, REPLICATES[profile]))
        found[method] = gradient_norms(problem, runs.released[0])
    return found


@jax.jit
def gradient_norm(risk, point):
    """Of the risk itself, public term included."""
    return jnp.linalg.norm(jax.grad(risk.value)(point))


def gradient_norms(problem, points):
    """One number a point."""
    risk = problem.objective
    found = [gradient_norm(risk, jnp.asarray(point, risk.dtype)) for point in points]
    return np.array(found, np.float64)


def sweep(kind, steps, profile):
    """One row a size."""
    for power in SIZES[profile]:
        row = {"label": f"{kind}, {steps} steps, n = 2^{power}", "n": 2**power}
        for method, values in norms(kind, steps, 2**power, profile).items():
            row[method] = mean = float(values.mean())
            error = 3.0 * float(values.std()) / math.sqrt(max(1, values.size - 1))
            row[f"{method}_band"] = privopt.Interval(mean - error, mean + error)
        yield row


def slopes(profile):
    """``a`` where the root mean square falls like ``n^-a``, with three errors of a bootstrap."""
    rng = np.random.default_rng(0)
    for kind in FAMILIES:
        for steps in STEPS[profile]:
            for method, predicted in (("projected", 0.5), ("dense", 1.0)):
                sizes = np.log([2.0**power for power in SIZES[profile]])
                samples = [norms(kind, steps, 2**power, profile) for power in SIZES[profile]]
                samples = np.stack([found[method] for found in samples])

                def fitted(values, sizes=sizes):
                    return -np.polyfit(sizes, 0.5 * np.log(np.square(values).mean(-1)), 1)[0]

                count = samples.shape[1]
                drawn = [fitted(samples[:, rng.integers(count, size=count)]) for _ in range(500)]
                decay, error = float(fitted(samples)), 3.0 * float(np.std(drawn))
                yield {
                    "label": f"{method}, {kind}, {steps} steps",
                    "decay": privopt.Interval(decay - error, decay + error),
                    "predicted": predicted if kind == "hard" or method == "dense" else None,
                    "hardest": predicted,
                }


def hard_3(profile):
    """The hard family, three steps."""
    return sweep("hard", 3, profile)


def same_3(profile):
    """One record ``n`` times, three steps."""
    return sweep("same", 3, profile)


def hard_slopes(profile):
    """Of the hard family, and of dense noise anywhere, which no records make smaller."""
    return (row for row in slopes(profile) if row["predicted"] is not None)


def easy_slopes(profile):
    """Projected, on records that are all the same."""
    return (row for row in slopes(profile) if row["predicted"] is None)


LINES = (
    Line("zero", "the start", "grey", "dots"),
    Line("dense", "noise on every coordinate", "orange", "line", "dense_band"),
    Line("projected", "projected", "blue", "line", "projected_band"),
)
PANEL = {"x": "n", "x_label": "n", "y_label": "norm of the gradient", "log": "xy", "lines": LINES}

experiment = Study(
    name="sparse_stationarity",
    title="Stationary points: projected gradients need no sqrt(d) of records",
    description=(
        "Losses of sparse records that are not convex, and a public term that makes noise on every "
        "coordinate count. Full-batch noisy descent, three steps, at d = 65,536: with the gradient "
        "projected onto the balls in which means of sparse records lie, and as it is. The hard "
        "records are blocks of copies, four times as large as theory makes them. There the start, "
        "which has seen no record, is as near to stationary as the projected method: so hard are "
        "they. Only where the records agree does the method leave it behind."
    ),
    parts={part.__name__: part for part in (hard_3, same_3, hard_slopes, easy_slopes)},
    claims=(
        Claim("the exponents are those of theory", "hard_slopes", "decay = predicted ± 0.05"),
        Claim("one record is easier than blocks", "easy_slopes", "hardest < decay"),
        Claim("projected beats dense on the hard family", "hard_3", "projected_band < dense_band"),
        Claim("projected beats the start on one record", "same_3", "projected_band < zero"),
    ),
    plots=(
        Plot(
            "norms",
            "Norm of the gradient after three steps",
            Panel(part="hard_3", title="blocks of copies", **PANEL),
            Panel(part="same_3", title="one record", **PANEL),
        ),
    ),
    listings=(
        Listing(
            "hard_slopes",
            "The gradient falls like n to the power of minus",
            Column("runs", "{label}"),
            Column("measured", "{decay:.3f}", "decay = predicted ± 0.05"),
            Column("theory", "{predicted:g}"),
        ),
    ),
)
