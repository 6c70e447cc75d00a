"""DP-FTRL with a tree: quantiles of its regret, and the population risk of its average.

Given the noise, the regret is at most ``Lambda R^2/2 + T L^2/(2 Lambda) + (L/Lambda) sum_t |Y_t|``
for every order of losses (:func:`privopt.theory.ftrl_rate`), where ``Y = B Z`` and the rows of
``Z`` are independent Gaussian vectors. As a function of ``Z``, ``sum_t |Y_t|`` has the Lipschitz
constant ``s = |B^T 1|``, because ``B`` has no negative entries. So it exceeds its mean by ``sigma s
sqrt(2 ln 1/beta)`` with probability at most ``beta``. The claims fail with ``sigma/2`` in the
bound.
"""

import math
from functools import cache

import numpy as np
from scipy.stats import binom

import privopt
from privopt.core import Execution
from privopt.lab import (
    Analysis,
    Claim,
    Listing,
    StreamLosses,
    at_most,
    below,
    plotting,
    replicate_keys,
    stream,
)
from privopt.problems import family

DIM, EPSILON, DELTA = 16, 5.0, 1e-6
BUDGET = privopt.Budget(epsilon=EPSILON, delta=DELTA, relation="replace_one")
SIZES = (128, 256, 512, 1024)
RUNS = 1000
BETAS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
FAILURE = 5e-5  # of one end of an interval: below 1e-3 for all of them together
PULL = 0.5  # norm of the mean record, which is also the excess risk of zero
POPULATION_SIZES, POPULATION_RUNS = (125, 250, 500, 1000, 2000, 4000), 100


@cache
def regrets(n):
    """Return the regrets of all runs, sorted, and the plan."""
    problem = family("far_distance").build(n=n, dim=DIM, noise_ratio=1.0, strength=1.0)
    plan = privopt.dp_ftrl(
        problem.problem_class, BUDGET, noise="tree", batch_size=1, quantity="regret"
    )
    keys = replicate_keys(stream(0, n=n), RUNS)
    execution = Execution(observer=StreamLosses())
    played = privopt.run_many([plan], problem, keys, execution=execution).secret.observed
    losses = np.asarray(played.total, np.float64) + np.asarray(played.missing, np.float64)
    return np.sort(losses.ravel() - n * problem.reference.value), plan


def tail(plan, beta):
    """Return the difference of the bounds with probability ``1 - beta`` and on the mean."""
    mechanism, method = plan.params
    noise = mechanism.noise
    decoder = noise.factorisation(mechanism.steps).decoder()
    assert (decoder >= 0.0).all()
    noise_std = mechanism.scale * math.sqrt(noise.variance)
    lipschitz, regularisation = plan.problem_class.lipschitz, 1.0 / method.step_sizes.scale
    norm = float(np.linalg.norm(decoder.sum(axis=0)))
    return lipschitz / regularisation * noise_std * norm * math.sqrt(-2.0 * math.log(beta))


def row(n, beta):
    """Return the ``1 - beta`` quantile of the regret per step, its interval and its bounds."""
    values, plan = regrets(n)
    ranks = (binom.ppf(level, RUNS, 1.0 - beta) for level in (FAILURE, 1.0 - FAILURE))
    low, high = map(int, ranks)
    ends = values[max(0, low - 1)], values[min(RUNS - 1, high)]
    return {
        "label": f"n = {n}, beta = {beta:g}", "n": n, "beta": beta,
        "regret": float(values[math.ceil(RUNS * (1.0 - beta)) - 1]) / n,
        "interval": privopt.Interval(*(float(end) / n for end in ends)),
        "bound": (plan.rate.upper + tail(plan, beta)) / n, "mean_bound": plan.rate.upper / n,
        "start": 1.0,
    }  # fmt: skip


def betas(profile):
    """Return a row for each probability at n = 1,024."""
    del profile
    return (row(1024, beta) for beta in BETAS)


def sizes(profile):
    """Return a row for each n at the smallest beta."""
    del profile
    return (row(n, BETAS[-1]) for n in SIZES)


@cache
def averages(n):
    """Return the population risks of the average of all iterates, and their bound."""
    losses = family("linear_population")
    problem = losses.build(n=n, dim=DIM, noise_ratio=1.0, strength=PULL)
    plan = privopt.dp_ftrl(problem.problem_class, BUDGET, quantity="population risk")
    keys = replicate_keys(stream(0, population=n), POPULATION_RUNS)
    risks = problem.excess_risk(privopt.run_many([plan], problem, keys).released[0])
    return risks, plan.rate.upper


