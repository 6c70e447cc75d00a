"""DP-FTRL with a tree: its regret with probability 1 - beta, and the risk of its average.

The bound of a tail. Given the noise the regret is at most ``Lambda R^2/2 + T L^2/(2 Lambda) +
(L/Lambda) sum_t |Y_t|`` for every order of losses (:func:`privopt.theory.ftrl_rate`), where ``Y = B
Z`` with rows ``Z_k`` of independent Gaussian numbers. ``sum_t |Y_t|`` changes by at most ``s |Z -
Z'|``, ``s = |B^T 1|`` as B has no negative entries, so it exceeds its mean by ``sigma s sqrt(2 ln
1/beta)`` with probability ``beta`` at most. What goes red: half of ``sigma`` in the bound.
"""

import math
from functools import cache

import numpy as np
from scipy.stats import binom

import privopt
from privopt.core import Execution
from privopt.lab import (
    Claim,
    Column,
    Line,
    Listing,
    Panel,
    Plot,
    StreamLosses,
    Study,
    replicate_keys,
    stream,
)
from privopt.problems import family, linear

DIM, EPSILON, DELTA = 16, 5.0, 1e-6
BUDGET = privopt.Budget(epsilon=EPSILON, delta=DELTA, relation="replace_one")
SIZES = (128, 256, 512, 1024)
RUNS = 1000
BETAS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
FAILURE = 5e-5  # of one end of an interval: below 1e-3 for all of them together
PULL = 0.5  # of the population's mean record, and so the excess risk of zero
POPULATION_SIZES, POPULATION_RUNS = (125, 250, 500, 1000, 2000, 4000), 100


@cache
def regrets(n):
    """The regret of every run, sorted, and the plan."""
    problem = family("far_distance").build(n=n, dim=DIM, noise_ratio=1.0, strength=1.0)
    plan = privopt.dp_ftrl(
        problem.problem_class, BUDGET, noise="tree", batch_size=1, quantity="regret"
    )
    keys = replicate_keys(stream(0, n=n), RUNS)
    execution = Execution(observer=StreamLosses())
    played = privopt.run_many([plan], problem, keys, execution=execution).secret.observed
    lost = np.asarray(played.total, np.float64) + np.asarray(played.missing, np.float64)
    return np.sort(lost.ravel() - n * problem.reference.value), plan


def tail(plan, beta):
    """What is added to the mean's bound for it to hold with probability ``1 - beta``."""
    mechanism, method = plan.params
    noise = mechanism.noise
    decoder = noise.factorisation(mechanism.steps).decoder()
    assert (decoder >= 0.0).all()
    spread = mechanism.scale * math.sqrt(noise.variance)
    steepest, regularisation = plan.problem_class.lipschitz, 1.0 / method.step_sizes.scale
    moved = float(np.linalg.norm(decoder.sum(axis=0)))
    return steepest / regularisation * spread * moved * math.sqrt(-2.0 * math.log(beta))


def quantile(found, beta):
    """An interval of the ``1 - beta`` quantile, by order statistics; and the one in the sample."""
    low = int(binom.ppf(FAILURE, RUNS, 1.0 - beta))
    high = int(binom.ppf(1.0 - FAILURE, RUNS, 1.0 - beta))
    middle = math.ceil(RUNS * (1.0 - beta)) - 1
    ends = found[max(0, low - 1)], found[min(RUNS - 1, high)]
    return float(found[middle]), privopt.Interval(*map(float, ends))


def row(n, beta):
    """One size at one probability, a round."""
    found, plan = regrets(n)
    middle, interval = quantile(found, beta)
    bound = plan.rate.upper + tail(plan, beta)
    return {
        "label": f"n = {n}, beta = {beta:g}", "n": n, "beta": beta,
        "regret": middle / n,
        "interval": privopt.Interval(interval.lower / n, interval.upper / n),
        "bound": bound / n, "mean_bound": plan.rate.upper / n, "start": 1.0,
    }  # fmt: skip


def betas(profile):
    """Along the probability, at one size."""
    del profile
    return (row(1024, beta) for beta in BETAS)


def sizes(profile):
    """Along the size, for one time in a hundred."""
    del profile
    return (row(n, BETAS[-1]) for n in SIZES)


