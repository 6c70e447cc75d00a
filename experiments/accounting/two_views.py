"""Privacy seen twice: as errors of a test, and as a belief that one release may change."""

from functools import cache
from math import exp

import jax
import numpy as np
from scipy.special import betaincinv
from scipy.stats import norm

from privopt import Budget, ProblemClass, dp_sgd
from privopt.audit import mechanism_pair
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, stream
from privopt.privacy import gaussian_mu, gaussian_noise_multiplier

EPSILON, DELTA = 1.0, 1e-5
FAILURE = 1e-3  # of all bounds of one mechanism together
RUNS = {"quick": 20_000, "full": 100_000}
MECHANISMS = ("laplace_mean", "gaussian_mean", "smooth_median")
CONTROL = 0.25  # the share of noise with which a point has to leave the polygon
EPSILONS = (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
THRESHOLDS = np.linspace(0.05, 0.95, 10)


def budget(epsilon=EPSILON):
    """Replace-one: the second view is of somebody who knows all other records."""
    return Budget(epsilon=epsilon, delta=DELTA, relation="replace_one")


@cache
def errors(name, epsilon, noise, runs):
    """Upper bounds of both errors of "first if the release is above so much", shape ``(2, t)``.

    By Clopper and Pearson, all at once at ``1 - FAILURE``. Thresholds are quantiles of releases
    that the bounds do not count.
    """
    pair = mechanism_pair(name, budget(epsilon))
    key = stream(0, role="noise", method=name, epsilon=epsilon, noise=noise)
    one, two = (
        pair.sample(second, noise, jax.random.fold_in(key, second), runs)[:, 0]
        for second in (False, True)
    )
    half, share = runs // 2, FAILURE / (2 * len(THRESHOLDS))
    thresholds = np.quantile(np.concatenate([one[:half], two[:half]]), THRESHOLDS)
    wrong = np.array(
        [
            [(two[half:] > t).sum() for t in thresholds],
            [(one[half:] <= t).sum() for t in thresholds],
        ]
    )
    return betaincinv(wrong + 1, runs - half - wrong, 1.0 - share)


def corner(alpha, beta, epsilon):
    """At least 1 for every test of an (epsilon, DELTA)-private release, in either order."""
    return np.minimum(alpha + exp(epsilon) * beta, exp(epsilon) * alpha + beta) + DELTA


def polygon(profile):
    """The least type II error beside each type I error, by (epsilon, delta) alone and by more.

    Audited points stand in the rows of their type I errors.
    """
    points = {name: errors(name, EPSILON, 1.0, RUNS[profile]) for name in MECHANISMS}
    alphas = np.sort(np.concatenate([np.linspace(0.0, 1.0, 101), *(a for a, _ in points.values())]))
    facts = ProblemClass(n=1000, dim=1, lipschitz=1.0, radius=1.0)
    sgd = dp_sgd(facts, budget(), steps=100, batch_size=50)
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
    for values in zip(*curves.values(), strict=True):
        yield {name: float(value) for name, value in zip(curves, values, strict=True)}


def audited(profile):
    """Tests of releases, beside the same with a quarter of the noise."""
    for name in MECHANISMS:
        true, less = (errors(name, EPSILON, noise, RUNS[profile]) for noise in (1.0, CONTROL))
        weak = corner(*less, EPSILON).min()
        yield {
            "label": name.replace("_", " "),
            "least": 1.0,
            "corner": float(corner(*true, EPSILON).min()),
            "weak": float(weak),
        }


def belief(profile):
    """What a release can make of a belief, at most, at least, and by a test of Laplace noise."""
    alphas, betas = errors("laplace_mean", EPSILON, 1.0, RUNS[profile])
    gains = (1.0 - betas) / alphas, betas / (1.0 - alphas)
    best, worst = float(gains[0].max()), float(gains[1].min())
    for prior in np.linspace(0.01, 0.99, 50):
        odds = prior / (1.0 - prior)
        yield {
            "prior": float(prior),
            "most": posterior(odds * exp(EPSILON)),
            "least": posterior(odds * exp(-EPSILON)),
            "told": posterior(odds * best),
            "denied": posterior(odds * worst),
        }


def posterior(odds):
    """A probability by its odds."""
    return float(odds / (1.0 + odds))


def advantage(profile):
    """Right guesses minus wrong ones, ``1 - alpha - beta``, at most and as audited."""
    for epsilon in EPSILONS:
        found = {
            name: float((1.0 - errors(name, epsilon, 1.0, RUNS[profile]).sum(axis=0)).max())
            for name in MECHANISMS[:2]
        }
        yield {
            "label": f"epsilon {epsilon:g}",
            "epsilon": epsilon,
            "most": (exp(epsilon) - 1.0 + 2.0 * DELTA) / (exp(epsilon) + 1.0),
            "gaussian": float(2.0 * norm.cdf(0.5 * gaussian_mu(epsilon, DELTA)) - 1.0),
            **found,
        }


def smaller_delta(profile):
    """What a mechanism may do at epsilon 0: publish each record with probability delta."""
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


POINTS = tuple(
    Line(name, f"{name.replace('_', ' ')}, audited", colour, "points")
    for name, colour in zip(MECHANISMS, ("blue", "orange", "green"), strict=True)
)

experiment = Study(
    name="two_views",
    title="What epsilon means to who tests, and to who believes",
    description=(
        "One budget, (1, 1e-5) under replace-one, seen twice. **A test** guesses from a release "
        "which of two neighbours it is from; its errors alpha (type I) and beta (type II) satisfy "
        "alpha + e^ε beta ≥ 1 - δ, in either order: a polygon. A mechanism's own trade-off curve "
        "lies inside it, and so must every audited point: upper bounds of both errors of a test, "
        "by Clopper and Pearson, on mean or median of few records. Control: the same with a "
        "quarter of the noise leaves the polygon. **A Bayesian** who knows all other records has "
        "the prior odds multiplied by e^±ε at most (δ = 0), and by nearly that for Laplace "
        "noise.\n\n"
        "**delta** is the probability of anything at all. A mechanism that publishes each record "
        "with probability δ = 1/n is (0, δ)-private and exposes somebody in 63 runs of 100; at "
        "1/n² in one run of n. A Gaussian mechanism pays for that with 1.5 to 1.7 times the noise."
    ),
    parts={part.__name__: part for part in (polygon, audited, belief, advantage, smaller_delta)},
    claims=(
        Claim("no audited point leaves the polygon", "audited", "least <= corner"),
        Claim("control: with a quarter of the noise one does", "audited", "weak < least"),
        Claim("no audited belief is beyond e^ε", "belief", "told <= most"),
        Claim("nor below e^-ε", "belief", "least <= denied"),
        Claim("no audited advantage is above its bound", "advantage", "laplace_mean <= most"),
        Claim("nor that of Gaussian noise", "advantage", "gaussian_mean <= gaussian"),
        Claim("delta = 1/n: simulated as computed", "smaller_delta", "seen_1 = exposed_1 ± 0.02"),
        Claim("delta = 1/n²: simulated as computed", "smaller_delta", "seen_2 = exposed_2 ± 0.02"),
    ),
    plots=(
        Plot(
            "tests",
            "Errors of tests, at ε = 1, δ = 0.00001, replace-one",
            Panel(
                part="polygon",
                x="alpha",
                x_label="type I error",
                y_label="type II error",
                lines=(
                    Line("coin", "a coin", "grey", "dots"),
                    Line("gaussian", "Gaussian noise", "orange"),
                    Line("sgd", "DP-SGD", "purple", "dashes"),
                    Line("laplace", "Laplace noise", "blue"),
                    Line("pair", "(ε, δ) alone", "grey"),
                    *POINTS,
                ),
            ),
        ),
        Plot(
            "beliefs",
            "From prior to posterior, and the advantage of a guess",
            Panel(
                part="belief",
                x="prior",
                x_label="prior",
                y_label="posterior after one release, ε = 1",
                lines=(
                    Line("most", "at most", "grey"),
                    Line("told", "audited: it is there", "blue", "dashes"),
                    Line("denied", "audited: it is not", "orange", "dashes"),
                    Line("least", "at least", "grey", "dots"),
                ),
            ),
            Panel(
                part="advantage",
                x="epsilon",
                x_label="ε",
                y_label="right minus wrong guesses",
                lines=(
                    Line("most", "any mechanism", "grey"),
                    Line("laplace_mean", "Laplace, audited", "blue", "points"),
                    Line("gaussian", "Gaussian, most", "orange"),
                    Line("gaussian_mean", "Gaussian, audited", "orange", "points"),
                ),
            ),
        ),
        Plot(
            "delta",
            "What a smaller delta buys, and costs",
            Panel(
                part="smaller_delta",
                x="n",
                x_label="records",
                y_label="probability that somebody is exposed",
                log="xy",
                lines=(
                    Line("exposed_1", "δ = 1/n", "orange"),
                    Line("exposed_2", "δ = 1/n²", "blue"),
                ),
            ),
            Panel(
                part="smaller_delta",
                x="n",
                x_label="records",
                y_label="Gaussian noise at ε = 1, over sensitivity",
                log="x",
                lines=(
                    Line("noise_1", "δ = 1/n", "orange"),
                    Line("noise_2", "δ = 1/n²", "blue"),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "audited",
            "alpha + e^ε beta + δ, the least of the audited tests in either order",
            Column("mechanism", "{label}"),
            Column("at least 1", "{corner:.3f}", "least <= corner"),
            Column("with a quarter of the noise: below 1", "{weak:.3f}", "weak < least"),
        ),
        Listing(
            "advantage",
            "Right minus wrong guesses",
            Column("ε", "{epsilon:g}"),
            Column("any mechanism, at most", "{most:.3f}"),
            Column("Laplace, at least", "{laplace_mean:.3f}", "laplace_mean <= most"),
            Column("Gaussian, at most", "{gaussian:.3f}"),
            Column("Gaussian, at least", "{gaussian_mean:.3f}", "gaussian_mean <= gaussian"),
        ),
        Listing(
            "smaller_delta",
            "Somebody is exposed, and the noise",
            Column("records", "{label}"),
            Column("δ = 1/n", "{exposed_1:.3f}"),
            Column("δ = 1/n²", "{exposed_2:.2g}"),
            Column("noise at 1/n", "{noise_1:.2f}"),
            Column("noise at 1/n²", "{noise_2:.2f}"),
            Column("ratio", "{price:.2f}"),
        ),
    ),
)
