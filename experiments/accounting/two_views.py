"""Two meanings of differential privacy: the errors of a test, and the change of a belief."""

from functools import cache
from math import exp

import jax
import numpy as np
import pandas as pd
from scipy.stats import norm

from privopt import Budget, ProblemClass, dp_sgd
from privopt.audit import mechanism_pair
from privopt.lab import Analysis, Claim, Listing, at_most, below, close, plotting, stream
from privopt.privacy import gaussian_mu, gaussian_noise_multiplier
from privopt.statistics import clopper_pearson

EPSILON, DELTA = 1.0, 1e-5
FAILURE = 1e-3  # probability that any bound of one mechanism fails
RUNS = {"quick": 20_000, "full": 100_000}
MECHANISMS = ("laplace_mean", "gaussian_mean", "smooth_median")
CONTROL = 0.25  # factor of the noise for which a point has to leave the polygon
EPSILONS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
THRESHOLDS = np.linspace(0.05, 0.95, 10)


def budget(epsilon=EPSILON):
    """Return a budget under replace-one, since the Bayesian knows all other records."""
    return Budget(epsilon=epsilon, delta=DELTA, relation="replace_one")


@cache
def errors(name, epsilon, noise, runs):
    """Return upper bounds of both errors of threshold tests, shape ``(2, t)``.

    The bounds (Clopper and Pearson) hold together with probability ``1 - FAILURE``. Thresholds are
    quantiles of the first half of the releases, and errors are counted in the second half.
    """
    pair = mechanism_pair(name, budget(epsilon))
    key = stream(0, role="noise", method=name, epsilon=epsilon, noise=noise)
    one, two = (
        pair.sample(second, noise, jax.random.fold_in(key, second), runs)[:, 0]
        for second in (False, True)
    )
    half = runs // 2
    thresholds = np.quantile(np.concatenate([one[:half], two[:half]]), THRESHOLDS)
    counts = [
        (two[half:, None] > thresholds).sum(axis=0),
        (one[half:, None] <= thresholds).sum(axis=0),
    ]
    failure = FAILURE / (2 * len(THRESHOLDS))
    return clopper_pearson(np.array(counts), runs - half, failure)[1]


def corner(alpha, beta):
    """Return the smaller side of both inequalities, at least 1 for a private release."""
    ends = alpha + exp(EPSILON) * beta, exp(EPSILON) * alpha + beta
    return float((np.minimum(*ends) + DELTA).min())


def polygon(profile):
    """Yield the smallest type II error for every type I error, by (ε, δ) and by mechanism.

    Audited points are in the rows of their type I errors.
    """
    points = {name: errors(name, EPSILON, 1.0, RUNS[profile]) for name in MECHANISMS}
    alphas = np.sort(np.concatenate([np.linspace(0.0, 1.0, 101), *(a for a, _ in points.values())]))
    problem_class = ProblemClass(n=1000, dim=1, lipschitz=1.0, radius=1.0)
    sgd = dp_sgd(problem_class, budget(), steps=100, batch_size=50)
    laplace = mechanism_pair("laplace_mean", budget()).guarantee
    ends = np.maximum(1.0 - DELTA - exp(EPSILON) * alphas, exp(-EPSILON) * (1.0 - DELTA - alphas))
    curves = {
        "alpha": alphas,
        "coin": 1.0 - alphas,
        "pair": np.maximum(ends, 0.0),
        "laplace": laplace.trade_off(alphas),
        "gaussian": norm.cdf(norm.isf(alphas) - gaussian_mu(EPSILON, DELTA)),
        "sgd": sgd.guarantee.trade_off(alphas),
    }
    for name, (alpha, beta) in points.items():
        curves[name] = np.full(len(alphas), np.nan)
        curves[name][np.searchsorted(alphas, alpha)] = beta
    return pd.DataFrame(curves).to_dict("records")


def audited(profile):
    """Yield the smallest corner of every mechanism, with all of its noise and with a quarter."""
    for name in MECHANISMS:
        true, weak = (corner(*errors(name, EPSILON, z, RUNS[profile])) for z in (1.0, CONTROL))
        yield {"label": name.replace("_", " "), "least": 1.0, "corner": true, "weak": weak}


