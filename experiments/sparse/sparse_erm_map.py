"""Regimes of empirical risk minimisation with sparse gradients in n, d and s.

Linear losses of sparse records on the unit ball. With few records no method is better than the zero
predictor (constant). With many the excess risk is that of DP-GD, of order 1/n (dense). In between
it is of order n^-1/2 (sparse). The bound of a setting is the least of ``L R``, of the bound of
l-infinity output perturbation and of the bound of DP-GD.

The measured risk of a method is the largest over blocks of identical records of five sizes. The
risk of a setting is the least over the methods.
"""

import itertools
import math
from functools import cache, partial

import numpy as np
from scipy.stats import binomtest

import privopt
from privopt.lab import Analysis, Claim, Listing, at_most, below, plotting, replicate_keys, stream
from privopt.problems import family

SIZES = tuple(4**k for k in range(1, 9))
DIMS = (2**8, 2**11, 2**14)
SPARSITIES = (1, 4, 16)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
MU = privopt.privacy.gaussian_mu(BUDGET.epsilon, BUDGET.delta)
STRENGTHS = (1.0, 2.0, 4.0, 8.0)
RUNS, ERRORS = 24, 4.0  # standard errors on either side
LONG = 2.0**14  # a step that ends on the sphere, in the direction of the noisy gradient
REGIMES = {"constant": plotting.GREY, "sparse": plotting.ORANGE, "dense": plotting.BLUE}
METHODS = {
    "plain": ("dp_gd", {"steps": 1, "step_size": LONG, "output": "last"}),
    "projected": ("dp_gd", {"steps": 1, "step_size": LONG, "output": "last", "post": "sparse"}),
    "linf": ("linf_output_perturbation", {"projection": "ball"}),
}
NAMES = {
    "plain": "DP-GD, one step",
    "projected": "DP-GD, one projected step",
    "linf": "l-infinity output perturbation",
}


def problems(n, dim, sparsity):
    """Yield blocks of every size for which there are enough records, and four blocks."""
    four = 0.249 * n * MU / math.sqrt(sparsity)
    for strength in (*(each for each in STRENGTHS if each < four), four):
        try:
            yield family("sparse_linear").build(
                n=n, dim=dim, sparsity=sparsity, noise_ratio=math.sqrt(dim) / (n * MU),
                strength=strength,
            )  # fmt: skip
        except ValueError:  # a block has more than n records
            continue


@cache
def measured(n, dim, sparsity):
    """Return, for each method and the zero predictor, the runs with the largest mean risk."""
    worst = {}
    for number, where in enumerate(problems(n, dim, sparsity)):
        zero = np.asarray(where.excess_risk(np.zeros((1, dim))))
        samples = {"zero": np.repeat(zero, 2)}
        for name, (algorithm, options) in METHODS.items():
            plan = privopt.ALGORITHMS[algorithm].plan(where.problem_class, BUDGET, **options)
            place = f"{n} {dim} {sparsity} {number}"
            keys = replicate_keys(stream(0, experiment="sparse_erm_map", place=place), RUNS)
            points = privopt.run_many([plan], where, keys).released[0]
            samples[name] = np.asarray(where.excess_risk(points))
        for name, values in samples.items():
            worst[name] = max(worst.get(name, values), values, key=np.mean)
    return worst


@cache
def bounds(n, dim, sparsity):
    """Return the bounds of the centre and of both theorems, with constants."""
    problem_class = privopt.ProblemClass(
        n=n, dim=dim, lipschitz=1.0, radius=1.0, smoothness=0.0, sparsity=sparsity
    )
    plans = {
        "linf": privopt.linf_output_perturbation(problem_class, BUDGET, projection="ball"),
        "plain": privopt.dp_gd(problem_class, BUDGET),
    }
    return {"zero": 1.0} | {name: plan.rate.upper for name, plan in plans.items()}


def interval(values):
    """Return the mean plus or minus four standard errors."""
    error = ERRORS * float(values.std(ddof=1)) / math.sqrt(values.size)
    return privopt.Interval(max(0.0, float(values.mean()) - error), float(values.mean()) + error)


def row(n, dim, sparsity):
    """Return the risks and the bounds of a setting."""
    samples, proved = measured(n, dim, sparsity), bounds(n, dim, sparsity)
    best = min(samples, key=lambda name: samples[name].mean())
    return {
        "label": f"s = {sparsity}, d = {dim:,}, n = {n:,}",
        "n": n, "dim": dim, "sparsity": sparsity, "best": best, "risk": interval(samples[best]),
        "least": interval(samples[best]).lower, "bound": min(proved.values()),
        "linf_risk": interval(samples["linf"]).lower, "linf_bound": proved["linf"],
        "dense_bound": proved["plain"],
    } | {name: float(values.mean()) for name, values in samples.items()}  # fmt: skip


def table(profile):
    """Yield the rows of all settings."""
    return (row(n, d, s) for s, d, n in itertools.product(SPARSITIES, DIMS, SIZES))


def curves(sparsity, profile):
    """Yield the rows of the largest dimension."""
    return (row(n, DIMS[-1], sparsity) for n in SIZES)


def regime(low, high, left, right):
    """Return the regime of the slope between two n; the slopes are 0, -1/2 and -1."""
    slope = math.log(right / left) / math.log(high / low)
    return tuple(REGIMES)[(slope < -0.25) + (slope < -0.75)]


