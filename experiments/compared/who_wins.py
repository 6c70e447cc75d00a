"""Maps of the methods with the least bound and with the least measured risk at one guarantee.

``maps`` compares empirical risks of logistic regression, ``who_wins`` population risks of linear
losses. There every method has the hyperparameters of its theorem. The mean record (pull) is varied,
and the worst one for each method counts. The class is declared 1-smooth; with smoothness 0, DP-GD
would be a single step along the noisy mean gradient.

Apart from the amplified one, the bounds are functions of ``n`` and ``sqrt(d)/mu``, which are the
axes of the map. The dimensions are such that no two cells coincide.
"""

import math
from functools import cache, partial
from itertools import pairwise, product

import numpy as np
from scipy.stats import binomtest

import privopt
from privopt import problems, theory
from privopt.lab import Analysis, Claim, Listing, at_most, below, plotting, replicate_keys, stream

SIZES, DIMS, EPSILONS = (125, 500, 2000), (4, 36), (0.5, 4.0, 32.0)
PULLS = (0.05, 0.1, 0.2, 0.4, 1.0)
RUNS = 64
BLOCKS = privopt.Execution(chunk=RUNS // 4)  # one program for all numbers of runs
EPSILON_OVER_MU = 5.0
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ERRORS = 3.0  # standard errors on each side of an interval
CONTESTS = {
    "single": ("tree", "buffered", "fresh"),
    "one_pass": ("buffered", "batches", "amplified", "phased"),
    "all": ("tree", "buffered", "fresh", "batches", "amplified", "phased", "dp_gd"),
}


def mean_and_error(risks):
    """Return the mean of the runs and its standard error."""
    return float(risks.mean()), float(risks.std(ddof=1)) / math.sqrt(len(risks))


def order(methods, names, column):
    """Return the names sorted by bound (column 0) or by mean risk (column 1)."""
    return sorted(names, key=lambda name: methods[name][column])


def cell_text(methods, names, titles, column, is_clear, digits=3):
    """Return the text of a cell: the first method and the factor of the second, or both names."""
    first, second = names[:2]
    ratio = f"{methods[second][column] / methods[first][column]:.{digits}g}"
    return f"{titles[first]}\n" + (f"× {ratio}" if is_clear else f"≈ {titles[second]}")


def winners_figure(title, part, y, label, names):
    """Return a function that draws the map of bounds and the map of measured risks of a part."""

    def winners(frames):
        """Methods with the least bound, and with the least mean excess risk.

        The factor is the value of the second method divided by that of the first. A grey cell names
        two methods that are equal up to the standard errors of their risks.
        """
        figure, panels = plotting.panels(title, "least bound", "least mean risk")
        for axes, winner in zip(panels, ("predicted", "won"), strict=True):
            columns = {"winner": winner, "text": f"{winner}_text"}
            plotting.winner_map(axes, frames[part], "n", y, **columns, names=names)
            axes.set(xlabel="records n", ylabel=label)
        return figure

    return winners


# --- population risk ------------------------------------------------------------------------------


def class_and_budget(n, dim, epsilon):
    """Return the problem class and the budget of a cell."""
    delta = privopt.privacy.gaussian_delta(epsilon, mu=epsilon / EPSILON_OVER_MU).upper
    return (
        privopt.ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0, smoothness=1.0),
        privopt.Budget(epsilon=epsilon, delta=delta, relation="replace_one"),
    )


def population(problem_class, pull):
    """Return linear losses along one coordinate with the mean record ``pull``."""
    features = np.zeros((2, problem_class.dim))
    features[:, 0] = 1.0, -1.0
    return problems.linear(
        features,
        problem_class=problem_class,
        probabilities=np.array([1.0 + pull, 1.0 - pull]) / 2.0,
        minimiser=np.eye(problem_class.dim)[0],
        name="linear_population",
    )


def default(algorithm, problem_class, budget, **choices):
    """Return a plan with the hyperparameters of its theorem, and its bound."""
    plan = privopt.ALGORITHMS[algorithm].plan(problem_class, budget, **choices)
    return plan, plan.rate


