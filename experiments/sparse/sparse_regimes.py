"""Regimes of the projection mechanism on means of sparse records, predicted and measured.

With few records the error is constant. With many it is that of the noise (dense). In between it is
that of the noise on the nonzeros (sparse). The n at which a regime ends follows from the bounds.

The risk is the largest over five sets of records: blocks of identical records of four sizes, and
identical records. Noise is Gaussian at (epsilon, delta) or Laplace at epsilon; the n are a factor
of four apart. The zero predictor, which uses no data, is evaluated too.
"""

import itertools
import math
from functools import cache, partial

import numpy as np
from scipy.stats import binomtest

import privopt
from privopt import lab, theory
from privopt.lab import Claim, Listing, at_most, below, close, plotting
from privopt.problems import family

SIZES = tuple(2**k for k in range(1, 22, 2))
DIMS = (256, 2048, 8192)
SPARSITY, EPSILON, DELTA = 4, 1.0, 1e-6
STRENGTHS = (1.0, 2.0, 4.0, 8.0)
RUNS = 24
ERRORS = 4.0  # standard errors on either side
RESAMPLES = 400
MU = privopt.privacy.gaussian_mu(EPSILON, DELTA)
REGIMES = {"constant": plotting.GREY, "sparse": plotting.ORANGE, "dense": plotting.BLUE}
HARD = {"gaussian": "sparse_copies", "laplace": "sparse_packing"}


def setting(noise, dim, n):
    """Return the setting of a law."""
    problem_class = privopt.ProblemClass(
        n=n, dim=dim, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0,
        sparsity=min(SPARSITY, dim),
    )  # fmt: skip
    delta = DELTA if noise == "gaussian" else 0.0
    budget = privopt.Budget(epsilon=EPSILON, delta=delta, relation="replace_one")
    return theory.LawSetting(problem_class=problem_class, budget=budget, mu=MU)


def rate(noise, dim, n, name="projection_mechanism"):
    """Return the bound of a mechanism, with constants."""
    law = theory.SPARSE_LAWS[name if noise == "gaussian" else f"pure_{name}"]
    return law(setting(noise, dim, n))


def lower_bounds(noise, dim, n):
    """Return the lower bounds for the budget and, for Gaussian noise, for Gaussian privacy."""
    here = setting(noise, dim, n)
    advantages = {"lower": theory.ApproximateAdvantage(here.budget)}
    if noise == "gaussian":
        advantages["lower_gaussian"] = theory.GaussianAdvantage(MU, here.budget.relation)
    return {
        name: theory.lower_bound(here.problem_class, each).value
        for name, each in advantages.items()
    }


def problems(noise, dim, n):
    """Yield identical records, and blocks of every size for which there are enough records."""
    ratio = math.sqrt(dim) / (n * MU) if noise == "gaussian" else dim / (n * EPSILON)
    sizes = {"n": n, "dim": dim, "sparsity": SPARSITY, "noise_ratio": ratio}
    yield family("sparse_same_record").build(**sizes, strength=1.0)
    for strength in STRENGTHS:
        try:
            yield family(HARD[noise]).build(**sizes, strength=strength)
        except ValueError:  # a block has more than n records
            return


def errors(noise, dim, n, body, problem, keys):
    """Return the excess risks of all runs, and at the end that of the zero predictor."""
    here = setting(noise, dim, n)
    plan = privopt.ALGORITHMS["projection_mechanism"].plan(
        here.problem_class, here.budget, body=body, noise=noise
    )
    points = np.asarray(privopt.run_many([plan], problem, keys).released[0])
    return np.asarray(problem.excess_risk(np.concatenate([points, np.zeros_like(points[:1])])))


@cache
def measured(noise, dim):
    """Return ``{n: (risks, zero, problem)}`` of the projection mechanism on the worst records."""
    result = {}
    for n in SIZES:
        keys = lab.replicate_keys(lab.stream(0, noise=noise, dim=dim, n=n), RUNS)
        risks, problem = max(
            (
                (errors(noise, dim, n, "l1_l2", problem, keys), problem)
                for problem in problems(noise, dim, n)
            ),
            key=lambda each: each[0][:-1].mean(),
        )
        result[n] = risks[:-1], float(risks[-1]), problem
    return result


def interval(runs):
    """Return the mean plus or minus four standard errors."""
    error = ERRORS * runs.std(ddof=1) / math.sqrt(runs.size)
    return privopt.Interval(runs.mean() - error, runs.mean() + error)


