"""A holdout set that is used again and again: fooled if answered exactly, and not by Thresholdout.

What goes red: an answer of Thresholdout that is always that of the training records, and noise of
another scale in ``law``.
"""

import math
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import privopt
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, stream
from privopt.statistics import BoundedMean, Thresholdout

SIZE = {"quick": 1000, "full": 10_000}  # records of each set, and attributes
CHOSEN = (1, 5, 11, 25, 51, 101, 201, 351, 501)
BAND = {"quick": 0.064, "full": 0.01}  # about 64 %: four standard errors, and what is asked for
LIKELY = math.log(1e4)  # scales that Laplace noise exceeds once in ten thousand
PAID = 10  # answers of the holdout
ERROR = 0.1  # tau of `capacity`
SCALE = 0.25 * ERROR  # of the noise there
SIZES = {"quick": (64_000, 256_000), "full": (32_000, 64_000, 128_000, 256_000)}
RUNS = {"quick": 10, "full": 40}
CAPACITIES = {"naive": 1.0, "splitting": 1.0, "private": 2.0}


def holdout(n):
    """Thresholdout at epsilon 2 and n = 10,000, its threshold four standard errors of a mean."""
    budget = privopt.Budget(epsilon=2e4 / n, delta=0.0, relation="replace_one")
    query = BoundedMean.of(0.0, 1.0, size=n)
    return Thresholdout.calibrated(query, 4.0 / math.sqrt(n), budget, answers=PAID)