def one_pass(noise, problem_class, budget, batch_size=1):
    """Return one pass of DP-FTRL."""
    choices = {"noise": noise, "batch_size": batch_size, "quantity": "population risk"}
    return default("dp_ftrl", problem_class, budget, **choices)


def best_batches(problem_class, budget):
    """Return one pass with independent noise and the batch size of the least bound."""
    sizes = [size for size in BATCHES if size <= problem_class.n]
    plans = [one_pass("independent", problem_class, budget, size) for size in sizes]
    return min(plans, key=lambda plan: plan[1].upper)


def descent(algorithm, problem_class, budget, moments, **choices):
    """Return descent with the step size of the theorem on the population risk."""
    plan = partial(privopt.ALGORITHMS[algorithm].plan, problem_class, budget, output="average")
    mechanism = plan(**choices).params.mechanism
    moments = {"steps": mechanism.steps, "noise_std": mechanism.scale} | moments
    step_size = theory.descent_population_step_size(problem_class, **moments)
    rate = theory.descent_population_rate(problem_class, **moments)
    return plan(step_size=step_size, **choices), rate


def amplified(problem_class, budget):
    """Return DP-SGD that reads n records in expectation, in batches of ``sqrt(d)``."""
    size = round(math.sqrt(problem_class.dim))
    moments = {"batch_size": size, "sampler": "poisson"}
    steps = -(-problem_class.n // size)
    return descent("dp_sgd", problem_class, budget, moments, steps=steps, batch_size=size)


def dp_gd(problem_class, budget):
    """Return DP-GD with n steps, each of which reads all records."""
    return descent("dp_gd", problem_class, budget, {}, steps=problem_class.n)


METHODS = {  # name -> (title, short, plan)
    "tree": ("DP-FTRL, tree", "tree", partial(one_pass, "tree")),
    "buffered": ("DP-FTRL, five buffers", "buffers", partial(one_pass, "buffered")),
    "fresh": ("SGD, batches of 1", "fresh noise", partial(one_pass, "independent")),
    "batches": ("SGD, best batches", "best batches", best_batches),
    "amplified": ("DP-SGD, Poisson", "Poisson", amplified),
    "phased": ("phased SGD", "phased", partial(default, "phased_sgd")),
    "dp_gd": ("DP-GD", "DP-GD", dp_gd),
}
TITLES = {name: title for name, (title, _, _) in METHODS.items()}
SHORT = {name: short for name, (_, short, _) in METHODS.items()}


@cache
def plan_of(name, n, dim, epsilon):
    """Return the plan of a method and its bound."""
    return METHODS[name][2](*class_and_budget(n, dim, epsilon))


@cache
def risks(seed):
    """Return ``{cell: {method: (bound, mean, standard error)}}`` at the worst pull of a method."""
    runs, results = RUNS // (4 if seed else 1), {}
    for n, dim, name, epsilon in product(SIZES, DIMS, METHODS, EPSILONS):
        plan, rate = plan_of(name, n, dim, epsilon)
        worst = max(measured(plan, name, pull, runs, seed) for pull in PULLS)
        results.setdefault((n, dim, epsilon), {})[name] = (rate.upper, *worst)
    return results


def measured(plan, name, pull, runs, seed):
    """Return the mean excess risk and its standard error."""
    problem_class = plan.problem_class
    problem = population(problem_class, pull)
    cell = {"n": problem_class.n, "dim": problem_class.dim, "epsilon": plan.budget.epsilon}
    keys = replicate_keys(stream(seed, method=name, **cell, pull=pull), runs)
    released = privopt.run_many([plan], problem, keys, execution=BLOCKS).released[0]
    return mean_and_error(problem.excess_risk(released))


def table(profile):
    """Yield the risk and the bound of every method in every cell."""
    del profile
    for (n, dim, epsilon), methods in risks(0).items():
        for name, (bound, mean, error) in methods.items():
            yield {
                "label": f"{name} at n = {n}, d = {dim}, ε = {epsilon:g}",
                "n": n, "dim": dim, "epsilon": epsilon, "method": TITLES[name],
                "bound": bound, "mean": mean,
                "risk": privopt.Interval(mean - ERRORS * error, mean + ERRORS * error),
            }  # fmt: skip


def winners(methods, names):
    """Return the methods of the least bound and of the least risk; ``None`` without a clear one."""
    least, second = order(methods, names, 0)[:2]
    first, *others = order(methods, names, 1)
    top = methods[first][1] + ERRORS * methods[first][2]
    is_clear = all(top < methods[name][1] - ERRORS * methods[name][2] for name in others)
    # Equal bounds are those of the trivial risk.
    return least if methods[least][0] < methods[second][0] else None, first if is_clear else None


def contest(names, profile):
    """Yield the winners of a contest in every cell."""
    del profile
    for (n, dim, epsilon), methods in risks(0).items():
        row = {
            "label": f"n = {n}, d = {dim}, ε = {epsilon:g}", "n": n, "dim": dim,
            "epsilon": epsilon, "difficulty": math.sqrt(dim) / (epsilon / EPSILON_OVER_MU),
        }  # fmt: skip
        for column, key in enumerate(("predicted", "won")):
            winner, ranked = winners(methods, names)[column], order(methods, names, column)
            row[key] = TITLES.get(winner, "tie")
            row[f"{key}_text"] = cell_text(methods, ranked, SHORT, column, winner)
        yield row


def agreement(profile):
    """Yield how often the bounds select the winner, in cells in which both have a clear one."""
    del profile
    for which, names in CONTESTS.items():
        pairs = [winners(methods, names) for methods in risks(0).values()]
        equal = [predicted == won for predicted, won in pairs if predicted and won]
        share = binomtest(sum(equal), len(equal)).proportion_ci(0.95) if equal else (0.0, 1.0)
        ratios = [
            methods[order(methods, names, 0)[0]][1] / methods[order(methods, names, 1)[0]][1]
            for methods in risks(0).values()
        ]
        yield {
            "label": which, "contest": ", ".join(TITLES[name] for name in names),
            "places": len(pairs), "clear": len(equal), "agreeing": sum(equal),
            "share": privopt.Interval(*share), "chance": 1.0 / len(names), "worst": max(ratios),
            "within": float(np.mean([ratio <= 2.0 for ratio in ratios])), "half": 0.5,
        }  # fmt: skip


def second_key(profile):
    """Yield the winners under a second root key, with a quarter of the runs."""
    del profile
    first, second = (risks(seed) for seed in (0, 1))
    for which, names in CONTESTS.items():
        pairs = [(winners(first[at], names)[1], winners(second[at], names)[1]) for at in first]
        equal = [one == other for one, other in pairs if one and other]
        yield {"label": which, "clear": len(equal), "same": sum(equal)}


def crossovers(profile):
    """Yield the interpolated values at which the better of two methods changes along an axis."""
    del profile
    results, lines = risks(0), []
    for dim in DIMS:
        for n in SIZES:
            cells = [(n, dim, epsilon) for epsilon in EPSILONS]
            lines.append(("buffered", "fresh", "ε", f"n = {n}, d = {dim}", EPSILONS, cells))
        for epsilon in EPSILONS:
            cells = [(n, dim, epsilon) for n in SIZES]
            lines.append(("phased", "amplified", "n", f"d = {dim}, ε = {epsilon:g}", SIZES, cells))
    for first, second, axis, setting, values, cells in lines:
        pairs = [(results[cell][first], results[cell][second]) for cell in cells]
        bounds = [math.log(one[0] / other[0]) for one, other in pairs]
        means = np.array([math.log(one[1] / other[1]) for one, other in pairs])
        slack = ERRORS * np.array([math.hypot(one[2] / one[1], o[2] / o[1]) for one, o in pairs])
        ends = [root(values, means + sign * slack) for sign in (-1.0, 1.0)]
        yield {
            "label": f"{first} and {second}, {setting}",
            "pair": f"{TITLES[first]}; {TITLES[second]}",
            "where": setting, "axis": axis, "by_bounds": root(values, bounds),
            "by_runs": None if None in ends else privopt.Interval(min(ends), max(ends)),
        }  # fmt: skip


def root(values, ratios):
    """Return the value at which a logarithm changes sign, linear in log values, or ``None``."""
    logs = np.log(values)
    for i, (one, other) in enumerate(pairwise(ratios)):
        if one * other < 0.0:
            return float(np.exp(logs[i] + (logs[i + 1] - logs[i]) * one / (one - other)))
    return None


MAP_TITLES = {
    "single": "Noises of one-pass methods with one record per step: winners, ε = 5 μ",
    "one_pass": "One-pass methods on linear losses: winners, ε = 5 μ",
    "all": "Methods with n steps on linear losses: winners, ε = 5 μ",
}
experiment = Analysis(
    name="who_wins",
    profiles=("full",),
    title="DP-FTRL, SGD, phased SGD and DP-GD on linear losses: methods of least population risk",
    description=(
        "Excess population risk on linear losses at one guarantee under replace-one, every method "
        "with the hyperparameters of its theorem, at the worst of five mean records. A method wins "
        "if its interval of three standard errors on each side is below all others. SGD is one "
        "pass in order with independent noise, without amplification by sampling. There are three "
        "contests: noises, with one record per step; one pass, in which all methods read n "
        "records; and all methods, of which DP-GD reads all records in each of n steps.\n\n"
        "Correlated noise is for streams with a release after every record. There its risk is "
        "smaller than that of independent noise for large √d/μ. Larger batches, Poisson sampling "
        "and phases have smaller bounds and risks, and DP-GD, which reads all records in every "
        "step, has the smallest."
    ),
    parts={"table": table}
    | {which: partial(contest, names) for which, names in CONTESTS.items()}
    | {"agreement": agreement, "second_key": second_key, "crossovers": crossovers},
    claims=(
        Claim("the risk is within the bound of the theorem", "table", at_most("risk", "bound")),
        Claim("bounds select the winner more often than chance", "agreement",
              below("chance", "share")),
        Claim("the method of the least bound has at most twice the least risk in most cells",
              "agreement", below("half", "within")),
        Claim("a second root key never gives another clear winner", "second_key",
              at_most("clear", "same")),
    ),
    figures={
        f"winners_{which}": winners_figure(
            title, which, "difficulty", "√d / μ", [TITLES[name] for name in CONTESTS[which]]
        )
        for which, title in MAP_TITLES.items()
    },
    listings=(
        Listing(
            "agreement",
            "Winners by bounds and by runs",
            {"contest": "{contest}", "cells": "{places}", "with a clear winner": "{clear}",
             "selected by the bounds": "{agreeing}", "share": "{share:.2f}",
             "largest ratio of its risk to the least": "{worst:.2g}"},
        ),
        Listing(
            "crossovers",
            "Values at which the better of two methods changes",
            {"methods": "{pair}", "setting": "{where}", "axis": "{axis}",
             "by bounds": "{by_bounds:.3g}", "by runs": "{by_runs:.1f}"},
        ),
    ),
)  # fmt: skip


# --- empirical risk of logistic regression --------------------------------------------------------

MAP_RUNS, MOST_STEPS, MAP_ERRORS = 16, 1000, 2.0
MAP_METHODS = {
    "zero": "zero",
    "dp_gd": "DP-GD",
    "objective_perturbation": "objective",
    "output_perturbation": "output",
    "noisy_adam": "Adam",
}
MAP_SIZES, MAP_DIMS, MAP_EPSILONS = (100, 400, 1600, 6400), (2, 8, 32, 128), (0.1, 0.5, 2.5, 12.5)
MAPS = {
    "epsilon": ("ε", "d = 8", [(n, 8, epsilon) for epsilon in MAP_EPSILONS for n in MAP_SIZES]),
    "dim": ("dimension d", "ε = 1", [(n, dim, 1.0) for dim in MAP_DIMS for n in MAP_SIZES]),
}
CLAIMS = {
    "the risk is within the least bound": at_most("risk", "bound"),
    "the method with the least bound has at most twice the least risk": at_most("ratio", "two"),
}


@cache
def logistic_risks(n, dim, epsilon):
    """Return ``{method: (bound, mean, standard error)}``; the zero predictor has the bound L R."""
    problem = problems.synthetic("logistic").build(n=n, dim=dim, noise_ratio=0.0, strength=0.0)
    problem_class = problem.problem_class
    budget = privopt.Budget(epsilon=epsilon, delta=1e-6, relation="replace_one")
    zero = float(np.squeeze(problem.excess_risk(np.zeros(dim))))
    results = {"zero": (problem_class.lipschitz * problem_class.radius, zero, 0.0)}
    for name in list(MAP_METHODS)[1:]:
        algorithm = privopt.ALGORITHMS[name]
        plan = algorithm.plan(problem_class, budget)
        if "steps" in algorithm.choices and plan.params.mechanism.steps > MOST_STEPS:
            plan = algorithm.plan(problem_class, budget, steps=MOST_STEPS)
        keys = replicate_keys(stream(0, method=name, n=n, dim=dim, epsilon=epsilon), MAP_RUNS)
        released = privopt.run_many([plan], problem, keys).released[0]
        results[name] = (plan.rate.upper, *mean_and_error(problem.excess_risk(released)))
    return results


def logistic_map(axis, profile):
    """Yield a row for each cell, with the methods of the least bound and of the least risk."""
    del profile
    for n, dim, epsilon in MAPS[axis][2]:
        methods = logistic_risks(n, dim, epsilon)
        by_bound, by_risk = (order(methods, methods, column) for column in (0, 1))
        (_, low, error), (_, high, other) = (methods[name] for name in by_risk[:2])
        is_clear = high - low > MAP_ERRORS * math.hypot(error, other)
        bound, risk, _ = methods[by_bound[0]]
        yield {
            "label": f"n = {n:,}, d = {dim}, ε = {epsilon:g}",
            "n": n, "dim": dim, "epsilon": epsilon, "predicted": MAP_METHODS[by_bound[0]],
            "predicted_text": cell_text(methods, by_bound, MAP_METHODS, 0, True, 2),
            "won": MAP_METHODS[by_risk[0]] if is_clear else "tie",
            "won_text": cell_text(methods, by_risk, MAP_METHODS, 1, is_clear, 2),
            "ratio": risk / low, "two": 2.0, "bound": bound, "risk": risk,
        }  # fmt: skip


maps = Analysis(
    name="maps",
    profiles=("full",),
    title="Methods on logistic regression: least certified bound and least excess risk",
    description=(
        "The synthetic logistic family over the ball of radius 10, one data set for each cell: (ε, "
        "10⁻⁶)-DP under replace-one, default hyperparameters with at most 1,000 steps, 16 runs. "
        "The bounds are on the excess empirical risk; that of the zero predictor is L R, and "
        "NoisyAdam has none. A method wins if the next mean is larger by two standard errors of "
        "the difference. The least bound selects objective perturbation in all but one of 32 "
        "cells, and never a method with more than twice the least risk."
    ),
    parts={axis: partial(logistic_map, axis) for axis in MAPS},
    claims=tuple(
        Claim(f"{sentence}, over n and {MAPS[axis][0]}", axis, check)
        for axis in MAPS
        for sentence, check in CLAIMS.items()
    ),
    figures={
        f"map_{axis}": winners_figure(
            f"Methods on logistic regression at {setting}: winners, (ε, 10⁻⁶)-DP, replace-one",
            axis, axis, label, list(MAP_METHODS.values()),
        )
        for axis, (label, setting, _) in MAPS.items()
    },
)  # fmt: skip
