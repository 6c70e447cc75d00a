"""Who wins on logistic regression? Maps of the least certified bound beside the least risk."""

import math
from functools import cache, partial

import numpy as np

import privopt
from privopt import problems
from privopt.lab import Claim, Map, Plot, Study, replicate_keys, stream

MOST_STEPS, RUNS, ERRORS = 1000, 16, 2.0
METHODS = {
    "dp_gd": "DP-GD",
    "objective_perturbation": "objective",
    "output_perturbation": "output",
    "noisy_adam": "Adam",
}
NAMES = {**METHODS, "zero": "zero"}
SIZES, DIMS, EPSILONS = (100, 400, 1600, 6400), (2, 8, 32, 128), (0.1, 0.5, 2.5, 12.5)
MAPS = {
    "epsilon": ("ε", "d = 8", [(n, 8, epsilon) for epsilon in EPSILONS for n in SIZES]),
    "dim": ("dimension d", "ε = 1", [(n, dim, 1.0) for dim in DIMS for n in SIZES]),
}
CLAIMS = (
    ("the risk lies within the least bound", "risk <= bound"),
    ("the method of the least bound has at most twice the least risk", "ratio <= two"),
)


@cache
def found(n, dim, epsilon):
    """``{method: (bound, mean, standard error)}``; the zero predictor's bound is ``L R``."""
    where = problems.synthetic("logistic").build(n=n, dim=dim, noise_ratio=0.0, strength=0.0)
    facts = where.problem_class
    budget = privopt.Budget(epsilon=epsilon, delta=1e-6, relation="replace_one")
    centre = float(np.squeeze(where.excess_risk(np.zeros(dim))))
    there = {"zero": (facts.lipschitz * facts.radius, centre, 0.0)}
    for name in METHODS:
        algorithm = privopt.ALGORITHMS[name]
        plan = algorithm.plan(facts, budget)
        if "steps" in algorithm.choices and plan.params.mechanism.steps > MOST_STEPS:
            plan = algorithm.plan(facts, budget, steps=MOST_STEPS)
        keys = stream(0, method=name, n=n, dim=dim, epsilon=epsilon)
        released = privopt.run_many([plan], where, replicate_keys(keys, RUNS)).released[0]
        risks = where.excess_risk(released)
        error = float(risks.std(ddof=1)) / math.sqrt(RUNS)
        there[name] = (plan.rate.upper, float(risks.mean()), error)
    return there


def cells(axis, profile):
    """One row a place: who has the least bound, who the least risk, and how far the next is."""
    del profile
    for n, dim, epsilon in MAPS[axis][2]:
        there = found(n, dim, epsilon)
        by_bound, by_risk = (sorted(there, key=lambda name: there[name][i])[:2] for i in (0, 1))
        (_, low, error), (_, high, other) = (there[name] for name in by_risk)
        clear = high - low > ERRORS * math.hypot(error, other)
        yield {
            "label": f"n = {n:,}, d = {dim}, ε = {epsilon:g}",
            "n": n, "dim": dim, "epsilon": epsilon,
            "predicted": NAMES[by_bound[0]], "predicted_text": text(there, by_bound, 0),
            "won": NAMES[by_risk[0]] if clear else "tie",
            "won_text": text(there, by_risk, 1, clear),
            "ratio": there[by_bound[0]][1] / low, "two": 2.0,
            "bound": there[by_bound[0]][0], "risk": there[by_bound[0]][1],
        }  # fmt: skip


def text(there, names, column, clear=True):
    """Into a cell: who leads and by which factor, or the two that are not told apart."""
    first, second = names
    if not clear:
        return f"{NAMES[first]}\n≈ {NAMES[second]}"
    return f"{NAMES[first]}\n× {there[second][column] / there[first][column]:.2g}"


def drawn(axis):
    """The map of the bounds beside that of the runs."""
    label, at, _ = MAPS[axis]
    panel = partial(Map, part=axis, x="n", y=axis, x_label="records n", names=tuple(NAMES.values()))
    return Plot(
        f"map_{axis}",
        f"Who wins on logistic regression at {at}? (ε, 10⁻⁶)-DP, replace-one, default numbers",
        panel(title="least bound, and how far the next is", y_label=label,
              winner="predicted", text="predicted_text"),
        panel(title="least mean risk; ≈: not told apart", y_label="",
              winner="won", text="won_text"),
    )  # fmt: skip


experiment = Study(
    name="maps",
    profiles=("full",),
    title="Do certified bounds name the winner on logistic regression?",
    description=(
        "DP-GD, objective and output perturbation, NoisyAdam and the zero predictor on one data "
        "set a place of the synthetic logistic family, over the ball of radius 10: (ε, 10⁻⁶)-DP "
        "under replace-one, default numbers held to 1,000 steps, nothing tuned. The left panels "
        "rank certified bounds on the excess empirical risk, that of the zero predictor being L R; "
        "no theorem is known of NoisyAdam, which no bound can name. The right ones rank means of "
        "16 runs; a method has won where the next lies above it by two standard errors of their "
        "difference.\n\n"
        "The least bound names objective perturbation at all places but one, and never a method of "
        "more than twice the least risk. Where it names another than has won, NoisyAdam has."
    ),
    parts={axis: partial(cells, axis) for axis in MAPS},
    claims=tuple(
        Claim(f"{text}, over n and {MAPS[axis][0]}", axis, check)
        for axis in MAPS
        for text, check in CLAIMS
    ),
    plots=tuple(map(drawn, MAPS)),
)