def signs(n, role):
    """Products of label and attribute, fair signs since there is no signal; ``(n, n)``, int8."""
    key = stream(0, role=role, n=n)
    words = [
        np.asarray(jax.random.bits(jax.random.fold_in(key, i), (n // 10, n), np.uint8)) & 1
        for i in range(10)
    ]
    return (2 * np.concatenate(words).astype(np.int8) - 1).astype(np.int8)


@jax.jit
def asked(mechanism, state, training, unseen):
    """What the holdout says of every attribute: rows are attributes."""

    def step(state, rows):
        values = [0.5 * (1.0 + row.astype(jnp.float32)) for row in rows]
        answer, state = mechanism.update(state, *values)
        return state, answer

    return jax.lax.scan(step, state, (training, unseen))


def chosen(seen, told, n):
    """Attributes whose sign agrees and that clear one standard error on both, best first."""
    kept = (np.minimum(np.abs(seen), np.abs(told)) >= 1.0 / math.sqrt(n)) & (seen * told > 0.0)
    places = np.flatnonzero(kept)
    return places[np.argsort(-np.abs(seen[places]))]


def right(rows, weights):
    """Which records the vote of some attributes gets right."""
    return (weights @ rows.astype(np.float32) > 0.0).astype(np.float32)


@cache
def votes(profile):
    """A classifier of the k best attributes, chosen by an exact holdout and by Thresholdout."""
    n = SIZE[profile]
    training, unseen, fresh = (signs(n, role) for role in ("training", "holdout", "fresh"))
    seen, exact = training.mean(axis=1), unseen.mean(axis=1)
    mechanism = holdout(n)
    state, told = asked(mechanism, mechanism.init(stream(0, role="noise")), training, unseen)
    order = {
        "naive": chosen(seen, exact, n),
        "private": chosen(seen, 2.0 * np.asarray(told) - 1.0, n),
    }
    rows = []
    for k in (k for k in CHOSEN if k <= n // 20 + 1):
        row = {"label": f"k = {k}", "k": k, "half": 0.5, "four": 2.0 / math.sqrt(n)}
        for name, best in order.items():
            places = best[:k]
            weights = np.sign(seen[places]).astype(np.float32)
            own, other, new = (right(each[places], weights) for each in (training, unseen, fresh))
            row |= {f"{name}_training": own.mean(), f"{name}_fresh": new.mean()}
            row[f"{name}_holdout"] = other.mean()
            if name == "private":
                answer, state = mechanism.update(state, jnp.asarray(own), jnp.asarray(other))
                row |= {"answer": float(answer), "left": int(state.remaining)}
        row = {name: float(x) if isinstance(x, np.floating) else x for name, x in row.items()}
        row["promised"] = mechanism.threshold + 6.0 * LIKELY * mechanism.answer_scale + row["four"]
        row["answer_error"] = abs(row["answer"] - 0.5)
        row["naive_error"] = row["naive_holdout"] - 0.5
        rows.append(row)
    return rows


def last(profile):
    """The largest k."""
    yield votes(profile)[-1] | {"least": 0.64 - BAND[profile], "most": 0.64 + BAND[profile]}


def capacity(profile):
    """How many attributes may be asked before a question about them all errs by tau, for each n.

    The last question is the mean of ``sum_i s_i z_i/sqrt(k)``, ``s_i`` the sign of what was
    answered of attribute ``i``: its mean in the population is 0. It depends on the records by their
    means alone, so that these are drawn.
    """
    for n in SIZES[profile]:
        row = {"label": f"n = {n:,}", "n": n}
        for name in CAPACITIES:
            found = [reached(name, n, RUNS[profile], seed) for seed in range(8)]
            middle = math.exp(np.mean(np.log(found)))
            spread = 2.4 * np.std(np.log(found), ddof=1) / math.sqrt(len(found))
            row[name] = middle
            row[f"{name}_band"] = privopt.Interval(
                middle * math.exp(-spread), middle * math.exp(spread)
            )
            row[f"{name}_law"] = law(name, n)
        yield row


def law(name, n):
    """The number by theory: ``(pi/2) tau^2 n^2 (1/n + sigma^2)``."""
    scale = SCALE if name == "private" else 0.0
    return 0.5 * math.pi * ERROR**2 * n**2 * (1.0 / n + scale**2)


@cache
def reached(name, n, runs, seed):
    """The number of questions at which the mean error is tau."""
    rng = np.random.default_rng([n, seed, runs])
    most = int(1.5 * law(name, n))
    at = np.unique(np.geomspace(most / 3, most, 100).astype(int))
    if name == "splitting":  # into k sets, of which each answers one question
        sizes = n // at
        draws = rng.binomial(sizes, 0.5, (200 * runs, at.size))
        errors = np.abs(2.0 * draws / sizes - 1.0).mean(axis=0)
    else:
        errors = np.zeros(at.size)
        for _ in range(runs):
            mean = rng.normal(scale=1.0 / math.sqrt(n), size=most)
            told = mean + rng.normal(scale=SCALE, size=most) if name == "private" else mean
            errors += np.cumsum(np.sign(told) * mean)[at - 1] / np.sqrt(at) / runs
    slope, level = np.polyfit(np.log(errors), np.log(at), 1)
    return float(np.exp(level + slope * math.log(ERROR)))


def slopes(profile):
    """Exponents of n in the numbers, with intervals at 95 per cent over eight root seeds."""
    sizes = SIZES[profile]
    logs = np.log(np.array(sizes, float))
    for name, expected in CAPACITIES.items():
        fits = [
            np.polyfit(logs, np.log([reached(name, n, RUNS[profile], seed) for n in sizes]), 1)[0]
            for seed in range(8)
        ]
        half = 2.365 * np.std(fits, ddof=1) / math.sqrt(len(fits))
        ends = float(np.mean(fits) - half), float(np.mean(fits) + half)
        yield {
            "label": name, "slope": privopt.Interval(*ends), "low": ends[0], "high": ends[1],
            "expected": expected, "least": expected - 0.05, "most": expected + 0.05,
            "local": math.log(law(name, sizes[-1]) / law(name, sizes[0])) / float(np.ptp(logs)),
        }  # fmt: skip


experiment = Study(
    name="reusable_holdout",
    title="Can a holdout set be used twice? Not exactly; with Thresholdout, 10,000 times",
    description=(
        "As many records as attributes, no signal: both are fair signs, and no vote is better than "
        "one half. Attributes are kept whose correlation has one sign, and clears one standard "
        "error, on training records and on the holdout; the k best vote. Asked exactly, the "
        "holdout praises the vote that it chose; Thresholdout (ε = 2 for the holdout under "
        "replace-one at n = 10,000, ten answers paid, threshold 4/√n, nothing tuned) answers with "
        "training records until they are off by its threshold, and then with the holdout. On the "
        "right: numbers of attributes whose means may be asked until a question about all of them "
        "errs by 0.1 on average: answered exactly, by a fresh part of the records each, and with "
        "Gaussian noise of a quarter of that error."
    ),
    parts={
        "votes": lambda profile: iter(votes(profile)),
        "last": last, "capacity": capacity, "slopes": slopes,
    },
    claims=(
        Claim("an exact holdout overfits to 63 % and more", "last", "least <= naive_holdout"),
        Claim("an exact holdout overfits to 65 % at most", "last", "naive_holdout <= most"),
        Claim("Thresholdout stays at 50 %, by 4 standard errors", "last", "answer_error <= four"),
        Claim("an exact holdout errs by more than 4 standard errors", "last", "four < naive_error"),
        Claim("Thresholdout errs by no more than promised", "votes", "answer_error <= promised"),
        Claim("questions: slopes above the exponent - 0.05", "slopes", "least <= low"),
        Claim("questions: slopes below the exponent + 0.05", "slopes", "high <= most"),
    ),
    plots=(
        Plot(
            "reusable_holdout",
            "Votes of attributes that mean nothing, and how many may be asked",
            Panel(
                part="votes", x="k", x_label="attributes that vote", y_label="accuracy", log="x",
                title="chosen and judged on one holdout",
                lines=(
                    Line("naive_training", "training records", "grey", "dots"),
                    Line("naive_holdout", "holdout, asked exactly", "orange"),
                    Line("answer", "Thresholdout's answer", "blue"),
                    Line("private_fresh", "fresh records", "green", "dashes"),
                ),
            ),
            Panel(
                part="capacity", x="n", x_label="n", y_label="questions", log="xy",
                title="until an answer errs by 0.1 (laws: lines)",
                lines=(
                    Line("naive_law", "answered exactly", "orange", band="naive_band"),
                    Line(
                        "splitting_law", "a part for each", "purple", "dots", band="splitting_band"
                    ),
                    Line("private_law", "Gaussian noise", "blue", band="private_band"),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "votes",
            "Accuracies",
            Column("attributes", "{k}"),
            Column("training", "{naive_training:.3f}"),
            Column("holdout, exactly", "{naive_holdout:.3f}"),
            Column("fresh", "{naive_fresh:.3f}"),
            Column("Thresholdout", "{answer:.3f}", "answer_error <= promised"),
            Column("fresh", "{private_fresh:.3f}"),
            Column("answers left", "{left}"),
        ),
        Listing(
            "slopes",
            "Questions as a power of n",
            Column("answered", "{label}"),
            Column("measured", "{slope:.3f}"),
            Column("theorem", "{expected:g}"),
            Column("law, at these n", "{local:.3f}"),
        ),
    ),
)  # fmt: skip
