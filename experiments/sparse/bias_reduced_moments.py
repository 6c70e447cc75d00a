"""Bias and second moment of bias-reduced gradients, measured level by level.

In a plain average over draws the highest levels, which occur once in about ``n`` draws, dominate
the variance. Each level is therefore measured separately, in many runs at one step of that level,
and weighted by its probability.
"""

import itertools
import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

import privopt
from privopt.convex import L1L2Ball
from privopt.lab import Analysis, Claim, Listing, at_most, plotting, stream
from privopt.mechanisms import BiasReducedGradient, ClippedGradient
from privopt.problems import family
from privopt.theory import bias_reduced_moments

DIM, SPARSITY = 32, 2
SIZES = (64, 128, 256, 512, 1024)
NOISES = (2.0, 4.0, 8.0)
RUNS = 4_000


@partial(jax.jit, static_argnames="runs")
def estimates(mechanism, objective, t, public_key, key, runs):
    """Return the gradient estimates at the origin of many runs that share a level."""

    def one(number):
        oracle = mechanism.oracle(objective, jax.random.fold_in(key, number), public_key)
        return oracle.update((), t, jnp.zeros(DIM, objective.dtype))[0]

    return jax.lax.map(one, jnp.arange(runs), batch_size=100)


@cache
def moments(n, noise):
    """Return level probabilities, estimates by level and from all records, gradient, and bounds."""
    problem = family("sparse_linear").build(
        n=n, dim=DIM, sparsity=SPARSITY, noise_ratio=math.sqrt(DIM) / (2.0 * n), strength=4.0
    )
    mechanism = BiasReducedGradient(
        query=ClippedGradient.of(problem.problem_class), n=n, base=1,
        post=L1L2Ball.of(1.0, SPARSITY), scale=2.0 * noise, steps=1,
    )  # fmt: skip
    public_key, law = jax.random.key(1), mechanism.law
    draw_level = jax.vmap(lambda t: law.draw(jax.random.fold_in(public_key, t)))
    levels = np.asarray(draw_level(jnp.arange(40 * n))).tolist()
    key = stream(0, experiment="bias_reduced_moments", n=n, noise=noise)
    draws = [
        estimates(mechanism, problem.objective, levels.index(level), public_key, key, RUNS)
        for level in range(law.highest + 1)
    ]
    gradient = np.asarray(problem.objective.value_and_gradient(jnp.zeros(DIM))[1], np.float64)
    rng = np.random.default_rng([n, round(noise)])
    noise_std = 2.0 * noise / 2 ** (law.highest + 1)
    noisy = gradient + noise_std * rng.normal(size=(20 * RUNS, DIM))
    whole = np.asarray(mechanism.post.project(jnp.asarray(noisy)), np.float64)
    bounds = bias_reduced_moments(
        problem.problem_class, noise=2.0 * noise, base=1, probabilities=law.probabilities,
        body="l1_l2",
    )  # fmt: skip
    return np.array(law.probabilities), np.asarray(draws, np.float64), whole, gradient, bounds


def table(_):
    """Yield a row for every n and noise."""
    for n, noise in itertools.product(SIZES, NOISES):
        law, draws, whole, gradient, bounds = moments(n, noise)
        squares = np.square(draws).sum(2)
        variance = law**2 @ (draws.var(1).sum(1) / RUNS) + whole.var(0).sum() / len(whole)
        square = float(law @ squares.mean(1))
        error = 3.0 * math.sqrt(law**2 @ (squares.var(1) / RUNS))
        yield {
            "label": f"n = {n}, z = {noise:g}", "n": n, "noise": noise,
            "apart": float(np.sum((law @ draws.mean(1) - whole.mean(0)) ** 2)) / variance,
            "allowed": 2.0,
            "bias_bound": bounds.bias.value,
            "all_records": float(np.linalg.norm(whole.mean(0) - gradient)),
            "square": privopt.Interval(max(0.0, square - error), square + error),
            "mean_square": square, "square_bound": bounds.second.value,
        }  # fmt: skip


def levels(_):
    """Yield the contribution of every level at the largest n and the smallest noise."""
    law, draws, *_ = moments(SIZES[-1], NOISES[0])
    for level, (probability, squares) in enumerate(zip(law, np.square(draws).sum(2), strict=True)):
        yield {
            "label": f"level {level}", "level": level,
            "share": float(probability * squares.mean()), "largest": float(np.sqrt(squares.max())),
        }  # fmt: skip


def levels_figure(frames):
    """Probability of a level times the mean square of its estimates, in 4,000 runs for each level.

    n = 1,024, noise multiplier 2. The second moment of the estimator is the sum over the levels, so
    every level contributes to it.
    """
    title = "Bias-reduced SGD on sparse linear losses: second moment of the gradient by level"
    figure, (axes,) = plotting.panels(title)
    axes.set(xlabel="level", ylabel="probability times mean square")
    plotting.curve(axes, frames["levels"], "level", "share", marker="o")
    return figure


experiment = Analysis(
    name="bias_reduced_moments",
    title="Bias-reduced SGD on sparse linear losses: bias and second moment of the gradient",
    description=(
        "The levels of the multilevel estimator of Ghazi et al. (2024) are measured separately, on "
        "blocks of identical sparse records. By the telescoping sum, their weighted mean is the "
        "mean of one projected estimate from all records (from half of them if n is not a power of "
        "two). The second moment is larger: every level contributes to it."
    ),
    parts={part.__name__: part for part in (table, levels)},
    claims=(
        Claim("the mean is that from all records", "table", at_most("apart", "allowed")),
        Claim("second moment at most its bound", "table", at_most("square", "square_bound")),
        Claim("bias at most its bound", "table", at_most("all_records", "bias_bound")),
    ),
    figures={"shares": levels_figure},
    listings=(
        Listing(
            "table",
            "Bias of the estimate from all records and second moment, with their bounds",
            {
                "": "{label}", "bias": "{all_records:.3f}", "its bound": "{bias_bound:.3f}",
                "second moment": "{mean_square:.1f}", "the bound on it": "{square_bound:.0f}",
            },
        ),
    ),
    profiles=("full",),
)  # fmt: skip