def regimes(sparsity, profile):
    """Yield the regimes of the least bound and of the least risk between neighbouring n."""
    for dim in DIMS:
        for low, high in itertools.pairwise(SIZES):
            ends = [(n, dim, sparsity) for n in (low, high)]
            predicted = regime(low, high, *(min(bounds(*each).values()) for each in ends))
            risks = (min(runs.mean() for runs in measured(*each).values()) for each in ends)
            observed = regime(low, high, *risks)
            result = {
                "label": f"d = {dim:,}, n = {low:,} to {high:,}", "dim": dim,
                "n": math.sqrt(low * high), "predicted": predicted, "measured": observed,
            }  # fmt: skip
            for name in REGIMES:
                result[f"{name}_predicted"] = float(dim) if name == predicted else None
                result[f"{name}_measured"] = float(dim) if name == observed else None
            yield result


def agreement(profile):
    """Yield the number of places with equal regimes, and the largest step between them."""
    order = tuple(REGIMES)
    for sparsity in SPARSITIES:
        rows = list(regimes(sparsity, profile))
        steps = [order.index(each["measured"]) - order.index(each["predicted"]) for each in rows]
        same = steps.count(0)
        yield {
            "label": f"s = {sparsity}", "places": len(steps), "agreeing": same,
            "share": privopt.Interval(*binomtest(same, len(steps)).proportion_ci(0.99)),
            "chance": 1.0 / len(REGIMES), "largest": float(np.abs(steps).max()), "one": 1.0,
        }  # fmt: skip


def risks_figure(frames):
    """Largest mean excess risk over five sizes of blocks, 24 runs, (1, 1e-6)-DP, d = 16,384.

    Dashed lines are the bounds of the two theorems.
    """
    names = [f"s = {sparsity}" for sparsity in SPARSITIES]
    title = "Linear losses of sparse records: excess risk against n"
    figure, panels = plotting.panels(title, *names, columns=3)
    blue, orange = plotting.BLUE, plotting.ORANGE
    for sparsity, axes in zip(SPARSITIES, panels, strict=True):
        axes.set(xlabel="n", ylabel="excess risk", xscale="log", yscale="log")
        for name, label, color, ls in (
            ("zero", "zero predictor", plotting.GREY, ":"),
            ("plain", NAMES["plain"], blue, "-"),
            ("projected", NAMES["projected"], plotting.GREEN, "-"),
            ("linf", NAMES["linf"], orange, "-"),
            ("linf_bound", "its bound", orange, "--"),
            ("dense_bound", "bound of DP-GD", blue, "--"),
        ):
            style = {"label": label, "color": color, "ls": ls}
            plotting.curve(axes, frames[f"curves_{sparsity}"], "n", name, **style)
    return figure


def regimes_figure(frames):
    """Regime at each n, d and s: slope closest to 0 (constant), -1/2 (sparse) or -1 (dense)."""
    kinds = {"predicted": "slope of the bound", "measured": "slope of the risk"}
    names = [f"s = {s}, {kind}" for s in SPARSITIES for kind in kinds.values()]
    title = "Linear losses of sparse records: regimes in n, d and s"
    figure, panels = plotting.panels(title, *names, columns=2)
    for (sparsity, kind), axes in zip(itertools.product(SPARSITIES, kinds), panels, strict=True):
        axes.set(xlabel="n", ylabel="d", xscale="log", yscale="log")
        axes.set_yticks(DIMS, [f"{dim:,}" for dim in DIMS])
        axes.set_yticks([], minor=True)
        for name, color in REGIMES.items():
            style = {"label": name, "color": color, "marker": "o"}
            plotting.curve(axes, frames[f"regimes_{sparsity}"], "n", f"{name}_{kind}", **style)
    return figure


experiment = Analysis(
    name="sparse_erm_map",
    profiles=("full",),
    title="Linear losses of sparse records: regimes of the excess risk in n, d and s",
    description=(
        "Excess empirical risk of linear losses on the unit ball, (1, 1e-6)-DP under replace-one, "
        "with records of s nonzeros in blocks of five sizes. The risk of a method is the largest "
        "over the sizes, and the risk of a setting the least over the zero predictor, a long step "
        "of DP-GD with and without projection of the gradient, and l-infinity output perturbation "
        "at the λ of its theorem. The bound of a setting is the least of L R and of the bounds of "
        "DP-GD and l-infinity output perturbation. The slope in n between neighbouring settings "
        "determines the regime. Projection of the gradient helps in the sparse regime only, and "
        "one step of DP-GD with it has less risk than l-infinity output perturbation."
    ),
    parts={
        "table": table,
        **{f"curves_{sparsity}": partial(curves, sparsity) for sparsity in SPARSITIES},
        **{f"regimes_{sparsity}": partial(regimes, sparsity) for sparsity in SPARSITIES},
        "agreement": agreement,
    },
    claims=(
        Claim("the least risk is at most the least bound", "table", at_most("least", "bound")),
        Claim(
            "the risk of l-infinity output perturbation is at most its bound",
            "table",
            at_most("linf_risk", "linf_bound"),
        ),
        Claim("the bound predicts the regime", "agreement", below("chance", "share")),
        Claim("regimes differ by one step at most", "agreement", at_most("largest", "one")),
    ),
    figures={"risks": risks_figure, "regimes": regimes_figure},
    listings=(
        Listing(
            "agreement",
            "Pairs of n at which the bound and the runs have the same regime",
            {"": "{label}", "pairs": "{places}", "same regime": "{agreeing}"}
            | {"share": "{share:.2f}"},
        ),
        Listing(
            "curves_4",
            "Largest mean excess risks, and bounds",
            {"": "{label}", "zero": "{zero:.2g}"}
            | {NAMES[name]: f"{{{name}:.2g}}" for name in METHODS}
            | {"its bound": "{linf_bound:.2g}", "bound of DP-GD": "{dense_bound:.2g}"},
        ),
    ),
)
