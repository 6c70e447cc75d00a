"""A small network on handwritten digits: nothing in a first-order method knows of linear models."""

import math
from functools import cache

import jax
import numpy as np
import optax
from flax import linen
from sklearn.datasets import load_digits

from privopt import ALGORITHMS, Budget, ProblemClass, run_many
from privopt.convex import Last
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, stream
from privopt.privacy import Fourier, epsilon
from privopt.problems import Problem

TRAINING = 1_437  # of 1,797 images; the others test
BUDGETS = [Budget(epsilon=e, delta=1e-5, relation="add_or_remove_one") for e in (1.0, 4.0)]
SIZES = {"quick": {"steps": 200, "seeds": 4}, "full": {"steps": 1_000, "seeds": 16}}
BATCHES = {"batch_size": 256, "clip": 1.0}
# Customary numbers, never tuned on these data.
METHODS = {
    "dp_sgd": {**BATCHES, "step_size": 1.0, "output": Last()},
    "noisy_adam": {**BATCHES, "step_size": 0.01},
    "gradient_descent": {"step_size": 1.0, "output": Last()},
}


class Network(linen.Module):
    """8 x 8 pixels to the scores of ten digits, by way of 32 hidden units."""

    @linen.compact
    def __call__(self, image):  # noqa: D102
        hidden = linen.tanh(linen.Dense(32)(image.reshape(*image.shape[:-2], -1)))
        return linen.Dense(10)(hidden)


def loss(parameters, record):
    """Cross-entropy of one image."""
    image, digit = record
    scores = Network().apply(parameters, image)
    return optax.softmax_cross_entropy_with_integer_labels(scores, digit)


@cache
def images():
    """Training and test images, each with its digits, in one public order."""
    pixels, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(digits))
    pixels = (pixels.reshape(-1, 8, 8) / 8.0 - 1.0).astype(np.float32)
    whole = pixels[order], digits[order].astype(np.int32)
    return tuple(a[:TRAINING] for a in whole), tuple(a[TRAINING:] for a in whole)


def problem():
    """Neither convex, nor Lipschitz, nor bounded: what is declared is the size, and a start."""
    start = Network().init(stream(0, role="start"), np.zeros((8, 8), np.float32))
    facts = ProblemClass(
        n=TRAINING,
        dim=sum(leaf.size for leaf in jax.tree.leaves(start)),
        lipschitz=math.inf,
        radius=math.inf,
        convex=False,
    )
    return Problem(loss=loss, data=images()[0], problem_class=facts, start=start, name="network")


@jax.jit
def accuracy(parameters):
    """Share of the test images, for each of the parameters along the leading axis."""
    pixels, digits = images()[1]
    scores = jax.lax.map(lambda each: Network().apply(each, pixels), parameters)
    return (scores.argmax(-1).astype(digits.dtype) == digits).mean(-1)


@cache
def trained(profile):
    """``{method: (plans, steps, accuracies)}``, accuracies of shape ``(plans, seeds, steps)``."""
    where, size, found = problem(), SIZES[profile], {}
    for name, choices in METHODS.items():
        method = ALGORITHMS[name]
        budgets = BUDGETS if method.private else BUDGETS[:1]
        seeds = size["seeds"] if method.private else 1
        plans = [
            method.plan(where.problem_class, budget, steps=size["steps"], record=16, **choices)
            for budget in budgets
        ]
        keys = jax.random.split(stream(0, role="noise", method=name), seeds)
        # Budgets are compared on the same batches, under noise of the same directions.
        path = run_many(plans, where, keys, common_random_numbers=True).path
        axes = path.steps.shape
        points = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[3:]), path.points)
        found[name] = (
            plans,
            np.asarray(path.steps[0, 0]),
            np.asarray(accuracy(points)).reshape(axes),
        )
    return found


