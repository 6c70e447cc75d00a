"""Who has the least population risk at one guarantee, over n, d and epsilon: bounds and runs.

Every method runs at the numbers of its own theorem. The records of the linear losses pull towards
the minimiser by a mean that is swept, and of all pulls the one counts that hurts a method most. The
class is declared 1-smooth, which linear losses are: were it declared to be of smoothness 0, one
step along the noisy mean gradient would be all of DP-GD.

A bound on every risk is a function of n and of sqrt(d)/mu, but for the amplified one: the map has
these two axes, and the dimensions are such that no two of its places fall together.
"""

import math
from functools import cache, partial
from itertools import pairwise

import numpy as np
from scipy.stats import binomtest

import privopt
from privopt import theory
from privopt.lab import Claim, Column, Listing, Map, Plot, Study, replicate_keys, stream
from privopt.problems import linear

SIZES, DIMS, EPSILONS = (125, 500, 2000), (4, 36), (0.5, 4.0, 32.0)
PULLS = (0.05, 0.1, 0.2, 0.4, 1.0)
RUNS = 64
BLOCKS = privopt.Execution(chunk=RUNS // 4)  # one program for all numbers of runs
EPSILON_OVER_MU = 5.0
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
ERRORS = 3.0  # standard errors of an interval, to either side
CONTESTS = {
    "single": ("tree", "buffered", "fresh"),
    "one_pass": ("buffered", "batches", "amplified", "phased"),
    "all": ("tree", "buffered", "fresh", "batches", "amplified", "phased", "dp_gd"),
}


def place(n, dim, epsilon):
    """Problem class and budget there."""
    delta = privopt.privacy.gaussian_delta(epsilon, mu=epsilon / EPSILON_OVER_MU).upper
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


def own(algorithm, **choices):
    """A plan at the numbers of its own theorem, and its bound."""

    def planned(facts, budget):
        plan = privopt.ALGORITHMS[algorithm].plan(facts, budget, **choices)
        return plan, plan.rate

    return planned


def leader(noise, batch_size=1):
    """One pass of DP-FTRL."""
    return own("dp_ftrl", noise=noise, batch_size=batch_size)


def best_batches(facts, budget):
    """One pass with fresh noise, at the batch where the bound is least."""
    sizes = [size for size in BATCHES if size <= facts.n]
    plans = [leader("independent", size)(facts, budget) for size in sizes]
    return min(plans, key=lambda plan: plan[1].upper)


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


METHODS = {  # name -> (title, short, plan)
    "tree": ("DP-FTRL, tree", "tree", leader("tree")),
    "buffered": ("DP-FTRL, five buffers", "buffers", leader("buffered")),
    "fresh": ("SGD, batches of 1", "fresh noise", leader("independent")),
    "batches": ("SGD, best batches", "best batches", best_batches),
    "amplified": ("DP-SGD, Poisson", "Poisson", amplified),
    "phased": ("phased SGD", "phased", own("phased_sgd")),
    "dp_gd": ("DP-GD", "DP-GD", dp_gd),
}
TITLES = {name: title for name, (title, _, _) in METHODS.items()}


@cache
def plan_of(name, n, dim, epsilon):
    """A method's plan and its bound."""
    return METHODS[name][2](*place(n, dim, epsilon))


@cache
def risks(seed):
    """``{place: {method: (bound, mean, standard error)}}``, at the pull that is worst for it."""
    found = {}
    for n in SIZES:
        for dim in DIMS:
            for name in METHODS:
                for epsilon in EPSILONS:
                    plan, rate = plan_of(name, n, dim, epsilon)
                    runs = RUNS // (4 if seed else 1)
                    worst = max(measured(plan, name, pull, runs, seed) for pull in PULLS)
                    found.setdefault((n, dim, epsilon), {})[name] = (rate.upper, *worst)
    return found


def measured(plan, name, pull, runs, seed):
    """Mean excess risk, and its standard error."""
    facts = plan.problem_class
    where = problem(facts, pull)
    numbers = {"n": facts.n, "dim": facts.dim, "epsilon": plan.budget.epsilon, "pull": pull}
    keys = replicate_keys(stream(seed, method=name, **numbers), runs)
    done = privopt.run_many([plan], where, keys, execution=BLOCKS)
    excess = where.excess_risk(done.released[0])
    return float(excess.mean()), float(excess.std(ddof=1)) / math.sqrt(runs)


def table(profile):
    """One row a place and method: the risk beside the bound."""
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
    """Who has the least bound, and the least risk; ``None`` where two do, or intervals overlap."""
    least, second = order(methods, names, 0)[:2]
    told = methods[least][0] < methods[second][0]  # else both are at the largest risk
    first, *others = order(methods, names, 1)
    top = methods[first][1] + ERRORS * methods[first][2]
    clear = all(top < methods[name][1] - ERRORS * methods[name][2] for name in others)
    return least if told else None, first if clear else None


def order(methods, names, column):
    """The names by bound (0) or by mean risk (1)."""
    return sorted(names, key=lambda name: methods[name][column])


def written(methods, order, column, clear):
    """Into a cell: the winner and how far the next is, or the two that are not told apart."""
    first, second = order[:2]
    ratio = methods[second][column] / methods[first][column]
    return f"{METHODS[first][1]}\n" + (f"× {ratio:.3g}" if clear else f"≈ {METHODS[second][1]}")


def contest(which):
    """A part: one row a place, with the winners of one contest, by bounds and by runs."""
    names = CONTESTS[which]

    def part(profile):
        del profile
        for (n, dim, epsilon), methods in risks(0).items():
            predicted, won = winners(methods, names)
            by_bounds, by_runs = (order(methods, names, column) for column in (0, 1))
            yield {
                "label": f"n = {n}, d = {dim}, ε = {epsilon:g}",
                "n": n, "dim": dim, "epsilon": epsilon,
                "difficulty": math.sqrt(dim) / (epsilon / EPSILON_OVER_MU),
                "predicted": TITLES.get(predicted, "tie"),
                "predicted_text": written(methods, by_bounds, 0, predicted),
                "won": TITLES.get(won, "tie"),
                "won_text": written(methods, by_runs, 1, won),
            }  # fmt: skip

    return part


def agreement(profile):
    """How often the bounds name the winner, where both have a clear one."""
    del profile
    for which, names in CONTESTS.items():
        named = [winners(methods, names) for methods in risks(0).values()]
        clear = [predicted == won for predicted, won in named if predicted and won]
        share = binomtest(sum(clear), len(clear)).proportion_ci(0.95) if clear else (0.0, 1.0)
        ends = [(order(m, names, 0)[0], order(m, names, 1)[0], m) for m in risks(0).values()]
        ratios = [m[chosen][1] / m[best][1] for chosen, best, m in ends]
        yield {
            "label": which,
            "contest": ", ".join(TITLES[name] for name in names),
            "places": len(named), "clear": len(clear), "agreeing": sum(clear),
            "share": privopt.Interval(*share), "chance": 1.0 / len(names), "worst": max(ratios),
            "within": float(np.mean([ratio <= 2.0 for ratio in ratios])), "half": 0.5,
        }  # fmt: skip


def second_key(profile):
    """The winners again, from another root key and a quarter of the runs."""
    del profile
    first, second = (risks(seed) for seed in (0, 1))
    for which, names in CONTESTS.items():
        pairs = [(winners(first[at], names)[1], winners(second[at], names)[1]) for at in first]
        both = [one == other for one, other in pairs if one and other]
        yield {"label": which, "clear": len(both), "same": sum(both)}


def crossovers(profile):
    """Where two methods change places along one axis, by bounds and by runs, interpolated."""
    del profile
    found = risks(0)
    along = []
    for dim in DIMS:
        for n in SIZES:
            at = [(n, dim, epsilon) for epsilon in EPSILONS]
            along.append(("buffered", "fresh", "ε", f"n = {n}, d = {dim}", EPSILONS, at))
        for epsilon in EPSILONS:
            at = [(n, dim, epsilon) for n in SIZES]
            along.append(("phased", "amplified", "n", f"d = {dim}, ε = {epsilon:g}", SIZES, at))
    for first, second, axis, where, values, places in along:
        pairs = [(found[at][first], found[at][second]) for at in places]
        bounds = [math.log(one[0] / other[0]) for one, other in pairs]
        means = np.array([math.log(one[1] / other[1]) for one, other in pairs])
        slack = ERRORS * np.array([math.hypot(one[2] / one[1], o[2] / o[1]) for one, o in pairs])
        ends = [root(values, means + sign * slack) for sign in (-1.0, 1.0)]
        yield {
            "label": f"{first} and {second}, {where}",
            "pair": f"{TITLES[first]}; {TITLES[second]}",
            "where": where, "axis": axis, "by_bounds": root(values, bounds),
            "by_runs": None if None in ends else privopt.Interval(min(ends), max(ends)),
        }  # fmt: skip


def root(values, ratios):
    """Where a ratio's logarithm changes sign, linear in that of the axis; ``None`` if nowhere."""
    logs = np.log(values)
    for i, (left, right) in enumerate(pairwise(ratios)):
        if left * right < 0.0:
            return float(np.exp(logs[i] + (logs[i + 1] - logs[i]) * left / (left - right)))
    return None


def winners_map(which, title):
    """The winners by bounds and by runs, side by side."""
    names = tuple(TITLES[name] for name in CONTESTS[which])
    panel = partial(Map, part=which, x="n", y="difficulty", x_label="records n", names=names)
    return Plot(
        f"winners_{which}",
        title,
        panel(title="least bound, and how far the next is", y_label="√d / μ",
              winner="predicted", text="predicted_text"),
        panel(title="least risk, worst pull; ≈: not told apart", y_label="",
              winner="won", text="won_text"),
    )  # fmt: skip


experiment = Study(
    name="who_wins",
    profiles=("full",),
    title="Who wins? DP-FTRL beside SGD with and without amplification, in phases, and DP-GD",
    description=(
        "Excess population risk on linear losses at one guarantee, every method at the numbers of "
        "its theorem, the worst of five pulls. A method has won where its interval, three standard "
        "errors to either side, lies below those of all others. SGD is one pass in order with "
        "fresh noise, and nothing of sampling. Three contests: noises, where every record is a "
        "step of its own; one pass, where all read as many records as there are; and all, where "
        "DP-GD reads them in each of n steps.\n\n"
        "Noise that remembers is for streams that must answer after every record: there it beats "
        "fresh noise once √d/μ is large. A method that may choose its batches, draw them at "
        "random or go in phases has better bounds, and less risk, and one that may read all "
        "records again and again has the least."
    ),
    parts={
        "table": table,
        **{which: contest(which) for which in CONTESTS},
        "agreement": agreement,
        "second_key": second_key,
        "crossovers": crossovers,
    },
    claims=(
        Claim("risk within the bound of the theorem", "table", "risk <= bound"),
        Claim("bounds name the winner more often than chance", "agreement", "chance < share"),
        Claim(
            "the method of the least bound is within twice the least risk in most places",
            "agreement",
            "half < within",
        ),
        Claim("a second root key never names another clear winner", "second_key", "same = clear"),
    ),
    plots=(
        winners_map(
            "single", "Every record a step: which noise wins? (ε, δ)-DP at ε = 5 μ, replace-one"
        ),
        winners_map("one_pass", "One pass: which method wins? (ε, δ)-DP at ε = 5 μ, replace-one"),
        winners_map("all", "As many steps as records: who wins? (ε, δ)-DP at ε = 5 μ, replace-one"),
    ),
    listings=(
        Listing(
            "agreement",
            "Bounds and runs: who wins",
            Column("contest", "{contest}"),
            Column("places", "{places}"),
            Column("with a clear winner", "{clear}"),
            Column("named by the bounds", "{agreeing}"),
            Column("share", "{share:.2f}"),
            Column("its risk over the least, at worst", "{worst:.2g}"),
        ),
        Listing(
            "crossovers",
            "Where two methods change places",
            Column("methods", "{pair}"),
            Column("at", "{where}"),
            Column("axis", "{axis}"),
            Column("by bounds", "{by_bounds:.3g}"),
            Column("by runs", "{by_runs:.1f}"),
        ),
    ),
)
