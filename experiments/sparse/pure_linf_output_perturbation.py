"""Pure output perturbation of sparse Huber regression: published and proved noise.

A row contains four words of a vocabulary of 200, drawn by Zipf's law. The coefficients of the words
decrease in the same way. ``L = H = D = 1``: rows have norm 1, the Huber width is 1, and the
coefficients have norm less than 1.
"""

import math
from functools import cache

import numpy as np
import scipy.sparse

import privopt
from privopt import lab, theory
from privopt.convex import SparseFeatures
from privopt.lab import Claim, Listing, at_most, below, close, plotting
from privopt.problems import huber

DIM, SPARSITY, DISTANCE = 200, 4, 1.0
SIZES = (2000, 4000, 8000, 16_000, 32_000)
FAR, WIDE = (1e13, 1e14), 10**9  # records and dimension at which the exponents are near their limit
RUNS = 1000
ERRORS = 3.0  # standard errors on either side
BUDGET = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")
METHODS = {"published": {"mode": "paper"}, "proved": {}, "predictions": {"glm": True}}
TITLES = {
    "published": "published",
    "proved": "proved, any loss",
    "predictions": "proved, linear predictions",
}


def class_of(n, dim=DIM):
    """Return the problem class."""
    return privopt.ProblemClass(
        n=n, dim=dim, lipschitz=1.0, radius=math.inf, smoothness=1.0, sparsity=SPARSITY
    )


@cache
def records():
    """Return positions, values and labels."""
    rng = np.random.default_rng(20)
    n, weights = SIZES[-1], 1.0 / np.arange(1, DIM + 1)
    ranks = np.log(weights) + rng.gumbel(size=(n, DIM))
    positions = np.sort(np.argpartition(-ranks, SPARSITY, axis=1)[:, :SPARSITY], axis=1)
    values = rng.choice([-1.0, 1.0], size=(n, SPARSITY)) / math.sqrt(SPARSITY)
    coefficients = 0.7 * weights / np.linalg.norm(weights)
    labels = np.sum(values * coefficients[positions], axis=1) + rng.laplace(scale=0.05, size=n)
    return positions, values, labels


@cache
def problem(n=None):
    """Return the problem of all records, or of the first ``n`` in arrays of the same shape."""
    if n is not None:
        return problem().first(n)
    positions, values, labels = records()
    rows = SparseFeatures(positions, values, DIM)
    return huber(rows, labels, width=1.0, problem_class=class_of(len(labels)))


@cache
def optimum(n):
    """Return the smallest risk by Newton's method, the norm of the minimiser, and an error bound.

    The bound is the norm of the gradient times the largest distance of two feasible points.
    """
    positions, values, labels = (each[:n] for each in records())
    place = np.repeat(np.arange(n), SPARSITY), positions.ravel()
    rows = scipy.sparse.csr_array((values.ravel(), place), shape=(n, DIM))

    def gradient(point):
        return rows.T @ np.clip(rows @ point - labels, -1.0, 1.0) / n

    point = np.zeros(DIM)
    for _ in range(12):
        near = rows[np.abs(rows @ point - labels) < 1.0]
        hessian = (near.T @ near).toarray() / n
        point = point - np.linalg.lstsq(hessian, gradient(point), rcond=1e-12)[0]
    gap = 2.0 * DISTANCE * float(np.linalg.norm(gradient(point)))
    return problem(n).risk(point), float(np.linalg.norm(point)), gap


@cache
def measured(name, n):
    """Return the plan of a method, its excess risks, their mean and the standard errors."""
    plan = privopt.linf_output_perturbation(class_of(n), BUDGET, distance=DISTANCE, **METHODS[name])
    keys = lab.replicate_keys(lab.stream(0, method=name, n=n), RUNS)
    points = privopt.run_many([plan], problem(n), keys).released[0]
    excess = problem(n).risk(np.asarray(points)) - optimum(n)[0]
    error = ERRORS * float(excess.std(ddof=1)) / math.sqrt(len(excess))
    return plan, excess, float(excess.mean()), error


def risks(_):
    """Yield a row for every n and method."""
    for n in SIZES:
        smallest, length, gap = optimum(n)
        for name, title in TITLES.items():
            plan, _, mean, error = measured(name, n)
            error += gap
            yield {
                "label": f"{title}, n = {n}", "n": n, "method": title, "mean": mean,
                "risk": privopt.Interval(mean - error, mean + error),
                "bound": plan.rate.upper,
                "scale": float(plan.params.mechanism.scale),
                "regularisation": float(plan.params.mechanism.query.minimiser.regularisation),
                "start": problem(n).risk(np.zeros(DIM)) - smallest,
                "length": length, "distance": DISTANCE, "gap": gap,
            }  # fmt: skip


def curves(_):
    """Yield a row for every n, with mean and bound of every method."""
    for n in SIZES:
        row = {"label": f"n = {n}", "n": n}
        for name in METHODS:
            plan, _, mean, _ = measured(name, n)
            row |= {name: mean, f"{name}_bound": plan.rate.upper}
        yield row


