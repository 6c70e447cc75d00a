"""Who has the least population risk at one guarantee, over n, d and epsilon: bounds and runs.

Every method runs at the numbers of its own theorem. The records of the linear losses pull towards
the minimiser by a mean that is swept, and of all pulls the one counts that hurts a method most. The
class is declared 1-smooth, which linear losses are: were it declared to be of smoothness 0, one
step along the noisy mean gradient would be all of DP-GD.

A bound on every risk is a function of n and of sqrt(d)/mu, but for the amplified one: the map has
these two axes, and the dimensions are such that no two of its places fall together.
"""

import math
from functools import cache

import numpy as np
from scipy.stats import binomtest

import privopt
from privopt import theory
from privopt.lab import (
    replicate_keys,
    stream,
)
from privopt.problems import linear

PLACES = {
    "quick": ((250,), (4,), (0.5, 8.0)),
    "full": ((250, 1000, 4000), (4, 36), (0.5, 2.0, 8.0, 32.0)),
}
PULLS = (0.06, 0.12, 0.25, 0.5, 1.0)
RUNS = {"quick": 50, "full": 150}
EPSILON_OVER_MU = 5.0
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ERRORS = 3.0  # standard errors of an interval, to either side
TITLES = {
    "tree": "DP-FTRL, tree",
    "buffered": "DP-FTRL, five buffers",
    "fresh": "one pass of SGD, fresh noise, batches of 1",
    "batches": "one pass of SGD, fresh noise, best batches",
    "amplified": "DP-SGD, Poisson batches",
    "phased": "phased SGD",
    "dp_gd": "DP-GD",
}
CONTESTS = {
    "single": ("tree", "buffered", "fresh"),
    "one_pass": ("tree", "buffered", "batches", "amplified", "phased"),
    "all": tuple(TITLES),
}


def place(n, dim, epsilon):
    """Problem class and budget there."""
    delta = privopt.privacy.gaussian_delta(epsilon, epsilon / EPSILON_OVER_MU).upper
    return (
        privopt.ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0, smoothness=1.0),
        privopt.Budget(epsilon=epsilon, delta=delta, relation="replace_one"),
    )


def problem(facts, pull):
    """Linear losses along one coordinate, whose records have the mean ``pull`` there."""
    features = np.zeros((2, facts.dim))
    features[:, 0] = 1.0, -1.0
    return linear(
        features,
        problem_class=facts,
        probabilities=np.array([1.0 + pull, 1.0 - pull]) / 2.0,
        minimiser=np.eye(facts.dim)[0],
        name="linear_population",
    )


def leader(noise):
    """One pass of DP-FTRL, its plan and its bound."""

    def planned(facts, budget, batch_size=1):
        plan = privopt.ALGORITHMS["dp_ftrl"].plan(facts, budget, noise=noise, batch_size=batch_size)
        return plan, plan.rate

    return planned


def best_batches(facts, budget):
    """One pass with fresh noise, at the batch where the bound is least."""
    sizes = [size for size in BATCHES if size <= facts.n]
    plans = [leader("independent")(facts, budget, size) for size in sizes]
    return min(plans, key=lambda plan: plan[1].upper)


def phased(facts, budget):
    """One pass in phases."""
    plan = privopt.ALGORITHMS["phased_sgd"].plan(facts, budget)
    return plan, plan.rate


def descent(name, facts, budget, moments, **choices):
    """The step size of the theorem on population risk."""
    plan = privopt.ALGORITHMS[name].plan
    mechanism = plan(facts, budget, output="average", **choices).params.mechanism
    told = {"steps": mechanism.steps, "noise_std": mechanism.scale} | moments
    step_size = theory.descent_population_step_size(facts, **told)
    chosen = plan(facts, budget, output="average", step_size=step_size, **choices)
    return chosen, theory.descent_population_rate(facts, **told)


