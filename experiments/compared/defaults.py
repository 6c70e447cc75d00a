"""What a plan costs that is told nothing: its risk over the best of an absolute grid of numbers."""

import itertools
import math

import jax
import numpy as np

import privopt
from privopt import problems
from privopt.convex import StepSizes
from privopt.lab import Claim, Column, Listing, Study, replicate_keys, stream

N, DIM, RADIUS, EPSILONS, RUNS, PILOT = 4000, 20, 2.0, (0.1, 1.0, 8.0), 24, 8
SIZES, STEPS = tuple(2.0**k for k in range(-6, 7)), (5, 20, 80, 320, 1280)
SHAPES = [
    *({"step_size": size, "output": end} for size in SIZES for end in ("average", "last")),
    *({"step_size": StepSizes.linear_decay(size), "output": "last"} for size in SIZES),
]


def grid(shapes=({},), **choices):
    """Every combination of the choices, with every one of the shapes."""
    for values in itertools.product(*choices.values()):
        yield from (dict(zip(choices, values, strict=True)) | shape for shape in shapes)


TILTS = {"regularisation": tuple(4.0**k for k in range(-8, 2))}
GRIDS = {
    "dp_gd": [*grid(SHAPES, steps=STEPS)],
    "dp_sgd": [*grid(SHAPES, steps=STEPS, batch_size=(64, 512))],
    "dp_svrg": [*grid(SHAPES[:26], steps=STEPS[2:], anchor_every=(1, 4, 16))],
    "noisy_adam": [*grid(SHAPES[1::2], steps=STEPS, batch_size=(64, 512))],
    "dp_ftrl": [
        *grid(
            batch_size=(1, 8, 64, 512),
            regularisation=tuple(4.0**k for k in range(-3, 7)),
            output=("average", "last"),
        )
    ],
    "phased_sgd": [*grid(step_size=SIZES)],
    "bias_reduced_sgd": [*grid(base=(1, 32), step_size=tuple(4.0**k for k in range(-6, 3)))],
    "output_perturbation": [*grid(**TILTS)],
    "objective_perturbation": [*grid(**TILTS)],
    "approximate_minima_perturbation": [*grid(**TILTS)],
}
FIXED = {"bias_reduced_sgd": {"body": "l2"}}


def synthetic(kind):
    """Records on the unit sphere, and labels by a planted direction."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(N, DIM))
    features /= (1.0 + 1e-6) * np.linalg.norm(features, axis=1, keepdims=True)
    pull = features @ (direction := rng.normal(size=DIM)) / np.linalg.norm(direction)
    labels = np.clip(pull + 0.3 * rng.normal(size=N), -1.0, 1.0)
    if kind in ("logistic", "hinge"):
        labels = np.where(rng.random(N) * (1.0 + np.exp(-9.0 * pull)) < 1.0, 1.0, -1.0)
    steepest = 1.0 + RADIUS if kind == "squared" else 1.0
    facts = privopt.ProblemClass(
        n=N, dim=DIM, lipschitz=steepest, radius=RADIUS,
        smoothness={"logistic": 0.25, "squared": 1.0}.get(kind),
    )  # fmt: skip
    return getattr(problems, kind)(features, labels, problem_class=facts, name=kind)


def a9a(kind):
    """Logistic regression on census records, over the ball of radius 10."""
    return problems.family(f"{kind}_logistic").build(n=N, dim=123, noise_ratio=0.0, strength=1.0)


def table(kind):
    """A part: one row a method and epsilon."""

    def part(profile):
        del profile
        where = a9a(kind) if kind == "a9a" else synthetic(kind)
        for epsilon, name in itertools.product(EPSILONS, GRIDS):
            jax.clear_caches()  # a program holds memory maps, of which a process has 65,530
            budget = privopt.Budget(epsilon=epsilon, delta=1e-6, relation="replace_one")

            def risks(choices, role, name=name, budget=budget):
                try:
                    plan = privopt.ALGORITHMS[name].plan(where.problem_class, budget, **choices)
                except ValueError:  # what a plan refuses is in no grid
                    return np.array([math.inf])
                keys = stream(0, role=role, method=name, problem=kind, epsilon=budget.epsilon)
                keys = replicate_keys(keys, PILOT if role == "pilot" else RUNS)
                return where.excess_risk(privopt.run_many([plan], where, keys).released[0])

            told = FIXED.get(name, {})
            default = risks(told, "default").mean()
            tried = [told | choices for choices in GRIDS[name]]
            best = min(tried, key=lambda choices: risks(choices, "pilot").mean())
            tuned = risks(best, "tuned").mean()
            if math.isfinite(default):
                yield {
                    "label": f"{name}, {kind}, ε = {epsilon:g}", "default": default,
                    "tuned": tuned, "ratio": default / tuned, "allowed": 2.0,
                    "numbers": ", ".join(f"{key} {value}" for key, value in best.items()),
                }  # fmt: skip

    return part


KINDS = ("logistic", "squared", "absolute", "hinge", "a9a")
COLUMNS = ("default", "tuned", "ratio", "numbers")
experiment = Study(
    name="defaults",
    profiles=("full",),
    title="Default numbers cost less than twice the best ones",
    description=(
        "Mean excess empirical risk of plans that are told nothing but class and budget, over that "
        "of the best numbers of a grid, chosen by pilot runs (oracle-tuned) and run afresh. Where "
        "a row is above 2, the data are kinder than the class: a theorem cannot know that the "
        "risk is sharp at its minimiser, and sets its steps for the flattest one."
    ),
    parts={kind: table(kind) for kind in KINDS},
    claims=tuple(Claim(f"at most twice tuned, {kind}", kind, "ratio <= allowed") for kind in KINDS),
    listings=tuple(
        Listing(
            kind,
            f"Default over tuned: {kind}",
            Column("at", "{label}"),
            *(Column(each, f"{{{each}}}") for each in COLUMNS),
        )
        for kind in KINDS
    ),
)