def compared(_):
    """Yield a row for every n, with bound and interval of every method."""
    for n in SIZES:
        row = {"label": f"n = {n}", "n": n}
        for name in METHODS:
            plan, _, mean, error = measured(name, n)
            row[f"{name}_bound"] = plan.rate.upper
            row[f"{name}_risk"] = privopt.Interval(mean - error, mean + error)
        yield row


def bound(name, n):
    """Return the bound of a method at any ``n``, from the theorem."""
    problem_class, published, glm = class_of(1, WIDE), name == "published", name == "predictions"
    cost = theory.perturbation_cost(problem_class, gaussian=False, glm=glm)
    best = theory.pure_balanced_minimiser(
        problem_class, unit=2.0 / (n * BUDGET.epsilon), cost=cost.factor, glm=glm,
        distance=DISTANCE, published=published,
    )  # fmt: skip
    share = 0.5 if published else 0.25
    return share * best.regularisation * DISTANCE**2 / (1.0 - best.power)


def exponents(_):
    """Yield the exponents of the bounds in ``1/n`` at very large n, near their limit."""
    for name, title in TITLES.items():
        near, far = (bound(name, n) for n in FAR)
        exponent = -math.log(far / near) / math.log(FAR[1] / FAR[0])
        limit = 1.0 / 3.0 if name == "published" else 2.0 / 5.0
        yield {"label": title, "exponent": exponent, "limit": limit}


def slopes(_):
    """Yield the exponents of bounds and of measured risks over the sizes of the runs."""
    for name, title in TITLES.items():
        plans, excesses, *_ = zip(*(measured(name, n) for n in SIZES), strict=True)
        logs = np.log([[plan.rate.upper for plan in plans], [each.mean() for each in excesses]])
        bounds, means = (-float(np.polyfit(np.log(SIZES), each, 1)[0]) for each in logs)
        declared = float(np.mean([-plan.rate.exponents["n"] for plan in plans]))
        yield {"label": title, "bounds": bounds, "declared": declared, "measured": means}


def risk_figure(frames):
    """Mean excess risk of 1,000 runs (solid) and upper bounds (dashed), for three noise scales.

    With proved noise, risk and bound are smaller than with published noise and decrease faster
    with n. The risks are far below the bounds.
    """
    title = "Pure output perturbation on sparse Huber regression: excess risk against n"
    figure, (axes,) = plotting.panels(title)
    axes.set(xlabel="n", ylabel="excess risk", xscale="log", yscale="log")
    colours = (plotting.ORANGE, plotting.BLUE, plotting.GREEN)
    for suffix, prefix, ls in (("_bound", "bound, ", "--"), ("", "", "-")):
        for (name, label), color in zip(TITLES.items(), colours, strict=True):
            style = {"label": prefix + label, "color": color, "ls": ls}
            plotting.curve(axes, frames["curves"], "n", name + suffix, **style)
    return figure


experiment = lab.Analysis(
    name="pure_linf_output_perturbation",
    title="Pure output perturbation on sparse Huber regression: published and proved noise",
    description=(
        "Huber regression with four words in a record, on the whole space, at ε = 1 and δ = 0: "
        "Laplace noise on the regularised minimiser, at the λ of the theorem. The published noise "
        "has a factor of 1 + 2H/λ and a bound of order (s ln d/(n ε))^(1/3). The proved factor "
        "grows as the root of H/λ, and the exponent is 2/5. For losses of one linear prediction "
        "only the noise along a row affects the risk. The third bound uses this; the other two are "
        "far above the risk. Intervals are three standard errors to either side."
    ),
    parts={part.__name__: part for part in (risks, curves, compared, exponents, slopes)},
    claims=(
        Claim("the risk is at most the bound", "risks", at_most("risk", "bound")),
        Claim("the minimiser has the declared norm", "risks", at_most("length", "distance")),
        Claim("proved noise: smaller bound", "compared", below("proved_bound", "published_bound")),
        Claim("proved noise: smaller risk", "compared", below("proved_risk", "published_risk")),
        Claim("exponents 1/3 published, 2/5 proved", "exponents", close("exponent", "limit", 0.01)),
        Claim("bounds have the declared exponents", "slopes", close("bounds", "declared", 0.01)),
        Claim("only the noise for linear predictions has risks with the exponent of its bound, up "
              "to 0.02", "slopes", close("measured", "declared", 0.02), rows=1),
    ),
    figures={"pure_linf_output_perturbation": risk_figure},
    listings=(
        Listing(
            "risks",
            "Mean excess risk and bound",
            {
                "noise": "{method}", "n": "{n:d}", "λ": "{regularisation:.4f}",
                "scale b": "{scale:.4f}", "excess risk": "{mean:.5f}", "bound": "{bound:.4f}",
                "w = 0": "{start:.4f}",
            },
            checks={"bound": at_most("risk", "bound")},
        ),
        Listing(
            "slopes",
            "Exponents in 1/n over these sizes",
            {"noise": "{label}"}
            | {name: f"{{{name}:.3f}}" for name in ("bounds", "declared", "measured")},
        ),
    ),
    profiles=("full",),
)  # fmt: skip