def belief(profile):
    """Yield bounds of the posterior for every prior, and those of tests of Laplace noise."""
    alphas, betas = errors("laplace_mean", EPSILON, 1.0, RUNS[profile])
    factors = {
        "most": exp(EPSILON),
        "least": exp(-EPSILON),
        "told": float(((1.0 - betas) / alphas).max()),
        "denied": float((betas / (1.0 - alphas)).min()),
    }
    for prior in np.linspace(0.01, 0.99, 50):
        odds = {name: prior / (1.0 - prior) * factor for name, factor in factors.items()}
        yield {"prior": float(prior)} | {name: float(x / (1.0 + x)) for name, x in odds.items()}


def advantage(profile):
    """Yield the advantage of a guess, ``1 - alpha - beta``: upper bounds and audits."""
    for epsilon in EPSILONS:
        yield {
            "label": f"epsilon {epsilon:g}",
            "epsilon": epsilon,
            "most": (exp(epsilon) - 1.0 + 2.0 * DELTA) / (exp(epsilon) + 1.0),
            "gaussian": float(2.0 * norm.cdf(0.5 * gaussian_mu(epsilon, DELTA)) - 1.0),
        } | {
            name: float((1.0 - errors(name, epsilon, 1.0, RUNS[profile]).sum(axis=0)).max())
            for name in MECHANISMS[:2]
        }


def smaller_delta(profile):
    """Yield a row for every n, with a mechanism that publishes each record with probability δ."""
    rng, runs = np.random.default_rng(0), RUNS[profile]
    for n in (100, 1_000, 10_000, 100_000, 1_000_000):
        row = {"label": f"n = {n:,}", "n": n}
        for power in (1, 2):
            delta = float(n) ** -power
            row[f"exposed_{power}"] = -np.expm1(n * np.log1p(-delta))
            row[f"seen_{power}"] = float((rng.binomial(n, delta, runs) > 0).mean())
            noise = gaussian_noise_multiplier(Budget(epsilon=1.0, delta=delta, relation="zero_out"))
            row[f"noise_{power}"] = float(noise)
        yield {**row, "price": row["noise_2"] / row["noise_1"]}


def draw(axes, frame, x, lines):
    """Draw columns, given as name, label, colour and line style; style "o" draws points."""
    for name, label, color, ls in lines:
        style = {"marker": "o"} if ls == "o" else {"ls": ls}
        plotting.curve(axes, frame, x, name, label=label, color=color, **style)


GREY, BLUE, GREEN, PURPLE = plotting.GREY, plotting.BLUE, plotting.GREEN, plotting.PURPLE
SGD = plotting.METHOD_COLOURS["dp_sgd"]


def tests_figure(frames):
    """Type II error against type I error of tests that distinguish two neighbours.

    Lines are the trade-off curves of (ε, δ) alone and of mechanisms; points are upper bounds of the
    errors of threshold tests. All points are above the curve of (ε, δ). Laplace noise nearly
    attains it; Gaussian noise and DP-SGD, which have almost the same curve, do not.
    """
    figure, (axes,) = plotting.panels("Errors of tests at ε = 1, δ = 1e-5, replace-one")
    axes.set(xlabel="type I error", ylabel="type II error")
    lines = (
        ("coin", "random guess", GREY, ":"),
        ("gaussian", "Gaussian noise", PURPLE, "-"),
        ("sgd", "DP-SGD", SGD, "--"),
        ("laplace", "Laplace noise", BLUE, "-"),
        ("pair", "(ε, δ) alone", GREY, "-"),
        ("laplace_mean", "Laplace mean, audited", BLUE, "o"),
        ("gaussian_mean", "Gaussian mean, audited", PURPLE, "o"),
        ("smooth_median", "smooth median, audited", GREEN, "o"),
    )
    draw(axes, frames["polygon"], "alpha", lines)
    return figure


def beliefs_figure(frames):
    """Posterior after one release against the prior (left), and advantage of a guess (right).

    Audits of Laplace noise nearly reach the bounds of the posterior. The advantage of Gaussian
    noise is at most a quarter to a half of the bound for any mechanism.
    """
    figure, (first, second) = plotting.panels("Posterior, and advantage of a guess", "", "")
    first.set(xlabel="prior", ylabel="posterior after one release, ε = 1")
    second.set(xlabel="ε", ylabel="right minus wrong guesses")
    lines = (
        ("most", "upper bound", GREY, "-"),
        ("told", "Laplace, largest audited", BLUE, "--"),
        ("denied", "Laplace, smallest audited", GREEN, "--"),
        ("least", "lower bound", GREY, ":"),
    )
    draw(first, frames["belief"], "prior", lines)
    lines = (
        ("most", "upper bound", GREY, "-"),
        ("laplace_mean", "Laplace, audited", BLUE, "o"),
        ("gaussian", "Gaussian, upper bound", PURPLE, "-"),
        ("gaussian_mean", "Gaussian, audited", PURPLE, "o"),
    )
    draw(second, frames["advantage"], "epsilon", lines)
    return figure


