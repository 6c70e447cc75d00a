"""Errors of all noises for running sums at one guarantee.

Errors and sensitivities are exact numbers of the factorisations; only the part ``streams`` samples.
An error is that of one coordinate of a prefix sum at ``mu = 1`` under zero-out, with gradients of
norm at most 1: the sensitivity times the square root of the mean, or largest, diagonal entry of
``B B^T``.
"""

import math
from functools import cache, partial

import jax
import jax.numpy as jnp
from scipy.stats import chi2

import privopt
from privopt.factorisations import FACTORISATIONS, RestartedFactorisation, factorise
from privopt.lab import Analysis, Claim, Listing, at_most, below, close, plotting, stream
from privopt.mechanisms import correlated_noise

SIZES = {"quick": (100, 1000, 10_000), "full": (100, 300, 1000, 3000, 10_000, 30_000, 100_000)}
LARGEST_OPTIMUM = {"quick": 100, "full": 1000}  # steps; the time is cubic in them
EPOCHS = 4
STREAMED, TIMES, COORDINATES = 60, (1, 7, 22, 45, 60), 50_000  # of the sampled noise
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
}
TITLES |= {f"{name}_optimised": f"{TITLES[name]}, optimised" for name in FREE}
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
def factorisation_of(noise, steps, band=None):
    """Return the factorisation of one of ``NOISES``."""
    name = noise.removesuffix("_optimised")
    return factorise(name, steps, band, optimise=name != noise)