@cache
def learnt(n):
    """Population risks of the average of all iterates, and the bound."""
    problem = linear(
        np.stack([np.eye(DIM)[0], -np.eye(DIM)[0]]),
        problem_class=privopt.ProblemClass(n=n, dim=DIM, lipschitz=1.0, radius=1.0, smoothness=0.0),
        probabilities=np.array([1.0 + PULL, 1.0 - PULL]) / 2.0,
        minimiser=np.eye(DIM)[0],
        name="linear_population",
    )
    plan = privopt.dp_ftrl(problem.problem_class, BUDGET)
    keys = replicate_keys(stream(0, population=n), POPULATION_RUNS)
    risks = problem.excess_risk(privopt.run_many([plan], problem, keys).released[0])
    return risks, plan.rate.upper


def population(profile):
    """One row a size: the risk of what one pass releases, beside zero's."""
    del profile
    for n in POPULATION_SIZES:
        risks, bound = learnt(n)
        mean, error = float(risks.mean()), 4.0 * float(risks.std(ddof=1)) / math.sqrt(len(risks))
        yield {
            "label": f"n = {n}", "n": n, "mean": mean, "zero": PULL, "bound": bound,
            "risk": privopt.Interval(max(0.0, mean - error), mean + error),
        }  # fmt: skip


def large(profile):
    """Of these the sizes from 500 on."""
    return (row for row in population(profile) if row["n"] >= 500)


BOUND = Line("bound", "bound, probability 1 - beta", "orange", "dashes")
MEAN = Line("mean_bound", "bound of the mean", "orange", "dots")
START = Line("start", "never moving", "grey", "dots")
REGRET = Line("regret", "measured quantile", "blue", band="interval")

experiment = Study(
    name="dp_ftrl_tails",
    title="How bad is an unlucky pass of DP-FTRL? Little worse than the mean",
    description=(
        f"Noise of a binary tree, ε = {EPSILON:g}, δ = 1e-6 under replace-one, d = {DIM}, one "
        "pass, the theorem's regularisation, nothing tuned. Regret is over distances to a "
        "point at the border, a record a step: what is drawn is the 1 - beta quantile of "
        f"{RUNS:,} runs, by intervals that all hold together but for one time in a thousand, "
        "beside a bound that holds with probability 1 - beta for every order of losses. From "
        "online to batch: linear losses of a population whose mean record is half as long as its "
        "records; the average of all iterates, batches of the theorem's size, four standard errors "
        "to either side. There zero has an excess risk of 1/2, and one pass is below it."
    ),
    parts={part.__name__: part for part in (betas, sizes, population, large)},
    claims=(
        Claim("regret within the bound, along beta", "betas", "interval <= bound"),
        Claim("regret within the bound, along n", "sizes", "interval <= bound"),
        Claim("the bound says more than never moving", "sizes", "bound < start"),
        Claim("population risk within the bound", "population", "risk <= bound"),
        Claim("one pass is below zero's risk", "population", "risk < zero"),
        Claim("from n = 500 the bound is below it too", "large", "bound < zero"),
    ),
    plots=(
        Plot(
            "dp_ftrl_tails",
            "One pass of DP-FTRL at ε = 5, δ = 1e-6, replace-one",
            Panel(
                part="betas", title="regret, n = 1,024", x="beta", x_label="beta",
                y_label="regret a step", log="x", lines=(MEAN, BOUND, REGRET),
            ),
            Panel(
                part="sizes", title="regret, beta = 0.01", x="n", x_label="n",
                y_label="regret a step", log="xy", lines=(START, MEAN, BOUND, REGRET),
            ),
            Panel(
                part="population", title="risk of the average", x="n", x_label="n",
                y_label="excess population risk", log="xy",
                lines=(
                    Line("zero", "zero", "green", "dashes"),
                    Line("bound", "bound of the mean", "orange", "dots"),
                    Line("mean", "measured mean", "purple", band="risk"),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "betas",
            "Regret a step at n = 1,024",
            Column("beta", "{beta:g}"),
            Column("quantile", "{interval:.4f}", "interval <= bound"),
            Column("bound", "{bound:.4f}"),
            Column("bound of the mean", "{mean_bound:.4f}"),
        ),
    ),
    profiles=("full",),
)  # fmt: skip