def path(profile):
    """Mean accuracy over the seeds after so many steps."""
    found = trained(profile)
    for steps, i in zip(*np.unique(found["dp_sgd"][1], return_index=True), strict=True):
        row = {"label": f"step {steps}", "steps": int(steps)}
        for name, (plans, _, accuracies) in found.items():
            for plan, each in zip(plans, accuracies, strict=True):
                suffix = f"_{plan.budget.epsilon:g}" if plan.algorithm.private else ""
                row[f"{name}{suffix}"] = float(each[:, i].mean())
        yield row


def methods(profile):
    """What each run spends, promises and reaches."""
    found = trained(profile)
    free = float(found["gradient_descent"][2][0, 0, -1])
    for name in ("dp_sgd", "noisy_adam"):
        plans, _, accuracies = found[name]
        for plan, each in zip(plans, accuracies, strict=True):
            budget = plan.budget
            spent = epsilon(
                plan.guarantee.event,
                budget.delta,
                relation=budget.relation,
                accountant=Fourier(accuracy=1e-5),
            )
            yield {
                "label": f"{name}, ε = {budget.epsilon:g}",
                "parameters": plan.problem_class.dim,
                "budget": budget.epsilon,
                "spent": spent,
                "scale": plan.params.mechanism.scale,
                "rate": plan.rate.theorem,
                "chance": 0.1,
                "accuracy": float(each[:, -1].mean()),
                "worst": float(each[:, -1].min()),
                "free": free,
            }


experiment = Study(
    name="flax_network",
    title="A network: private gradients do not ask what the model is",
    description=(
        "Two dense layers of flax on the 1,797 digits that ship with "
        "scikit-learn, trained by `dp_sgd` and `noisy_adam` on clipped Poisson batches, a record "
        "added or removed, δ = 1e-5. The losses are declared neither convex nor Lipschitz, so no "
        "rate is claimed and the plan says why; the guarantee is as exact as for linear models, "
        "since clipping alone carries it. Step sizes and clip norms are customary ones, not tuned "
        "on these data. The non-private twin takes full gradients."
    ),
    parts={"path": path, "methods": methods},
    claims=(
        Claim("the guarantee lies within the budget", "methods", "spent <= budget"),
        Claim("every private run beats chance", "methods", "chance < worst"),
    ),
    plots=(
        Plot(
            "accuracy",
            "Accuracy on test images along the run",
            Panel(
                part="path",
                x="steps",
                x_label="steps",
                y_label="accuracy, mean over seeds",
                log="x",
                lines=(
                    Line("gradient_descent", "no privacy", "grey", "dashes"),
                    Line("dp_sgd_4", "dp_sgd, ε = 4", "blue"),
                    Line("noisy_adam_4", "noisy_adam, ε = 4", "orange"),
                    Line("dp_sgd_1", "dp_sgd, ε = 1", "blue", "dots"),
                    Line("noisy_adam_1", "noisy_adam, ε = 1", "orange", "dots"),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "methods",
            "After the last step",
            Column("method", "{label}"),
            Column("parameters", "{parameters}"),
            Column("ε spent", "{spent:.4f}", "spent <= budget"),
            Column("noise a coordinate", "{scale:.4f}"),
            Column("rate", "{rate}"),
            Column("accuracy", "{accuracy:.3f}"),
            Column("worst seed", "{worst:.3f}"),
            Column("without privacy", "{free:.3f}"),
        ),
        Listing(
            "path",
            "Accuracy along the run",
            Column("steps", "{steps}"),
            Column("dp_sgd, ε = 1", "{dp_sgd_1:.3f}"),
            Column("dp_sgd, ε = 4", "{dp_sgd_4:.3f}"),
            Column("noisy_adam, ε = 1", "{noisy_adam_1:.3f}"),
            Column("noisy_adam, ε = 4", "{noisy_adam_4:.3f}"),
            Column("no privacy", "{gradient_descent:.3f}"),
        ),
    ),
)
