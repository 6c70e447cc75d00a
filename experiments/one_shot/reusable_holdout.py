"""Adaptive reuse of a holdout set, answered exactly and by Thresholdout.

The experiment fails for answers of Thresholdout that are always from the training records, and for
another noise scale in ``law``.
"""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import privopt
from privopt.lab import Analysis, Claim, Listing, at_most, below, plotting, stream
from privopt.statistics import BoundedMean, Thresholdout

SIZE = {"quick": 1000, "full": 10_000}  # records of each set, and attributes
CHOSEN = (1, 5, 11, 25, 51, 101, 201, 351, 501)
BAND = {"quick": 0.064, "full": 0.01}  # about 64 %: four standard errors, and the target
LIKELY = math.log(1e4)  # Laplace noise exceeds this many scales with probability 1e-4
PAID = 10  # answers from the holdout
ERROR = 0.1  # error of the last question in `capacity`
SCALE = 0.25 * ERROR  # of the noise there
SIZES = {"quick": (64_000, 256_000), "full": (32_000, 64_000, 128_000, 256_000)}
RUNS = {"quick": 10, "full": 40}
SEEDS = range(8)
CAPACITIES = {"naive": 1.0, "splitting": 1.0, "private": 2.0}  # exponents of n


def holdout(n):
    """Return Thresholdout with a threshold of four standard errors of a mean."""
    budget = privopt.Budget(epsilon=2e4 / n, delta=0.0, relation="replace_one")
    query = BoundedMean.of(0.0, 1.0, size=n)
    return Thresholdout.calibrated(query, 4.0 / math.sqrt(n), budget, answers=PAID)