def population(profile):
    """Yield a row for each n, with the risks of the released average and of zero."""
    del profile
    for n in POPULATION_SIZES:
        risks, bound = averages(n)
        mean, error = float(risks.mean()), 4.0 * float(risks.std(ddof=1)) / math.sqrt(len(risks))
        yield {
            "label": f"n = {n}", "n": n, "mean": mean, "zero": PULL, "bound": bound,
            "risk": privopt.Interval(max(0.0, mean - error), mean + error),
        }  # fmt: skip


def large(profile):
    """Return the rows with n of at least 500."""
    return (row for row in population(profile) if row["n"] >= 500)


def tails_figure(frames):
    """Regret per step (quantiles of 1,000 runs) and population risk (mean of 100 runs).

    Bands are joint confidence intervals, and four standard errors for the risk. The quantiles
    change little with the probability 1 - beta: the regret is concentrated around its mean.
    """
    names = "regret, n = 1,024", "regret, beta = 0.01", "risk of the average"
    title = "DP-FTRL in one pass: regret and population risk, ε = 5, δ = 1e-6, replace-one"
    figure, (along_beta, along_n, risk) = plotting.panels(title, *names)
    regret = {"band": "interval", **plotting.method_style("dp_ftrl")}
    mean_bound = {"label": "bound on the mean", "color": plotting.ORANGE, "ls": ":"}
    bound = {"label": "bound with probability 1 - beta", "color": plotting.ORANGE, "ls": "--"}
    start = {"label": "zero", "color": plotting.GREY, "ls": ":"}
    for axes, part, x in ((along_beta, "betas", "beta"), (along_n, "sizes", "n")):
        axes.set(xlabel=x, ylabel="regret per step", xscale="log")
        for column, style in (("mean_bound", mean_bound), ("bound", bound), ("regret", regret)):
            plotting.curve(axes, frames[part], x, column, **style)
    along_n.set_yscale("log")
    plotting.curve(along_n, frames["sizes"], "n", "start", **start)
    risk.set(xlabel="n", ylabel="excess population risk", xscale="log", yscale="log")
    mean = regret | {"band": "risk"}
    for column, style in (("zero", start), ("bound", mean_bound), ("mean", mean)):
        plotting.curve(risk, frames["population"], "n", column, **style)
    return figure


experiment = Analysis(
    name="dp_ftrl_tails",
    title="DP-FTRL with a tree in one pass: quantiles of the regret and population risk",
    description=(
        f"Noise of a binary tree, ε = {EPSILON:g}, δ = 1e-6 under replace-one, d = {DIM}, the "
        "regularisation of the theorem. Regret: distances to a point on the border, one record per "
        f"step; the 1 - beta quantile of {RUNS:,} runs, with intervals that all cover except with "
        "probability 0.001, and a bound that holds with probability 1 - beta for every order of "
        "losses. Population risk: linear losses of a population whose mean record has half the "
        "norm of its records, batches of the size of the theorem, the average of all iterates, 4 "
        "standard errors. The excess risk of zero is 1/2."
    ),
    parts={part.__name__: part for part in (betas, sizes, population, large)},
    claims=(
        Claim("the regret is within the bound for every beta", "betas",
              at_most("interval", "bound")),
        Claim("the regret is within the bound for every n", "sizes", at_most("interval", "bound")),
        Claim("the bound is below the regret of zero", "sizes", below("bound", "start")),
        Claim("the population risk is within the bound", "population", at_most("risk", "bound")),
        Claim("the population risk is below that of zero", "population", below("risk", "zero")),
        Claim("from n = 500 the bound is below the risk of zero", "large", below("bound", "zero")),
    ),
    figures={"dp_ftrl_tails": tails_figure},
    listings=(
        Listing(
            "betas",
            "Regret per step at n = 1,024",
            {"beta": "{beta:g}", "quantile": "{interval:.4f}", "bound": "{bound:.4f}",
             "bound on the mean": "{mean_bound:.4f}"},
            checks={"quantile": at_most("interval", "bound")},
        ),
    ),
    profiles=("full",),
)  # fmt: skip