def amplified(facts, budget):
    """DP-SGD that reads as many records as there are, in expectation; batches of ``sqrt(d)``."""
    size = round(math.sqrt(facts.dim))
    moments = {"batch_size": size, "sampler": "poisson"}
    steps = -(-facts.n // size)
    return descent("dp_sgd", facts, budget, moments, steps=steps, batch_size=size)


def dp_gd(facts, budget):
    """As many steps as records, each of which reads them all."""
    return descent("dp_gd", facts, budget, {}, steps=facts.n)


METHODS = {
    "tree": leader("tree"),
    "buffered": leader("buffered"),
    "fresh": leader("independent"),
    "batches": best_batches,
    "amplified": amplified,
    "phased": phased,
    "dp_gd": dp_gd,
}


@cache
def risks(profile, seed):
    """``{place: {method: (bound, mean, standard error)}}``, at the pull that is worst for it."""
    sizes, dims, epsilons = PLACES[profile]
    found = {}
    for n in sizes:
        for dim in dims:
            for name, planned in METHODS.items():
                plans = {e: planned(*place(n, dim, e)) for e in epsilons}
                for epsilon, (plan, rate) in plans.items():
                    worst = max(measured(plan, name, pull, RUNS[profile], seed) for pull in PULLS)
                    found.setdefault((n, dim, epsilon), {})[name] = (rate.upper, *worst)
    return found


def measured(plan, name, pull, runs, seed):
    """Mean excess risk, and its standard error."""
    facts = plan.problem_class
    where = problem(facts, pull)
    numbers = {"n": facts.n, "dim": facts.dim, "epsilon": plan.budget.epsilon, "pull": pull}
    keys = replicate_keys(stream(seed, method=name, **numbers), runs)
    excess = where.excess_risk(privopt.run_many([plan], where, keys).released[0])
    return float(excess.mean()), float(excess.std(ddof=1)) / math.sqrt(runs)


def table(profile):
    """One row a place and method: the risk beside the bound."""
    for (n, dim, epsilon), methods in risks(profile, 0).items():
        for name, (bound, mean, error) in methods.items():
            yield {
                "label": f"{name} at n = {n}, d = {dim}, ε = {epsilon:g}",
                "n": n,
                "dim": dim,
                "epsilon": epsilon,
                "method": TITLES[name],
                "bound": bound,
                "mean": mean,
                "risk": privopt.Interval(mean - ERRORS * error, mean + ERRORS * error),
            }


def winners(methods, names):
    """Who has the least bound, and the least risk; ``None`` where intervals do not separate."""
    predicted = min(names, key=lambda name: methods[name][0])
    first, *others = sorted(names, key=lambda name: methods[name][1])
    top = methods[first][1] + ERRORS * methods[first][2]
    clear = all(top < methods[name][1] - ERRORS * methods[name][2] for name in others)
    return predicted, first if clear else None


def contest(which):
    """A part: one row a place, with the winners of one contest, by bounds and by runs."""
    names = CONTESTS[which]

    def part(profile):
        for (n, dim, epsilon), methods in risks(profile, 0).items():
            predicted, won = winners(methods, names)
            difficulty = math.sqrt(dim) / (epsilon / EPSILON_OVER_MU)
            row = {
                "label": f"n = {n}, d = {dim}, ε = {epsilon:g}",
                "n": n,
                "dim": dim,
                "epsilon": epsilon,
                "difficulty": difficulty,
                "predicted": TITLES[predicted],
                "won": TITLES[won] if won else "tie",
            }
            for name in names:
                row[f"{name}_predicted"] = difficulty if name == predicted else None
                row[f"{name}_won"] = difficulty if name == won else None
            yield row | {"tie": None if won else difficulty}

    return part


def agreement(profile):
    """How often the bounds name the winner, where there is a clear one; and a second root key."""
    for which, names in CONTESTS.items():
        for seed in (0, 1) if profile == "full" else (0,):
            named = [winners(methods, names) for methods in risks(profile, seed).values()]
            clear = [predicted == won for predicted, won in named if won is not None]
            share = binomtest(sum(clear), len(clear)).proportion_ci(0.95) if clear else (0.0, 1.0)
            yield {
                "label": f"{which}, root key {seed}",
                "contest": which,
                "seed": seed,
                "places": len(named),
                "clear": len(clear),
                "agreeing": sum(clear),
                "share": privopt.Interval(*share),
                "chance": 1.0 / len(names),
            }
