"""All noises that can be added to running sums, side by side at one guarantee.

Nothing is sampled but in the last part: errors and sensitivities are exact numbers of the
factorisations. An error is what one coordinate of a prefix sum has at mu = 1 under zero-out, with
gradients of norm at most 1: sensitivity times the root of the mean, or largest, entry of the
diagonal of B B^T.
"""

import math
from functools import cache

import jax
import jax.numpy as jnp
from scipy.stats import chi2

import privopt
from privopt.factorisations import FACTORISATIONS, RestartedFactorisation, factorise
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, stream
from privopt.mechanisms import correlated_noise

SIZES = {"quick": (100, 1000, 10_000), "full": (100, 300, 1000, 3000, 10_000, 30_000, 100_000)}
LARGEST_OPTIMUM = {"quick": 100, "full": 1000}  # steps; time grows like their cube
EPOCHS = 4
STREAMED, PLACES, COORDINATES = 60, (1, 7, 22, 45, 60), 50_000  # of the noise that is drawn
FREE = ("banded", "banded_inverse", "buffered")
NOISES = (*FACTORISATIONS, *(f"{name}_optimised" for name in FREE))
TITLES = {
    "independent": "independent",
    "tree": "tree",
    "honaker": "tree, Honaker",
    "toeplitz": "Toeplitz root",
    "banded": "banded, 32",
    "banded_inverse": "banded inverse, 16",
    "buffered": "buffered, 5",
    "optimal": "optimal",
    "banded_optimised": "banded, 32, optimised",
    "banded_inverse_optimised": "banded inverse, 16, optimised",
    "buffered_optimised": "buffered, 5, optimised",
}
COLUMNS = [
    f"{noise}_{where}{suffix}"
    for noise in NOISES
    for where in ("one", "four", "anew")
    for suffix in ("", "_largest")
]
GOLDEN = (  # noise, steps, band, epochs, error
    ("independent", 1024, None, 1, 22.63846),
    ("tree", 100, None, 1, 4.72546),
    ("tree", 1024, None, 1, 7.41692),
    ("honaker", 100, None, 1, 3.73367),
    ("honaker", 1024, None, 1, 5.64988),
    ("toeplitz", 100, None, 1, 2.37066),
    ("toeplitz", 1024, None, 1, 3.10979),
    ("optimal", 16, None, 1, 1.68940),
    ("optimal", 200, None, 1, 2.44820),
    ("banded", 100, 4, 1, 4.10221),
    ("banded", 100, 64, 1, 2.34654),
    ("banded_inverse", 100, 4, 1, 3.12699),
    ("banded_inverse", 4096, 64, 1, 5.63296),
    ("independent", 1024, None, 4, 45.277),
    ("toeplitz", 1024, None, 4, 7.5429),
    ("banded", 1024, 256, 4, 6.4859),
    ("banded_inverse", 1024, 16, 4, 10.1945),
)


@cache
def made(noise, steps, band=None):
    """The factorisation of one of ``NOISES``."""
    name = noise.removesuffix("_optimised")
    return factorise(name, steps, band, optimise=name != noise)