def table(_):
    """Yield a row for every noise, dimension and n: the risk and its bounds."""
    for noise, dim in itertools.product(HARD, DIMS):
        for n, (runs, zero, _) in measured(noise, dim).items():
            risk, bound = interval(runs), rate(noise, dim, n)
            yield {
                "label": f"{noise}, d = {dim}, n = {n}", "noise": noise, "dim": dim, "n": n,
                "risk": risk, "least": risk.lower, "most": risk.upper, "bound": bound.upper,
                **lower_bounds(noise, dim, n), "zero": zero, "regime": bound.leading.name,
            }  # fmt: skip


def curves(noise, _):
    """Yield the rows at the largest dimension, with two mechanisms that ignore the sparsity."""
    dim = DIMS[-1]
    for n, (runs, zero, problem) in measured(noise, dim).items():
        keys = lab.replicate_keys(lab.stream(0, noise=noise, dim=dim, n=n, body="l2"), RUNS)
        yield {
            "label": f"n = {n}", "n": n,
            "mean": float(runs.mean()), "most": interval(runs).upper, "risk": interval(runs),
            "ball": float(errors(noise, dim, n, "l2", problem, keys)[:-1].mean()),
            "noisy": rate(noise, dim, n, "noisy_mean").upper, "zero": zero,
            "bound": rate(noise, dim, n).upper, **lower_bounds(noise, dim, n),
        }  # fmt: skip


def regime(low, high, left, right):
    """Return the regime of the slope between two n; the slopes are 0, -1 and -2."""
    slope = math.log(right / left) / math.log(high / low)
    return tuple(REGIMES)[(slope < -0.5) + (slope < -1.5)]


def regimes(noise, _):
    """Yield the regimes of the bound and of the runs between neighbouring n."""
    for dim in DIMS:
        for low, high in itertools.pairwise(SIZES):
            ends = low, high
            predicted = regime(*ends, *(rate(noise, dim, n).upper for n in ends))
            observed = regime(*ends, *(measured(noise, dim)[n][0].mean() for n in ends))
            row = {
                "label": f"d = {dim}, n = {low} to {high}", "dim": dim, "n": math.sqrt(low * high),
                "predicted": predicted, "measured": observed,
            }  # fmt: skip
            for name in REGIMES:
                row[f"{name}_predicted"] = float(dim) if name == predicted else None
                row[f"{name}_measured"] = float(dim) if name == observed else None
            yield row


def agreement(profile):
    """Yield the number of places at which the bound and the runs have the same regime."""
    for noise in HARD:
        same = [row["predicted"] == row["measured"] for row in regimes(noise, profile)]
        share = privopt.Interval(*binomtest(sum(same), len(same)).proportion_ci(0.99))
        yield {
            "label": noise, "places": len(same), "agreeing": sum(same), "share": share,
            "chance": 1.0 / len(REGIMES),
        }  # fmt: skip


def closed_form(noise, dim):
    """Return the n at which the sparse and the dense term of the bound are equal."""
    if noise == "gaussian":
        return math.sqrt(2.0) * dim / (MU * math.sqrt(SPARSITY * math.log(2.0 * dim)))
    return 4.0 * dim / (EPSILON * sum(1.0 / j for j in range(1, dim + 1)))


def crossing(values, end):
    """Return the n at which the lines fitted far below and far above ``end`` cross, in logs."""
    sizes = np.array(list(values))
    logs = np.log(np.array(list(values.values())))
    low, high = (sizes >= 64) & (sizes <= end / 2.0), sizes >= 4.0 * end
    if low.sum() < 2 or high.sum() < 2:
        return None
    (slope, start), (dense_slope, dense_start) = (
        np.polyfit(np.log(sizes[mask]), logs[mask], 1) for mask in (low, high)
    )
    return float(np.exp((start - dense_start) / (dense_slope - slope)))


def knees(_):
    """Yield the n at which the sparse regime ends: closed form, from the bound, from the runs."""
    for noise, dim in itertools.product(HARD, DIMS):
        end, samples = closed_form(noise, dim), measured(noise, dim)
        by_bound = crossing({n: rate(noise, dim, n).upper for n in SIZES}, end)
        if by_bound is None:
            continue
        rng = np.random.default_rng(dim)
        resampled = [
            crossing({n: rng.choice(runs, RUNS).mean() for n, (runs, *_) in samples.items()}, end)
            for _ in range(RESAMPLES)
        ]
        low, high = np.quantile(resampled, [0.005, 0.995])
        yield {
            "label": f"{noise}, d = {dim}", "noise": noise, "dim": dim, "printed": end,
            "by_bound": by_bound, "by_runs": privopt.Interval(low, high),
            "octave_bound": math.log2(by_bound),
            "octave_runs": privopt.Interval(math.log2(low), math.log2(high)),
        }  # fmt: skip