def signs(n, role):
    """Return random products of label and attribute, shape ``(n, n)``, int8."""
    key = stream(0, role=role, n=n)
    words = [
        np.asarray(jax.random.bits(jax.random.fold_in(key, i), (n // 10, n), np.uint8)) & 1
        for i in range(10)
    ]
    return (2 * np.concatenate(words).astype(np.int8) - 1).astype(np.int8)


@jax.jit
def answers(mechanism, state, training, unseen):
    """Return the state and the answers of Thresholdout to the mean of every row."""

    def step(state, rows):
        values = [0.5 * (1.0 + row.astype(jnp.float32)) for row in rows]
        answer, state = mechanism.update(state, *values)
        return state, answer

    return jax.lax.scan(step, state, (training, unseen))


def selected(training, answered, n):
    """Return attributes with both correlations of one sign above a standard error, best first."""
    correlation = np.minimum(np.abs(training), np.abs(answered))
    places = np.flatnonzero((correlation >= 1.0 / math.sqrt(n)) & (training * answered > 0.0))
    return places[np.argsort(-np.abs(training[places]))]


@cache
def votes(profile):
    """Return a row for every k: votes of the k best attributes by each kind of holdout."""
    n = SIZE[profile]
    training, unseen, fresh = (signs(n, role) for role in ("training", "holdout", "fresh"))
    means, mechanism = training.mean(axis=1), holdout(n)
    state, noisy = answers(mechanism, mechanism.init(stream(0, role="noise")), training, unseen)
    order = {
        "naive": selected(means, unseen.mean(axis=1), n),
        "private": selected(means, 2.0 * np.asarray(noisy) - 1.0, n),
    }
    rows = []
    for k in (k for k in CHOSEN if k <= n // 20 + 1):
        row = {"label": f"k = {k}", "k": k, "half": 0.5, "four": 2.0 / math.sqrt(n)}
        for name, places in order.items():
            weights = np.sign(means[places[:k]]).astype(np.float32)
            own, other, new = (
                (weights @ each[places[:k]].astype(np.float32) > 0.0).astype(np.float32)
                for each in (training, unseen, fresh)
            )
            for kind, right in (("training", own), ("fresh", new), ("holdout", other)):
                row[f"{name}_{kind}"] = float(right.mean())
            if name == "private":
                answer, state = mechanism.update(state, jnp.asarray(own), jnp.asarray(other))
                row |= {"answer": float(answer), "left": int(state.remaining)}
        row["promised"] = mechanism.threshold + 6.0 * LIKELY * mechanism.answer_scale + row["four"]
        row["answer_error"] = abs(row["answer"] - 0.5)
        row["naive_error"] = row["naive_holdout"] - 0.5
        rows.append(row)
    return rows


def last(profile):
    """Yield the row of the largest k, with limits of the accuracy on an exact holdout."""
    yield votes(profile)[-1] | {"least": 0.64 - BAND[profile], "most": 0.64 + BAND[profile]}


def capacity(profile):
    """Yield the number of questions until one about all of them errs by ``ERROR``, for each n.

    The last question is the mean of ``sum_i s_i z_i / sqrt(k)``, where ``s_i`` is the sign of the
    answer for attribute ``i``. Its population mean is 0. It depends on the records by their means,
    so only these are sampled.
    """
    for n in SIZES[profile]:
        row = {"label": f"n = {n:,}", "n": n}
        for name in CAPACITIES:
            logs = np.log([reached(name, n, RUNS[profile], seed) for seed in SEEDS])
            middle, spread = math.exp(np.mean(logs)), 2.4 * np.std(logs, ddof=1) / math.sqrt(8)
            ends = middle * math.exp(-spread), middle * math.exp(spread)
            row |= {name: middle, f"{name}_band": privopt.Interval(*ends)}
            row[f"{name}_law"] = law(name, n)
        yield row


def law(name, n):
    """Return the number by theory, ``(pi/2) tau^2 n^2 (1/n + sigma^2)``."""
    scale = SCALE if name == "private" else 0.0
    return 0.5 * math.pi * ERROR**2 * n**2 * (1.0 / n + scale**2)


@cache
def reached(name, n, runs, seed):
    """Return the number of questions at which the mean error is ``ERROR``."""
    rng = np.random.default_rng([n, seed, runs])
    most = int(1.5 * law(name, n))
    at = np.unique(np.geomspace(most / 3, most, 100).astype(int))
    if name == "splitting":  # k parts of the records, one for each question
        sizes = n // at
        counts = rng.binomial(sizes, 0.5, (200 * runs, at.size))
        errors = np.abs(2.0 * counts / sizes - 1.0).mean(axis=0)
    else:
        errors = np.zeros(at.size)
        for _ in range(runs):
            mean = rng.normal(scale=1.0 / math.sqrt(n), size=most)
            noisy = mean + rng.normal(scale=SCALE, size=most) if name == "private" else mean
            errors += np.cumsum(np.sign(noisy) * mean)[at - 1] / np.sqrt(at) / runs
    slope, level = np.polyfit(np.log(errors), np.log(at), 1)
    return float(np.exp(level + slope * math.log(ERROR)))


def slopes(profile):
    """Yield the exponents of n, with 95 % intervals over eight seeds."""
    sizes = SIZES[profile]
    logs = np.log(np.array(sizes, float))
    for name, expected in CAPACITIES.items():
        fits = [
            np.polyfit(logs, np.log([reached(name, n, RUNS[profile], seed) for n in sizes]), 1)[0]
            for seed in SEEDS
        ]
        half = 2.365 * np.std(fits, ddof=1) / math.sqrt(len(fits))
        ends = float(np.mean(fits) - half), float(np.mean(fits) + half)
        yield {
            "label": name, "slope": privopt.Interval(*ends), "low": ends[0], "high": ends[1],
            "expected": expected, "least": expected - 0.05, "most": expected + 0.05,
            "local": math.log(law(name, sizes[-1]) / law(name, sizes[0])) / float(np.ptp(logs)),
        }  # fmt: skip


def holdout_figure(frames):
    """Accuracy of votes of attributes without signal (left), and capacity of a holdout (right).

    Left: the k best attributes vote. On the holdout that selected them the accuracy rises to 0.63,
    while the answers of Thresholdout stay near 0.5. Right: number of questions until an answer errs
    by 0.1, exact (lines) and measured (bands). It is proportional to n for exact answers and to
    n^1.98 for answers with Gaussian noise.
    """
    names = "selected and evaluated on one holdout", "questions until an answer errs by 0.1"
    figure, (first, second) = plotting.panels("Reusable holdout: accuracy and capacity", *names)
    first.set(xlabel="attributes that vote", ylabel="accuracy", xscale="log")
    second.set(xlabel="n", ylabel="questions", xscale="log", yscale="log")
    for name, label, color, ls in (
        ("naive_training", "training records", plotting.GREY, ":"),
        ("naive_holdout", "holdout, exact answers", plotting.ORANGE, "-"),
        ("answer", "Thresholdout", plotting.BLUE, "-"),
        ("private_fresh", "fresh records", plotting.GREEN, "--"),
    ):
        plotting.curve(first, frames["votes"], "k", name, label=label, color=color, ls=ls)
    for name, label, color, ls in (
        ("naive", "exact answers", plotting.ORANGE, "-"),
        ("splitting", "a part for each", plotting.PURPLE, ":"),
        ("private", "Gaussian noise", plotting.BLUE, "-"),
    ):
        style = {"band": f"{name}_band", "label": label, "color": color, "ls": ls}
        plotting.curve(second, frames["capacity"], "n", f"{name}_law", **style)
    return figure


FOUR, PROMISED = at_most("answer_error", "four"), at_most("answer_error", "promised")

experiment = Analysis(
    name="reusable_holdout",
    title="Thresholdout: error of a reused holdout set, and number of adaptive questions",
    description=(
        "There are as many records as attributes and no signal, so the accuracy of every vote is "
        "1/2. Attributes are kept if their correlations on training records and on the holdout "
        "have one sign and exceed one standard error; the k best vote. Thresholdout (ε = 2 for "
        "the holdout under replace-one at n = 10,000, ten answers from the holdout, threshold "
        "4/√n) answers from the training records until they differ from the holdout by its "
        "threshold. The number of questions is that of means answered before a question about all "
        "of them errs by 0.1 on average: exactly, with a new part of the records for each, and "
        "with Gaussian noise of a quarter of that error."
    ),
    parts={"votes": votes, "last": last, "capacity": capacity, "slopes": slopes},
    claims=(
        Claim("exact answers overfit to 63 % or more", "last", at_most("least", "naive_holdout")),
        Claim("exact answers overfit to 65 % or less", "last", at_most("naive_holdout", "most")),
        Claim("Thresholdout errs by at most 4 standard errors", "last", FOUR),
        Claim("exact answers exceed 4 standard errors", "last", below("four", "naive_error")),
        Claim("Thresholdout errs by no more than promised", "votes", PROMISED),
        Claim("slopes are above the exponent - 0.05", "slopes", at_most("least", "low")),
        Claim("slopes are below the exponent + 0.05", "slopes", at_most("high", "most")),
    ),
    figures={"reusable_holdout": holdout_figure},
    listings=(
        Listing(
            "votes",
            "Accuracies",
            {"attributes": "{k}", "training": "{naive_training:.3f}"}
            | {"exact holdout": "{naive_holdout:.3f}", "fresh": "{naive_fresh:.3f}"}
            | {"Thresholdout": "{answer:.3f}", "fresh, Thresholdout": "{private_fresh:.3f}"}
            | {"remaining answers": "{left}"},
            {"Thresholdout": PROMISED},
        ),
        Listing(
            "slopes",
            "Exponent of n in the number of questions",
            {"answers": "{label}", "measured": "{slope:.3f}", "theorem": "{expected:g}"}
            | {"exact at these n": "{local:.3f}"},
        ),
    ),
)