@cache
def restarted(noise, steps):
    """The same, of one epoch, begun anew in each."""
    return RestartedFactorisation(made(noise, steps // EPOCHS), steps)


@cache
def deviations(found):
    """The root mean square and the largest standard error of a prefix sum, at unit noise."""
    variances = found.variances()
    return math.sqrt(variances.mean()), math.sqrt(variances.max())


def errors(found, epochs=1):
    """The same at ``mu = 1``, where every record takes part so often, equally far apart."""
    sensitivity = found.sensitivity(epochs, even=True)
    return tuple(sensitivity * deviation for deviation in deviations(found))


def error(noise, steps):
    """The root mean square error at one epoch."""
    return errors(made(noise, steps))[0]


def affordable(steps, profile):
    """The noises made for so many steps."""
    return [n for n in NOISES if n != "optimal" or steps <= LARGEST_OPTIMUM[profile]]


def curves(profile):
    """One row a number of steps: the errors of every noise, at one epoch and at four."""
    for steps in SIZES[profile]:
        row = {"label": f"T = {steps}", "steps": steps} | dict.fromkeys(COLUMNS)
        for noise in affordable(steps, profile):
            for found, epochs, where in (
                (made(noise, steps), 1, "one"),
                (made(noise, steps), EPOCHS, "four"),
                (restarted(noise, steps), EPOCHS, "anew"),
            ):
                row[f"{noise}_{where}"], row[f"{noise}_{where}_largest"] = errors(found, epochs)
        yield row


def noises(profile):
    """One row a noise and number of steps, what it costs included."""
    for steps in SIZES[profile]:
        for noise in affordable(steps, profile):
            found = made(noise, steps)
            mean, most = errors(found)
            yield {
                "label": f"{TITLES[noise]}, T = {steps}",
                "steps": steps,
                "noise": TITLES[noise],
                "memory": memory(noise, steps),
                "sensitivity": found.sensitivity(),
                "error": mean,
                "largest": most,
                "sensitivity_four": found.sensitivity(EPOCHS, even=True),
                "error_four": errors(found, EPOCHS)[0],
                "error_anew": errors(restarted(noise, steps), EPOCHS)[0],
            }


def memory(noise, steps):
    """Vectors that the stream remembers."""
    kept = jax.eval_shape(correlated_noise(made(noise, steps)).init, jnp.zeros(1))
    return sum(vectors.size for vectors in jax.tree.leaves(kept))


def streams(profile):
    """The device's noise: the variance of its running sums, over independent coordinates.

    The intervals have level 0.99 all together.
    """
    drawn = FACTORISATIONS if profile == "full" else ("tree", "banded_inverse", "buffered")
    found = {TITLES[noise]: made(noise, STREAMED) for noise in drawn}
    if profile == "full":
        found["tree, anew in each epoch"] = restarted("tree", STREAMED)
    level = 0.01 / len(found) / len(PLACES)
    low, high = (chi2.ppf(tail, COORDINATES) for tail in (1.0 - level / 2.0, level / 2.0))
    for name, factorisation in found.items():
        noise = correlated_noise(factorisation)
        squares = mean_squares(noise, stream(0, noise=name))
        exact = noise.factorisation(STREAMED).variances()
        for t in PLACES:
            ratio = COORDINATES * float(squares[t - 1] / exact[t - 1])
            yield {
                "label": f"{name}, t = {t}",
                "noise": name,
                "t": t,
                "exact": exact[t - 1],
                "ratio": privopt.Interval(ratio / low, ratio / high),
                "one": 1.0,
            }


@jax.jit
def mean_squares(noise, key):
    """Of every running sum, over the coordinates."""
    like = jnp.zeros(COORDINATES)

    def step(carry, t):
        state, total = carry
        z, state = noise.update(state, t, key, like)
        return (state, total + z), jnp.mean((total + z) ** 2)

    return jax.lax.scan(step, (noise.init(like), like), jnp.arange(STREAMED))[1]


def optimum(profile):
    """No noise beats the optimum, and its certificate says what no noise at all could."""
    for steps in SIZES[profile]:
        if steps <= LARGEST_OPTIMUM[profile]:
            best = made("optimal", steps)
            least = best.rmse() * math.sqrt(1.0 - best.gap)
            for noise in affordable(steps, profile):
                yield {
                    "label": f"{TITLES[noise]}, T = {steps}",
                    "steps": steps,
                    "noise": TITLES[noise],
                    "least": least,
                    "error": error(noise, steps),
                    "beyond": error(noise, steps) / least - 1.0,
                }


def optimised(profile):
    """Free coefficients beside those in closed form, at one epoch."""
    for steps in SIZES[profile]:
        for name in FREE:
            closed, free = error(name, steps), error(f"{name}_optimised", steps)
            label = f"{TITLES[name]}, T = {steps}"
            yield {"label": label, "closed": closed, "free": free, "ratio": free / closed}


def buffers(profile):
    """Five buffers beside the Toeplitz root, which remembers everything, at one epoch."""
    for steps in SIZES[profile]:
        yield {
            "label": f"T = {steps}",
            "buffered": error("buffered_optimised", steps),
            "root": error("toeplitz", steps),
        }


def golden(profile):
    """Numbers known from dense algebra."""
    for noise, steps, band, epochs, known in GOLDEN:
        if noise == "optimal" and steps > LARGEST_OPTIMUM[profile]:
            continue
        band_text = "" if band is None else f", {band}"
        yield {
            "label": f"{noise}{band_text}, T = {steps}, epochs {epochs}",
            "known": known,
            "error": errors(made(noise, steps, band), epochs)[0],
        }


def growth(profile):
    """What a doubling of the steps adds to the error of noises that grow like a logarithm."""
    del profile
    per_doubling = {"tree": math.sqrt(0.5), "honaker": 0.5, "toeplitz": math.log(2.0) / math.pi}
    for noise, limit in per_doubling.items():
        few, many = (error(noise, 2**k) for k in (9, 13))
        yield {"label": TITLES[noise], "added": (many - few) / 4.0, "limit": limit}


def powers(profile):
    """The exponent of the error of noises that forget, at some hundred times the band."""
    del profile
    for noise in ("independent", "banded"):
        few, many = (error(noise, 2**k) for k in (13, 15))
        exponent = math.log(many / few) / math.log(4.0)
        yield {"label": TITLES[noise], "exponent": exponent, "limit": 0.5}


def narrow(profile):
    """A band of the inverse that beats the whole square root of A."""
    del profile
    for band in (32, 64):
        yield {
            "label": f"banded inverse, {band}",
            "error": errors(made("banded_inverse", 100, band))[0],
            "root": error("toeplitz", 100),
        }


def remembered(profile):
    """Four participations of a record beside those of four records, where noise never forgets.

    Not the plain tree, which pays for left halves alone, and visits may miss them: at T = 1000 four
    of them cost 32 for the 40 of four records, at T = 1024 they cost 54 for 44, in squares.
    """
    for steps in SIZES[profile]:
        for noise in ("honaker", "toeplitz", "buffered", "buffered_optimised", "optimal"):
            if noise in affordable(steps, profile):
                yield visits(noise, steps)


def forgotten(profile):
    """The same where ``C`` ends before a record comes back."""
    for steps in SIZES[profile]:
        if steps >= EPOCHS * 32:
            for noise in ("independent", "banded", "banded_optimised"):
                yield visits(noise, steps)


def visits(noise, steps):
    """Sensitivity to ``EPOCHS`` visits of one record, and to one each of as many records."""
    one, four = (made(noise, steps).sensitivity(epochs, even=True) for epochs in (1, EPOCHS))
    label = f"{TITLES[noise]}, T = {steps}"
    return {"label": label, "four": four, "separate": math.sqrt(EPOCHS) * one}


LINES = {
    "independent": ("grey", "line"),
    "tree": ("orange", "line"),
    "honaker": ("orange", "dashes"),
    "banded": ("green", "dashes"),
    "banded_optimised": ("green", "line"),
    "banded_inverse": ("purple", "dashes"),
    "banded_inverse_optimised": ("purple", "line"),
    "toeplitz": ("blue", "line"),
    "buffered_optimised": ("blue", "dashes"),
    "optimal": ("grey", "points"),
}


def plot(name, title, suffix):
    """One epoch and four, side by side."""
    return Plot(
        name,
        title,
        *(
            Panel(
                part="curves",
                title=text,
                x="steps",
                x_label="T",
                y_label="error at μ = 1",
                lines=tuple(
                    Line(f"{noise}_{where}{suffix}", TITLES[noise], *style)
                    for noise, style in LINES.items()
                ),
                log="xy",
            )
            for where, text in (
                ("one", "one epoch"),
                ("four", "four epochs"),
                ("anew", "four epochs, noise anew in each"),
            )
        ),
    )


experiment = Study(
    name="correlated_noises",
    title="Eight noises for running sums, at one guarantee",
    description=(
        "The error of a private running sum at μ = 1 under zero-out, per coordinate, gradients of "
        "norm at most 1. One epoch: every record takes part once; four epochs: four times, T/4 "
        "steps apart. Closed forms and, where a noise has free coefficients, those of least mean "
        "square error at one epoch. Memory is what a stream has to remember, in vectors of the "
        "size of a gradient.\n\n"
        "Trees, the Toeplitz root and five buffers grow like log T, with different constants; "
        "a band that is held fixed ends up growing like a root of T, as fresh noise does from the "
        "start. What is optimal at one epoch is not at four: there a band that ends before a "
        "record comes back pays the root of the number of epochs and no more, and everything else "
        "pays for what the visits of one record have in common."
    ),
    parts={
        part.__name__: part
        for part in (
            *(curves, noises, golden, optimum, optimised),
            *(buffers, narrow, growth, powers, remembered, forgotten, streams),
        )
    },
    claims=(
        Claim("known errors, to their last digits", "golden", "error = known ± 1e-4"),
        Claim("no noise has less error than the optimum", "optimum", "least <= error"),
        Claim("free coefficients are at least as good", "optimised", "free <= closed"),
        Claim(
            "five buffers do better than the root that remembers all", "buffers", "buffered < root"
        ),
        Claim(
            "T = 100: a banded inverse does better than the whole root", "narrow", "error < root"
        ),
        Claim(
            "a doubling adds 1/√2 (tree), 1/2 (Honaker), ln 2/π (Toeplitz)",
            "growth",
            "added = limit ± 0.02",
        ),
        Claim("fresh noise and a fixed band grow like √T", "powers", "exponent = limit ± 0.02"),
        Claim(
            "where noise never forgets, four visits of a record cost more than four records",
            "remembered",
            "separate < four",
        ),
        Claim(
            "where C ends before a record comes back, they cost the same",
            "forgotten",
            "four = separate ± 1e-9",
        ),
        Claim(
            "the device's noise has the variance of B B^T, up to 0.05 of it",
            "streams",
            "ratio = one ± 0.05",
        ),
    ),
    plots=(
        plot("errors", "Root mean square error of the prefix sums", ""),
        plot("largest_errors", "Largest standard error of a prefix sum", "_largest"),
    ),
    listings=(
        Listing(
            "noises",
            "Every noise: what it remembers, what it is charged, what it errs",
            Column("T", "{steps}"),
            Column("noise", "{noise}"),
            Column("vectors", "{memory}"),
            Column("sensitivity", "{sensitivity:.4f}"),
            Column("error", "{error:.4f}"),
            Column("largest", "{largest:.4f}"),
            Column("sensitivity, four epochs", "{sensitivity_four:.4f}"),
            Column("error, four epochs", "{error_four:.4f}"),
            Column("error, anew in each", "{error_anew:.4f}"),
        ),
        Listing(
            "optimum",
            "Beyond the optimum, one epoch",
            Column("T", "{steps}"),
            Column("noise", "{noise}"),
            Column("error", "{error:.4f}"),
            Column("beyond", "{beyond:.1%}"),
        ),
        Listing(
            "streams",
            f"Noise drawn over {STREAMED} steps: variance of the sum after t, over that of B B^T",
            Column("noise", "{noise}"),
            Column("t", "{t}"),
            Column("variance", "{exact:.4f}"),
            Column("measured over exact", "{ratio:.3f}"),
        ),
    ),
)
