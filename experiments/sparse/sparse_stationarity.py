"""Full-batch DP-GD on non-convex sparse losses, with and without projected gradients.

Sizes: the gradient norm of the dense method is of order ``sqrt(d)/n``. That of the projected
method is of order ``(s ln d)^(1/4)/sqrt(n)`` up to about ``n = d sqrt(T)/(mu sqrt(s ln d))``, where
the two are equal: 100,000 records at ``d = 2^16`` and three steps. The fits use at most a quarter
of it.
"""

import itertools
import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

import privopt
from privopt.lab import Analysis, Claim, Listing, below, close, plotting, replicate_keys, stream
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
    """Return ``|grad F|`` at the last iterate of every run by method, and at zero."""
    name, strength = FAMILIES[kind]
    problem = family(name).build(
        n=n, dim=DIM, sparsity=SPARSITY, noise_ratio=math.sqrt(DIM) / (n * MU), strength=strength
    )
    result = {"zero": gradient_norms(problem, np.zeros((1, DIM)))}
    for method, post in METHODS.items():
        plan = privopt.dp_gd(
            problem.problem_class, BUDGET, steps=steps, step_size=1.0, post=post, output="last"
        )
        key = stream(0, experiment="sparse_stationarity", kind=kind, method=method, n=n)
        runs = privopt.run_many([plan], problem, replicate_keys(key, REPLICATES[profile]))
        result[method] = gradient_norms(problem, runs.released[0])
    return result


@jax.jit
def gradient_norm(risk, point):
    """Return the norm of the gradient of the risk, including its public term."""
    return jnp.linalg.norm(jax.grad(risk.value)(point))


def gradient_norms(problem, points):
    """Return a number for every point."""
    points = jnp.asarray(points, problem.objective.dtype)
    return np.array([gradient_norm(problem.objective, point) for point in points], np.float64)


def sweep(kind, profile):
    """Yield the mean norms of three steps for every n."""
    for power in SIZES[profile]:
        row = {"label": f"{kind}, 3 steps, n = 2^{power}", "n": 2**power}
        for method, values in norms(kind, 3, 2**power, profile).items():
            row[method] = mean = float(values.mean())
            error = 3.0 * float(values.std()) / math.sqrt(max(1, values.size - 1))
            row[f"{method}_band"] = privopt.Interval(mean - error, mean + error)
        yield row


def slopes(is_predicted, profile):
    """Yield ``a`` of the fit ``n^-a`` to the root mean square, with three bootstrap errors.

    Theory predicts ``a`` for the hard family, and for the dense method on any records.
    """
    rng = np.random.default_rng(0)
    sizes = np.log([2.0**power for power in SIZES[profile]])

    def decay(values):
        return float(-np.polyfit(sizes, 0.5 * np.log(np.square(values).mean(-1)), 1)[0])

    for kind, steps, method in itertools.product(FAMILIES, STEPS[profile], METHODS):
        samples = [norms(kind, steps, 2**power, profile)[method] for power in SIZES[profile]]
        samples = np.stack(samples)
        count, predicted = samples.shape[1], {"projected": 0.5, "dense": 1.0}[method]
        resampled = [decay(samples[:, rng.integers(count, size=count)]) for _ in range(500)]
        value, error = decay(samples), 3.0 * float(np.std(resampled))
        if is_predicted == (kind == "hard" or method == "dense"):
            yield {
                "label": f"{method}, {kind}, {steps} steps",
                "decay": privopt.Interval(value - error, value + error),
                "predicted": predicted if is_predicted else None,
                "hardest": predicted,
            }


def norms_figure(frames):
    """Mean norm of the gradient after three steps at ε = 1, of 10 runs (100 at full size).

    Bands are 3 standard errors. Projected gradients lead to smaller norms. On blocks of copies
    these norms are still above the norm at the start; on identical records they are below it.
    """
    title = "DP-GD on sparse non-convex losses: gradient norm against n, d = 65,536"
    figure, places = plotting.panels(title, "blocks of copies", "identical records")
    for axes, part in zip(places, ("hard_3", "same_3"), strict=True):
        axes.set(xlabel="n", ylabel="norm of the gradient", xscale="log", yscale="log")
        for name, label, style in (
            ("zero", "start", {"color": plotting.GREY, "ls": ":"}),
            ("dense", "DP-GD", {"band": "dense_band"}),
            ("projected", "DP-GD, projected gradients", {"band": "projected_band", "ls": "--"}),
        ):
            plotting.curve(axes, frames[part], "n", name, label=label, **style)
    return figure


experiment = Analysis(
    name="sparse_stationarity",
    title="DP-GD on sparse non-convex losses: gradient norm against n, with projected gradients",
    description=(
        "Full-batch DP-GD with three steps at d = 65,536, on non-convex losses of sparse records "
        "with a public term, so that noise on every coordinate counts. The gradients are used as "
        "they are, or are projected onto the balls that contain all means of sparse records. The "
        "hard records are blocks of copies, four times as large as in the lower bound. There the "
        "projected method ends with a gradient about 20 % longer than at its start, which depends "
        "on no record. On identical records its gradient is shorter than at the start."
    ),
    parts={
        "hard_3": partial(sweep, "hard"), "same_3": partial(sweep, "same"),
        "hard_slopes": partial(slopes, True), "easy_slopes": partial(slopes, False),
    },
    claims=(
        Claim("the exponents agree with theory", "hard_slopes", close("decay", "predicted", 0.05)),
        Claim("identical records: larger exponent", "easy_slopes", below("hardest", "decay")),
        Claim("blocks: projected below dense", "hard_3", below("projected_band", "dense_band")),
        Claim("identical: projected below start", "same_3", below("projected_band", "zero")),
    ),
    figures={"norms": norms_figure},
    listings=(
        Listing(
            "hard_slopes",
            "Exponents a of the root mean square of the gradient norm, fitted as n^-a",
            {"runs": "{label}", "measured": "{decay:.3f}", "theory": "{predicted:g}"},
            checks={"measured": close("decay", "predicted", 0.05)},
        ),
    ),
)  # fmt: skip