def risk_figure(noise):
    def draw(frames):
        """Mean excess risk of 24 runs on the worst of five sets of records; band 4 standard errors.

        The projection mechanism is between its upper bound and the lower bounds, and far below the
        noisy mean up to n = 2,048. In the sparse regime the zero predictor is about as good.
        """
        title = f"Projection mechanism on sparse means: excess risk against n, d = {DIMS[-1]:,}"
        figure, (axes,) = plotting.panels(title, f"{noise.capitalize()} noise")
        axes.set(xlabel="n", ylabel="excess risk", xscale="log", yscale="log")
        method = plotting.method_style("projection_mechanism")
        budget = "(ε, δ)-DP" if noise == "gaussian" else "ε-DP"
        for name, label, color, ls in (
            ("lower", f"lower bound, {budget}", plotting.GREY, "--"),
            ("lower_gaussian", "lower bound, μ-Gaussian DP", plotting.PURPLE, "--"),
            ("zero", "zero predictor", plotting.GREY, ":"),
            ("bound", "upper bound", method["color"], "--"),
            ("noisy", "noisy mean", plotting.ORANGE, "--"),
            ("ball", "projection onto the l2 ball", plotting.ORANGE, "-"),
        ):
            if noise == "gaussian" or name != "lower_gaussian":
                style = {"label": label, "color": color, "ls": ls}
                plotting.curve(axes, frames[noise], "n", name, **style)
        plotting.curve(axes, frames[noise], "n", "mean", band="risk", **method)
        return figure

    return draw


def regime_figure(noise):
    def draw(frames):
        """Regime at each n and d: slope in n closest to 0 (constant), -1 (sparse) or -2 (dense).

        The mean risk of 24 runs changes its regime at the same n as the bound or one step later.
        """
        title = f"Projection mechanism on sparse means, {noise.capitalize()} noise: regimes"
        figure, places = plotting.panels(title, "slope of the bound", "slope of the risk")
        for kind, axes in zip(("predicted", "measured"), places, strict=True):
            axes.set(xlabel="n", ylabel="d", xscale="log", yscale="log")
            axes.set_yticks(DIMS, [f"{dim:,}" for dim in DIMS])
            axes.set_yticks([], minor=True)
            for name, color in REGIMES.items():
                style = {"label": name, "color": color, "marker": "o"}
                plotting.curve(axes, frames[f"{noise}_regimes"], "n", f"{name}_{kind}", **style)
        return figure

    return draw


experiment = lab.Analysis(
    name="sparse_regimes",
    profiles=("full",),
    title="Projection mechanism on sparse means: regimes of the excess risk in n and d",
    description=(
        "Half the squared error of the projection mechanism on the worst of five sets of records, "
        "against n and d, with its upper bound and two lower bounds: for all algorithms within the "
        "budget and, for Gaussian noise, for the stronger guarantee of Gaussian privacy. The upper "
        "bound is one formula in all regimes. The slope determines the regime of the bound and of "
        "the runs. The sparse regime ends where the fitted lines of the sparse and of the dense "
        "sizes cross. Intervals are four standard errors to either side.\n\n"
        "In the sparse regime the slopes in n of bound and risk are steeper than -1 by about the "
        "inverse of a logarithm: only noise above a level counts, and this level decreases with n. "
        "On the worst records the zero predictor is about as good in this regime."
    ),
    parts={
        "table": table,
        **{noise: partial(curves, noise) for noise in HARD},
        **{f"{noise}_regimes": partial(regimes, noise) for noise in HARD},
        "agreement": agreement, "knees": knees,
    },
    claims=(
        Claim("the risk is at most the upper bound", "table", at_most("least", "bound")),
        Claim("the risk is at least its lower bound", "table", at_most("lower", "most")),
        Claim(
            "Gaussian noise: the risk is at least the lower bound for Gaussian privacy",
            "gaussian",
            at_most("lower_gaussian", "most"),
        ),
        Claim("the bound predicts the regime", "agreement", below("chance", "share")),
        Claim(
            "the sparse regime of the runs ends within a factor of two of the bound's",
            "knees",
            close("octave_runs", "octave_bound", 1.0),
        ),
    ),
    figures={f"risk_{noise}": risk_figure(noise) for noise in HARD}
    | {f"regimes_{noise}": regime_figure(noise) for noise in HARD},
    listings=(
        Listing(
            "knees",
            "Largest n of the sparse regime",
            {
                "noise": "{noise}", "d": "{dim}", "closed form": "{printed:,.0f}",
                "from the bound": "{by_bound:,.0f}", "from the runs": "{by_runs:.0f}",
            },
        ),
        Listing(
            "agreement",
            "Pairs of n at which the bound and the runs have the same regime",
            {
                "noise": "{label}", "pairs": "{places}", "same regime": "{agreeing}",
                "share": "{share:.2f}",
            },
        ),
    ),
)  # fmt: skip
