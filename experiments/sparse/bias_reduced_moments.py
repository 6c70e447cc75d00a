"""Bias and second moment of gradients of reduced bias, level by level.

A plain average over draws would be ruled by levels that come once in ``n`` draws. Each level is
measured by itself, many runs at a step of that level, and weighted by its probability.
"""

import itertools
import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

import privopt
from privopt.convex import L1L2Ball
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, stream
from privopt.mechanisms import BiasReducedGradient, ClippedGradient
from privopt.problems import family
from privopt.theory import bias_reduced_moments

DIM, SPARSITY = 32, 2
SIZES = (64, 128, 256, 512, 1024)
NOISES = (2.0, 4.0, 8.0)
RUNS = 4_000


@partial(jax.jit, static_argnames="runs")
def answers(mechanism, objective, t, coins, key, runs):
    """Answers at the origin of many runs that share a level."""

    def one(number):
        oracle = mechanism.bind(objective, jax.random.fold_in(key, number), coins)
        return oracle.update((), t, jnp.zeros(DIM, objective.dtype))[0]

    return jax.lax.map(one, jnp.arange(runs), batch_size=100)


@cache
def moments(n, noise):
    """Means, their variances and mean squares by level; and what all records would give."""
    problem = family("sparse_linear").build(
        n=n, dim=DIM, sparsity=SPARSITY, noise_ratio=math.sqrt(DIM) / (2.0 * n), strength=4.0
    )
    mechanism = BiasReducedGradient(
        query=ClippedGradient.of(problem.problem_class),
        n=n,
        base=1,
        post=L1L2Ball.of(1.0, SPARSITY),
        scale=2.0 * noise,
        steps=1,
    )
    coins, law = jax.random.key(1), mechanism.law
    of_step = jax.vmap(lambda t: law.draw(jax.random.fold_in(coins, t)))
    levels = np.asarray(of_step(jnp.arange(40 * n))).tolist()
    key, found = stream(0, experiment="bias_reduced_moments", n=n, noise=noise), []
    for level in range(law.highest + 1):
        drawn = answers(mechanism, problem.objective, levels.index(level), coins, key, RUNS)
        drawn = np.asarray(drawn, np.float64)
        found.append((drawn.mean(0), drawn.var(0).sum() / len(drawn), np.square(drawn).sum(1)))
    largest = 2 ** (law.highest + 1)
    gradient = np.asarray(problem.objective.value_and_gradient(jnp.zeros(DIM))[1], np.float64)
    rng = np.random.default_rng([n, round(noise)])
    spread = 2.0 * noise / largest * rng.normal(size=(20 * RUNS, DIM))
    whole = np.asarray(mechanism.post.project(jnp.asarray(gradient + spread)), np.float64)
    bounds = bias_reduced_moments(
        problem.problem_class, noise=2.0 * noise, base=1, probabilities=law.probabilities,
        body="l1_l2",
    )  # fmt: skip
    return np.array(law.probabilities), found, whole, gradient, bounds


def table(profile):
    """One row a size and a noise."""
    del profile
    for n, noise in itertools.product(SIZES, NOISES):
        law, found, whole, gradient, bounds = moments(n, noise)
        mean = law @ np.stack([level[0] for level in found])
        variance = float(law**2 @ [level[1] for level in found])
        variance += whole.var(0).sum() / len(whole)
        apart = float(np.sum((mean - whole.mean(0)) ** 2))
        squares = np.stack([level[2] for level in found])
        square = float(law @ squares.mean(1))
        error = 3.0 * math.sqrt(float(law**2 @ (squares.var(1) / squares.shape[1])))
        yield {
            "label": f"n = {n}, z = {noise:g}",
            "n": n,
            "noise": noise,
            "apart": apart / variance,
            "allowed": 2.0,
            "bias_bound": bounds.bias.value,
            "all_records": float(np.linalg.norm(whole.mean(0) - gradient)),
            "square": privopt.Interval(max(0.0, square - error), square + error),
            "mean_square": square,
            "square_bound": bounds.second.value,
        }


def levels(profile):
    """What each level adds to the second moment, at the largest size and the least noise."""
    del profile
    law, found, _, _, _ = moments(SIZES[-1], NOISES[0])
    for level, (p, (_, _, squares)) in enumerate(zip(law, found, strict=True)):
        yield {
            "label": f"level {level}",
            "level": level,
            "share": float(p * squares.mean()),
            "largest": float(np.sqrt(squares.max())),
        }


experiment = Study(
    name="bias_reduced_moments",
    title="Gradients of reduced bias: the bias of all records, at a variance that batches pay",
    description=(
        "Levels of the multilevel estimator of Ghazi et al. (2024), measured one by one on blocks "
        "of sparse records. Their weighted mean is that of one projected mean over all records "
        "(half of them, where n is no power of two), as the telescoping sum says. The price is a "
        "second moment to which every level adds its share."
    ),
    parts={part.__name__: part for part in (table, levels)},
    claims=(
        Claim(
            "the mean is that of all records: squared distance over its variance below 2",
            "table",
            "apart <= allowed",
        ),
        Claim("the second moment is below its bound", "table", "square <= square_bound"),
        Claim("the bias of all records is below its bound", "table", "all_records <= bias_bound"),
    ),
    plots=(
        Plot(
            "shares",
            "What each level adds to the second moment",
            Panel(
                part="levels",
                x="level",
                x_label="level",
                y_label="share",
                lines=(Line("share", "probability times mean square", "blue", "points"),),
            ),
        ),
    ),
    listings=(
        Listing(
            "table",
            "Moments",
            Column("", "{label}"),
            Column("bias of all records", "{all_records:.3f}"),
            Column("its bound", "{bias_bound:.3f}"),
            Column("second moment", "{mean_square:.1f}"),
            Column("its bound", "{square_bound:.0f}"),
        ),
    ),
    profiles=("full",),
)