@cache
def restarted(noise, steps):
    """Return the factorisation of one epoch, restarted in every epoch."""
    return RestartedFactorisation(factorisation_of(noise, steps // EPOCHS), steps)


@cache
def deviations(factorisation):
    """Return the root mean square and the largest standard error of a prefix sum at unit noise."""
    variances = factorisation.variances()
    return math.sqrt(variances.mean()), math.sqrt(variances.max())


def errors(factorisation, epochs=1):
    """Return the same at ``mu = 1`` if every record participates ``epochs`` times, evenly."""
    sensitivity = factorisation.sensitivity(epochs, even=True)
    return tuple(sensitivity * deviation for deviation in deviations(factorisation))


def error(noise, steps):
    """Return the root mean square error in one epoch."""
    return errors(factorisation_of(noise, steps))[0]


def computed(profile, noises=NOISES):
    """Yield the number of steps and the noise, without optimal factorisations of many steps."""
    for steps in SIZES[profile]:
        for noise in noises:
            if noise != "optimal" or steps <= LARGEST_OPTIMUM[profile]:
                yield steps, noise


def curves(profile):
    """Yield a row for each number of steps, with the errors of every noise."""
    rows = {steps: {"label": f"T = {steps}", "steps": steps} for steps in SIZES[profile]}
    for steps, noise in computed(profile):
        for factorisation, epochs, suffix in (
            (factorisation_of(noise, steps), 1, "one"),
            (factorisation_of(noise, steps), EPOCHS, "four"),
            (restarted(noise, steps), EPOCHS, "anew"),
        ):
            names = f"{noise}_{suffix}", f"{noise}_{suffix}_largest"
            rows[steps] |= dict(zip(names, errors(factorisation, epochs), strict=True))
    return rows.values()


def noises(profile):
    """Yield a row for each noise and number of steps, with the size of its state."""
    for steps, noise in computed(profile):
        factorisation = factorisation_of(noise, steps)
        state = jax.eval_shape(correlated_noise(factorisation).init, jnp.zeros(1))
        mean, largest = errors(factorisation)
        yield {
            "label": f"{TITLES[noise]}, T = {steps}", "steps": steps, "noise": TITLES[noise],
            "memory": sum(vectors.size for vectors in jax.tree.leaves(state)),
            "sensitivity": factorisation.sensitivity(), "error": mean, "largest": largest,
            "sensitivity_four": factorisation.sensitivity(EPOCHS, even=True),
            "error_four": errors(factorisation, EPOCHS)[0],
            "error_anew": errors(restarted(noise, steps), EPOCHS)[0],
        }  # fmt: skip


def streams(profile):
    """Yield the variance of running sums of sampled noise, over independent coordinates.

    The intervals have joint level 0.99.
    """
    names = FACTORISATIONS if profile == "full" else ("tree", "banded_inverse", "buffered")
    factorisations = {TITLES[noise]: factorisation_of(noise, STREAMED) for noise in names}
    if profile == "full":
        factorisations["tree, anew in each epoch"] = restarted("tree", STREAMED)
    level = 0.01 / len(factorisations) / len(TIMES)
    low, high = (chi2.ppf(tail, COORDINATES) for tail in (1.0 - level / 2.0, level / 2.0))
    for name, factorisation in factorisations.items():
        noise = correlated_noise(factorisation)
        squares = mean_squares(noise, stream(0, noise=name))
        exact = noise.factorisation(STREAMED).variances()
        for t in TIMES:
            ratio = COORDINATES * float(squares[t - 1] / exact[t - 1])
            yield {
                "label": f"{name}, t = {t}", "noise": name, "t": t, "exact": exact[t - 1],
                "ratio": privopt.Interval(ratio / low, ratio / high), "one": 1.0,
            }  # fmt: skip


@jax.jit
def mean_squares(noise, key):
    """Return the mean square of every running sum over the coordinates."""
    like = jnp.zeros(COORDINATES)

    def step(carry, t):
        state, total = carry
        z, state = noise.update(state, t, key, like)
        return (state, total + z), jnp.mean((total + z) ** 2)

    return jax.lax.scan(step, (noise.init(like), like), jnp.arange(STREAMED))[1]


def optimum(profile):
    """Yield the error of every noise and the certified lower bound on the error of any noise."""
    for steps, noise in computed(profile):
        if steps <= LARGEST_OPTIMUM[profile]:
            best = factorisation_of("optimal", steps)
            least = best.rmse() * math.sqrt(1.0 - best.gap)
            yield {
                "label": f"{TITLES[noise]}, T = {steps}", "steps": steps, "noise": TITLES[noise],
                "least": least, "error": error(noise, steps),
                "beyond": error(noise, steps) / least - 1.0,
            }  # fmt: skip


def optimised(profile):
    """Yield the errors of optimised coefficients and of those in closed form, in one epoch."""
    for steps, name in computed(profile, FREE):
        closed, free = error(name, steps), error(f"{name}_optimised", steps)
        label = f"{TITLES[name]}, T = {steps}"
        yield {"label": label, "closed": closed, "free": free, "ratio": free / closed}


def buffers(profile):
    """Yield the errors of five buffers and of the Toeplitz root, which has a state of T vectors."""
    for steps in SIZES[profile]:
        pair = {"buffered": error("buffered_optimised", steps), "root": error("toeplitz", steps)}
        yield {"label": f"T = {steps}"} | pair


def golden(profile):
    """Yield errors and their values from dense linear algebra."""
    for noise, steps, band, epochs, expected in GOLDEN:
        if noise != "optimal" or steps <= LARGEST_OPTIMUM[profile]:
            band_text = "" if band is None else f", {band}"
            yield {
                "label": f"{noise}{band_text}, T = {steps}, epochs {epochs}", "known": expected,
                "error": errors(factorisation_of(noise, steps, band), epochs)[0],
            }  # fmt: skip


def growth(profile):
    """Yield the error that a doubling of the steps adds for noises with logarithmic error."""
    del profile
    per_doubling = {"tree": math.sqrt(0.5), "honaker": 0.5, "toeplitz": math.log(2.0) / math.pi}
    for noise, limit in per_doubling.items():
        few, many = (error(noise, 2**k) for k in (9, 13))
        yield {"label": TITLES[noise], "added": (many - few) / 4.0, "limit": limit}


def powers(profile):
    """Yield the exponent of the error of noises with a short state, at 200 times the band."""
    del profile
    for noise in ("independent", "banded"):
        few, many = (error(noise, 2**k) for k in (13, 15))
        exponent = math.log(many / few) / math.log(4.0)
        yield {"label": TITLES[noise], "exponent": exponent, "limit": 0.5}


def narrow(profile):
    """Yield the errors of banded inverses and of the complete square root of ``A``."""
    del profile
    for band in (32, 64):
        banded = errors(factorisation_of("banded_inverse", 100, band))[0]
        yield {
            "label": f"banded inverse, {band}", "error": banded, "root": error("toeplitz", 100)
        }  # fmt: skip


def repeated(noises, least, profile):
    """Yield sensitivities to four participations of one record, and to those of four records.

    The plain tree is not among the noises: only left halves have a cost, and participations may all
    be in right halves. The squared sensitivities are 32 and 40 at T = 1000, 54 and 44 at T = 1024.
    """
    for steps, noise in computed(profile, noises):
        if steps >= least:
            factorisation = factorisation_of(noise, steps)
            one, four = (factorisation.sensitivity(count, even=True) for count in (1, EPOCHS))
            label = f"{TITLES[noise]}, T = {steps}"
            yield {"label": label, "four": four, "separate": math.sqrt(EPOCHS) * one}


LINES = {
    "independent": {"color": plotting.GREY},
    "tree": {"color": plotting.ORANGE},
    "honaker": {"color": plotting.ORANGE, "ls": "--"},
    "banded": {"color": plotting.GREEN, "ls": "--"},
    "banded_optimised": {"color": plotting.GREEN},
    "banded_inverse": {"color": plotting.PURPLE, "ls": "--"},
    "banded_inverse_optimised": {"color": plotting.PURPLE},
    "toeplitz": {"color": plotting.BLUE},
    "buffered_optimised": {"color": plotting.SKY, "ls": "--"},
    "optimal": {"color": plotting.INK, "marker": "o"},
}


def errors_figure(frames, suffix="", quantity="root mean square error"):
    """Root mean square error of the prefix sums against the number of steps.

    Exact values, at the same guarantee. Toeplitz noise and five buffers are close to the optimum in
    one epoch. The error of fixed bands grows like the square root of T.
    """
    parts = {
        "one": "one epoch", "four": "four epochs", "anew": "four epochs, restarted in each"
    }  # fmt: skip
    title = f"Noises for running sums: {quantity} against the number of steps T"
    figure, panels = plotting.panels(title, *parts.values())
    for part, axes in zip(parts, panels, strict=True):
        axes.set(xlabel="T", ylabel="error at μ = 1", xscale="log", yscale="log")
        for noise, style in LINES.items():
            column = f"{noise}_{part}{suffix}"
            plotting.curve(axes, frames["curves"], "steps", column, label=TITLES[noise], **style)
    return figure


def largest_errors_figure(frames):
    """Largest standard error of a prefix sum against the number of steps.

    Exact values, at the same guarantee. The order of the noises is that of the root mean square
    errors.
    """
    return errors_figure(frames, "_largest", "largest standard error")


UNENDING = ("honaker", "toeplitz", "buffered", "buffered_optimised", "optimal")
experiment = Analysis(
    name="correlated_noises",
    title="Eight noises for running sums: errors at one guarantee",
    description=(
        "The error of a private running sum at μ = 1 under zero-out, per coordinate, for gradients "
        "of norm at most 1. In one epoch every record participates once; in four epochs it "
        "participates four times, T/4 steps apart. Free coefficients are in closed form, or have "
        "the smallest mean square error in one epoch (optimised). The state of a stream is given "
        "in vectors of the size of a gradient.\n\n"
        "The errors of trees, the Toeplitz root and five buffers grow like log T, with different "
        "constants. The errors of a fixed band and of independent noise grow like √T. Over four "
        "epochs the optimum of one epoch is not optimal: if the band of C is shorter than an "
        "epoch, the error grows by the square root of the number of epochs; otherwise the "
        "participations of a record are correlated, which costs more."
    ),
    parts={part.__name__: part for part in (curves, noises, golden, optimum, optimised)}
    | {part.__name__: part for part in (buffers, narrow, growth, powers)}
    | {
        "remembered": partial(repeated, UNENDING, 0),
        "forgotten": partial(
            repeated, ("independent", "banded", "banded_optimised"), EPOCHS * 32
        ),
        "streams": streams,
    },
    claims=(
        Claim("the errors are the known ones up to 1e-4", "golden", close("error", "known", 1e-4)),
        Claim("no noise has a smaller error than the optimum", "optimum",
              at_most("least", "error")),
        Claim("optimised coefficients have at most the error of closed forms", "optimised",
              at_most("free", "closed")),
        Claim("five buffers have a smaller error than the Toeplitz root", "buffers",
              below("buffered", "root")),
        Claim("at T = 100 a banded inverse has a smaller error than the Toeplitz root", "narrow",
              below("error", "root")),
        Claim("a doubling of T adds 1/√2 (tree), 1/2 (Honaker), ln 2/π (Toeplitz)", "growth",
              close("added", "limit", 0.02)),
        Claim("errors of independent noise and of a fixed band grow like √T", "powers",
              close("exponent", "limit", 0.02)),
        Claim("with unbounded C, four participations of a record cost more than four records",
              "remembered", below("separate", "four")),
        Claim("with a band shorter than an epoch they cost the same", "forgotten",
              close("four", "separate", 1e-9)),
        Claim("sampled noise has the variance of B B^T up to 5 %", "streams",
              close("ratio", "one", 0.05)),
    ),
    figures={"errors": errors_figure, "largest_errors": largest_errors_figure},
    listings=(
        Listing(
            "noises",
            "State, sensitivity and error of every noise",
            {"T": "{steps}", "noise": "{noise}", "vectors": "{memory}"}
            | {
                head: f"{{{name}:.4f}}"
                for head, name in {
                    "sensitivity": "sensitivity", "error": "error", "largest": "largest",
                    "sensitivity, four epochs": "sensitivity_four",
                    "error, four epochs": "error_four", "error, restarted": "error_anew",
                }.items()
            },
        ),
        Listing(
            "optimum",
            "Errors relative to the optimum, one epoch",
            {"T": "{steps}", "noise": "{noise}", "error": "{error:.4f}", "excess": "{beyond:.1%}"},
        ),
        Listing(
            "streams",
            f"Noise sampled over {STREAMED} steps: variance of the sum after t steps",
            {"noise": "{noise}", "t": "{t}", "variance": "{exact:.4f}",
             "measured / exact": "{ratio:.3f}"},
        ),
    ),
)  # fmt: skip