def delta_figure(frames):
    """Probability that a record is published (left), and noise multiplier at ε = 1 (right).

    A mechanism that publishes each record with probability δ = 1/n publishes one in 63 % of the
    runs. With δ = 1/n² the probability is 1/n. Gaussian noise is then 1.55 to 1.7 times as large.
    """
    figure, (first, second) = plotting.panels("Publication with probability δ, and noise", "", "")
    first.set(xlabel="n", ylabel="probability of publication", xscale="log", yscale="log")
    second.set(xlabel="n", ylabel="noise multiplier, ε = 1", xscale="log")
    for axes, name in ((first, "exposed"), (second, "noise")):
        lines = (f"{name}_1", "δ = 1/n", plotting.ORANGE, "-"), (f"{name}_2", "δ = 1/n²", BLUE, "-")
        draw(axes, frames["smaller_delta"], "n", lines)
    return figure


CORNER, WEAK = at_most("least", "corner"), below("weak", "least")
LAPLACE, GAUSSIAN = at_most("laplace_mean", "most"), at_most("gaussian_mean", "gaussian")
SEEN = [close(f"seen_{power}", f"exposed_{power}", 0.02) for power in (1, 2)]

experiment = Analysis(
    name="two_views",
    title="(ε, δ) as errors of a test, as change of a belief, and as probability of publication",
    description=(
        "Budget (1, 1e-5) under replace-one. **A test** guesses from a release which of two "
        "neighbours it is from. Its errors alpha (type I) and beta (type II) satisfy "
        "alpha + e^ε beta ≥ 1 - δ, in either order. Inside this polygon are the trade-off curve of "
        "a mechanism and audited points: upper bounds (Clopper and Pearson) of the errors of tests "
        "on the mean or median of few records. **A Bayesian** with knowledge of all other records "
        "multiplies the prior odds by a factor in [e^-ε, e^ε] (δ = 0). **delta** bounds the "
        "probability of an arbitrary failure: a mechanism that publishes each record with "
        "probability δ is (0, δ)-private."
    ),
    parts={part.__name__: part for part in (polygon, audited, belief, advantage, smaller_delta)},
    claims=(
        Claim("no audited point leaves the polygon", "audited", CORNER),
        Claim("control: with a quarter of the noise one does", "audited", WEAK),
        Claim("no audited posterior is above e^ε", "belief", at_most("told", "most")),
        Claim("no audited posterior is below e^-ε", "belief", at_most("least", "denied")),
        Claim("no audited advantage of Laplace noise is above its bound", "advantage", LAPLACE),
        Claim("no audited advantage of Gaussian noise is above its bound", "advantage", GAUSSIAN),
        Claim("δ = 1/n: simulation agrees with the formula", "smaller_delta", SEEN[0]),
        Claim("δ = 1/n²: simulation agrees with the formula", "smaller_delta", SEEN[1]),
    ),
    figures={"tests": tests_figure, "beliefs": beliefs_figure, "delta": delta_figure},
    listings=(
        Listing(
            "audited",
            "alpha + e^ε beta + δ, the smallest of the audited tests in either order",
            {"mechanism": "{label}", "at least 1": "{corner:.3f}", "with a quarter": "{weak:.3f}"},
            {"at least 1": CORNER, "with a quarter": WEAK},
        ),
        Listing(
            "advantage",
            "Right minus wrong guesses",
            {"ε": "{epsilon:g}", "any mechanism, at most": "{most:.3f}"}
            | {"Laplace, at least": "{laplace_mean:.3f}", "Gaussian, at most": "{gaussian:.3f}"}
            | {"Gaussian, at least": "{gaussian_mean:.3f}"},
            {"Laplace, at least": LAPLACE, "Gaussian, at least": GAUSSIAN},
        ),
        Listing(
            "smaller_delta",
            "Probability of publication, and noise multiplier",
            {"records": "{label}", "δ = 1/n": "{exposed_1:.3f}", "δ = 1/n²": "{exposed_2:.2g}"}
            | {"noise at 1/n": "{noise_1:.2f}", "noise at 1/n²": "{noise_2:.2f}"}
            | {"ratio": "{price:.2f}"},
        ),
    ),
)
