"""Certified prediction: noise at the input, two radii of one certificate, and attacks on both."""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen
from scipy.stats import binom, norm

from privopt import Interval, problems
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.statistics import Certificate, Votes, clopper_pearson, noisy_votes

FAILURE = 1e-3  # of one certificate
SIGMAS = (0.25, 0.5, 1.0)
DEPTHS = {"half": 0.5, "one": 1.0, "two": 2.0}  # margins, of the noise
SIGMA, BLOCK = 0.5, 100  # of the votes on margins
BATCH, NOISES = 256, 10_007  # records of a step; noises that training takes in turn
RADII = np.linspace(0.0, 1.5, 61)
MULTIPLES = (0.99, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0)


class Images(NamedTuple):
    """A data set, and what is public of it."""

    side: int
    scale: float  # of rows of norm 1 at most
    test: str  # the published test part, or nothing: the first fifth of the public order
    attacked: tuple[float, ...]  # the noise at which attacks are made


DATA = {"digits": Images(8, 8.0, "", SIGMAS), "mnist": Images(14, 4.0, "mnist_test", (0.5,))}


class Sizes(NamedTuple):
    """How much of everything."""

    steps: int  # of training
    inputs: int  # that are certified
    samples: int  # votes on each
    attacked: int  # inputs
    restarts: int  # of an attack
    moves: int  # of a restart
    copies: int  # of an input, whose gradient is the mean's
    margin: tuple[int, ...]  # votes
    trials: int  # of the test


SIZES = {
    "quick": Sizes(400, 30, 2_000, 6, 10, 10, 8, (100, 1_000, 10_000), 100_000),
    "full": Sizes(
        2_000, 300, 10_000, 12, 100, 20, 16, (100, 1_000, 10_000, 100_000, 1_000_000), 1_000_000
    ),
}


class Linear(linen.Module):
    """Scores that are linear in the pixels."""

    @linen.compact
    def __call__(self, image):  # noqa: D102
        return linen.Dense(10)(image.ravel())


def patches(image):
    """Every second 3 x 3 patch of ``(h, w, c)``: a convolution is one matrix product with them.

    In a loop on a CPU that is ten times as fast as XLA's own.
    """
    padded = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))
    rows, columns = (2 * ((side + 1) // 2) for side in image.shape[:2])
    corners = [(i, j) for i in range(3) for j in range(3)]
    return jnp.concatenate([padded[i : i + rows : 2, j : j + columns : 2] for i, j in corners], -1)


class Convolutions(linen.Module):
    """Two convolutions, which halve the side each, and a linear layer."""

    @linen.compact
    def __call__(self, image):  # noqa: D102
        image = image[..., None]
        for features in (16, 32):
            image = linen.relu(linen.Dense(features)(patches(image)))
        return linen.Dense(10)(image.ravel())


MODELS = {"linear": Linear(), "network": Convolutions()}
SAID = {"linear": "linear", "network": "convolutions"}


@cache
def images(name):
    """Training and test images with their digits; pixels of digits are in [0, 1]."""
    of = DATA[name]
    whole = problems.DATASETS[name]()
    fifth = len(whole.labels) // 5
    whole = whole.subset(len(whole.labels))
    test = problems.DATASETS[of.test]() if of.test else whole
    parts = (
        (whole, slice(0 if of.test else fifth, None)),
        (test, slice(0, None if of.test else fifth)),
    )
    return tuple(
        (
            (of.scale * each.features[part]).reshape(-1, of.side, of.side).astype(np.float32),
            each.classes[part].astype(np.int32),
        )
        for each, part in parts
    )


@partial(jax.jit, static_argnames=("model", "steps"))
def fitted(model, start, sigma, pixels, digits, noise, steps):
    """Parameters that score noisy images well: Adam on cross-entropy, ``noise`` in turn."""
    optimiser = optax.adam(optax.cosine_decay_schedule(3e-3, steps))

    def loss(parameters, noisy, truth):
        scores = jax.vmap(partial(MODELS[model].apply, parameters))(noisy)
        return optax.softmax_cross_entropy_with_integer_labels(scores, truth).mean()

    def step(state, t):
        parameters, memory = state
        turn = BATCH * t + jnp.arange(BATCH)
        rows, copies = turn % len(digits), turn % len(noise)
        gradient = jax.grad(loss)(parameters, pixels[rows] + sigma * noise[copies], digits[rows])
        moved, memory = optimiser.update(gradient, memory)
        return (optax.apply_updates(parameters, moved), memory), None

    return jax.lax.scan(step, (start, optimiser.init(start)), jnp.arange(steps))[0][0]


@partial(jax.jit, static_argnames=("model", "samples"))
def voted(model, parameters, sigma, x, key, samples):
    """Votes on one image."""
    scores = partial(MODELS[model].apply, parameters)
    return noisy_votes(scores, x, sigma, key, samples=samples)


def certificates(model, parameters, sigma, pixels, key, samples):
    """One for each image."""
    return [
        Certificate.of(
            voted(model, parameters, sigma, x, jax.random.fold_in(key, i), samples),
            failure=FAILURE,
        )
        for i, x in enumerate(pixels)
    ]


@cache
def certified(profile, name, model, sigma):
    """``(parameters, certificates)`` of the first test images."""
    size, ((pixels, digits), (held_out, _)) = SIZES[profile], images(name)
    at = partial(stream, 0, data=name, model=model, sigma=sigma)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(NOISES, *pixels.shape[1:])).astype(np.float32)
    start = jax.tree.map(
        lambda leaf: np.float32(rng.normal(size=leaf.shape) / np.sqrt(leaf.shape[0])),
        jax.eval_shape(MODELS[model].init, at(role="start"), pixels[0]),
    )
    parameters = fitted(model, start, sigma, pixels, digits, noise, size.steps)
    asked = model, parameters, sigma, held_out[: size.inputs], at(role="votes"), size.samples
    return parameters, certificates(*asked)


@cache
def radii(profile, name, model, sigma):
    """Of every image by each rule, shape ``(2, inputs)``, and whether its class is right."""
    found, truth = certified(profile, name, model, sigma)[1], images(name)[1][1]
    both = [[each.radius for each in found], [each.radius_by_epsilon for each in found]]
    return np.array(both), np.array([a.predicted == b for a, b in zip(found, truth, strict=False)])


def settings(name, sigmas=SIGMAS):
    """Every model at every noise, and how columns call it."""
    for model in MODELS:
        for sigma in sigmas:
            yield model, sigma, f"{model}_{100 * sigma:.0f}"


def accuracy(profile, name):
    """Share of test images whose class is right and certified at a radius."""
    found = {column: radii(profile, name, *at) for *at, column in settings(name)}
    for radius in RADII:
        row = {"label": f"r = {radius:g}", "radius": float(radius)}
        for column, (both, right) in found.items():
            for rule, each in zip(("", "_epsilon"), both, strict=True):
                row[column + rule] = float(np.mean(right & (each > radius)))
        yield row


def inputs(profile, name):
    """What the images of one model at one noise have in common."""
    for model, sigma, _ in settings(name):
        (one, other), right = radii(profile, name, model, sigma)
        yield {
            "label": f"{SAID[model]}, σ = {sigma:g}",
            "inputs": one.size,
            "abstains": float(np.mean(one == 0.0)),
            "right": float(np.mean(right)),
            "mean": float(np.mean(right * one)),
            "mean_epsilon": float(np.mean(right * other)),
            "most": float(one.max()),
            "most_epsilon": float(other.max()),
            "least_gap": float(np.min(one - other)),
            "zero": 0.0,
        }


@partial(jax.jit, static_argnames="model")
def attacked(model, parameters, sigma, x, predicted, radius, starts, noise, fresh):
    """The point within ``radius`` of ``x`` that fewest noisy copies call ``predicted``.

    Projected gradient steps on the mean probability of noisy copies, ``noise`` of shape ``(moves,
    copies, ...)``, from random points, ``starts``; the end of each is judged by ``fresh`` copies.
    """
    scores = jax.vmap(partial(MODELS[model].apply, parameters))

    def loss(move, copies):
        probabilities = jax.nn.softmax(scores(x + move + sigma * copies))
        return -jnp.log(probabilities[:, predicted].mean() + 1e-12)

    def projected(move):
        return move * jnp.minimum(1.0, radius / (jnp.linalg.norm(move) + 1e-12))

    def step(move, copies):
        uphill = jax.grad(loss)(move, copies)
        length = 2.5 * radius / len(noise) / (jnp.linalg.norm(uphill) + 1e-12)
        return projected(move + length * uphill), None

    def restart(start):
        move = jax.lax.scan(step, projected(1e6 * start), noise)[0]
        counts = jnp.bincount(jnp.argmax(scores(x + move + sigma * fresh), axis=1), length=10)
        return move, counts[predicted] - counts.at[predicted].set(0).max()

    moves, ahead = jax.lax.map(restart, starts, batch_size=10)
    return x + moves[jnp.argmin(ahead)]


@cache
def broken(profile, name, model, sigma):
    """At each multiple of the radius: inputs, how many changed for certain, how many are open."""
    size, pixels = SIZES[profile], images(name)[1][0]
    parameters, found = certified(profile, name, model, sigma)
    chosen = [i for i, each in enumerate(found) if each.predicted is not None][: size.attacked]
    were, rows = [found[i].predicted for i in chosen], []
    for place, multiple in enumerate(MULTIPLES):
        rng = np.random.default_rng(place)
        shapes = (size.restarts,), (size.moves, size.copies), (200,)
        drawn = [rng.normal(size=(*each, *pixels.shape[1:])).astype(np.float32) for each in shapes]
        radii = [multiple * found[i].radius for i in chosen]
        ends = [
            attacked(model, parameters, sigma, pixels[i], predicted, radius, *drawn)
            for i, predicted, radius in zip(chosen, were, radii, strict=True)
        ]
        key = stream(0, data=name, model=model, sigma=sigma, role="judge", multiple=multiple)
        judged = certificates(model, parameters, sigma, ends, key, size.samples)
        told = [each.predicted for each in judged]
        fell = sum(now not in (None, was) for now, was in zip(told, were, strict=True))
        rows.append((len(ends), fell, told.count(None)))
    return rows


def attacks(profile, name):
    """The share that breaks at each multiple of the certified radius."""
    for place, multiple in enumerate(MULTIPLES):
        row = {"label": f"{multiple:g} of the radius", "multiple": multiple}
        for model, sigma, column in settings(name, DATA[name].attacked):
            count, fell, _ = broken(profile, name, model, sigma)[place]
            row[column] = fell / count
        yield row


def within(profile, name):
    """Inside the certified radius nothing may break; far outside, something must."""
    for model, sigma, _ in settings(name, DATA[name].attacked):
        rows = broken(profile, name, model, sigma)
        yield {
            "label": f"{SAID[model]}, \u03c3 = {sigma:g}",
            "inputs": rows[0][0],
            "inside": rows[0][1],
            "unsettled": rows[0][2],
            "outside": max(fell for _, fell, _ in rows[1:]),
            "none": 0,
        }


@cache
def margins(profile):
    """Exact margins of three images, and running votes on them, shape ``(3, blocks, 2)``.

    Of a linear classifier of even and odd digits, by least squares without noise.
    """
    (pixels, digits), (held_out, _) = images("digits")
    flat, signs = pixels.reshape(len(pixels), -1), np.where(digits % 2, -1.0, 1.0)
    plane = np.linalg.solve(flat.T @ flat + 100.0 * np.eye(flat.shape[1]), flat.T @ signs)
    distances = held_out.reshape(len(held_out), -1) @ plane / np.linalg.norm(plane)
    chosen = [int(np.argmin(abs(abs(distances) - depth * SIGMA))) for depth in DEPTHS.values()]
    right_first = np.sign(distances[chosen, None, None]) * held_out[chosen]
    plane = jnp.asarray(plane.reshape(8, 8), jnp.float32)

    def scores(image):
        return jnp.sum(image * plane) * jnp.array([1.0, -1.0])

    def votes(image, key):
        return noisy_votes(scores, image, SIGMA, key, samples=BLOCK, choosing=1).counts

    blocks = SIZES[profile].margin[-1] // BLOCK
    keys = replicate_keys(stream(0, role="margin"), 3 * blocks).reshape(3, blocks)
    found = jax.jit(
        lambda images: jax.lax.map(
            lambda each: jax.lax.map(lambda key: votes(each[0], key), each[1]), (images, keys)
        )
    )(jnp.asarray(right_first, jnp.float32))
    return abs(distances[chosen]), np.cumsum(np.asarray(found), axis=1)


def margin(profile):
    """A linear classifier of two classes, whose exact radius is the distance from its plane.

    With so many votes, and with as few votes for it as has probability ``failure``.
    """
    sizes = SIZES[profile].margin
    exact, running = margins(profile)
    failure = FAILURE / exact.size / len(sizes)

    def certificate(votes):
        return Certificate.of(Votes(0, votes, 0, SIGMA), failure=failure)

    for samples in sizes:
        row = {"label": f"{samples:,} votes", "samples": samples, "whole": 1.0}
        for name, distance, votes in zip(DEPTHS, exact, running, strict=True):
            few = int(binom.ppf(failure, samples, norm.cdf(distance / SIGMA)))
            found = certificate(votes[samples // BLOCK - 1])
            unlucky = certificate(np.array([few, samples - few]))
            row |= {
                f"ratio_{name}": found.radius / float(distance),
                f"epsilon_{name}": found.radius_by_epsilon / float(distance),
                f"least_{name}": unlucky.radius / float(distance),
            }
        yield row


RISK, COPIES, FIRST = 0.01, 500, 100
LAWS = {
    "two classes, even": (0.5, 0.5),
    "two classes, 0.6": (0.6, 0.4),
    "two classes, 0.95": (0.95, 0.05),
    "three classes, two even": (0.4, 0.4, 0.2),
    "three classes, 0.6": (0.6, 0.3, 0.1),
}


def wrong(law, trials, *, fresh=True, failure=RISK):
    """Of so many certificates those that are wrong: at a radius where the class is another."""
    rng, law = np.random.default_rng(0), np.array(law)
    counts = rng.multinomial(COPIES, law, size=trials)
    first = rng.multinomial(FIRST, law, size=trials) if fresh else counts
    cases = np.column_stack([first.argmax(axis=1), counts])
    cases, times = np.unique(cases, axis=0, return_counts=True)
    bad = 0
    for (chosen, *votes), count in zip(cases, times, strict=True):
        found = Certificate.of(Votes(chosen, np.array(votes), 0, 1.0), failure=failure)
        rival = np.delete(law, chosen).max()
        true = 0.5 * (norm.ppf(law[chosen]) - norm.ppf(rival))
        bad += int(count) * (found.radius > max(0.0, true))
    low, high = clopper_pearson(bad, trials, 5e-4)
    return bad / trials, Interval(float(low), float(high))


def coverage(profile):
    """How often the abstaining test is wrong, true probabilities being known."""
    for label, law in LAWS.items():
        trials = SIZES[profile].trials // (1 if len(law) == 2 else 50)
        share, interval = wrong(law, trials)
        yield {
            "label": label, "trials": trials, "wrong": float(share), "interval": interval,
            "low": interval.lower, "failure": RISK,
        }  # fmt: skip


def controls(profile):
    """The same test, broken in two ways, where two classes are even."""
    trials = SIZES[profile].trials
    for label, broken_by in (
        ("chosen and bounded on one sample", {"fresh": False}),
        ("bounds at twice the failure", {"failure": 2.0 * RISK}),
    ):
        share, interval = wrong(LAWS["two classes, even"], trials, **broken_by)
        yield {"label": label, "wrong": share, "interval": interval, "failure": RISK}


COLOURS = dict(zip(SIGMAS, ("blue", "orange", "green"), strict=True))


def lines(model, sigmas, style, told="", rule=""):
    """A line a noise."""
    return tuple(
        Line(f"{model}_{100 * s:.0f}{rule}", f"{told}σ = {s:g}", COLOURS[s], style) for s in sigmas
    )


def shown(name):
    """Parts, claims, plots and listings that every data set has."""
    sigmas = DATA[name].attacked
    return {
        "parts": {
            part.__name__: (lambda profile, part=part: part(profile, name))
            for part in (accuracy, inputs, attacks, within)
        },
        "claims": (
            Claim("no radius by epsilon is above that by f-DP", "inputs", "zero <= least_gap"),
            Claim("attacks within the radius break no certificate", "within", "inside <= none"),
            Claim("control: beyond it they break some", "within", "none < outside"),
        ),
        "plots": (
            Plot(
                "accuracy",
                f"Certified accuracy on {name}: by f-DP (lines), by ε and δ (dashes)",
                *(
                    Panel(
                        part="accuracy", x="radius", x_label="radius, l2", title=SAID[model],
                        y_label="right, and certified at the radius",
                        lines=lines(model, SIGMAS, "line")
                        + lines(model, SIGMAS, "dashes", "ε, δ: ", "_epsilon"),
                    )
                    for model in MODELS
                ),
            ),
            Plot(
                "attacks",
                f"Projected gradient attacks on {name}",
                Panel(
                    part="attacks", x="multiple", log="x",
                    x_label="radius of the attack over the certified one",
                    y_label="share of certified inputs broken",
                    lines=lines("network", sigmas, "line", "convolutions, ")
                    + lines("linear", sigmas, "dashes", "linear, "),
                ),
            ),
        ),
        "listings": (
            Listing(
                "inputs",
                "Certificates at failure 0.001 each",
                Column("classifier", "{label}"),
                Column("inputs", "{inputs}"),
                Column("abstains", "{abstains:.3f}"),
                Column("right", "{right:.3f}"),
                Column("mean radius, 0 where wrong", "{mean:.3f}"),
                Column("mean by ε and δ", "{mean_epsilon:.3f}"),
                Column("largest", "{most:.3f}"),
                Column("largest by ε and δ", "{most_epsilon:.3f}"),
                Column("least difference", "{least_gap:.2g}", "zero <= least_gap"),
            ),
            Listing(
                "within",
                "Attacks: certified inputs that take another class for certain",
                Column("classifier", "{label}"),
                Column("inputs", "{inputs}"),
                Column("within 0.99 of the radius", "{inside}", "inside <= none"),
                Column("of which it abstains", "{unsettled}"),
                Column("within 1.25 to 8 of it", "{outside}", "none < outside"),
            ),
        ),
    }  # fmt: skip


COMMON = (
    "A classifier votes on copies of an input with Gaussian noise σ in every pixel. Under the "
    f"relation `{Certificate.relation}`, at distance r, the vote is r/σ-Gaussian DP, so its winner "
    "stays within σ/2 (Φ⁻¹ p₁ - Φ⁻¹ p₂), by Cohen, Rosenfeld and Kolter (2019); dashes are the "
    "same votes by the condition of PixelDP (Lecuyer et al. 2019), lower score > e^2ε upper score "
    "+ (1 + e^ε) δ, at the best ε. One failure in 1,000 for each input, by Clopper and Pearson on "
    "votes that did not choose the class. The classifiers are public models, trained on noisy "
    "images without privacy: this is the mathematics of privacy for robustness, and protects no "
    "record.\n\nAttacks: projected gradient steps on the mean probability of noisy copies, the "
    "worst of all restarts judged by fresh votes. An input is broken where these prove another "
    "class; each radius is attacked by itself, so the share need not grow. "
)
FULL = SIZES["full"]
OF_FULL = (
    f"Full profile: {FULL.samples:,} votes an input, {FULL.attacked} inputs attacked, "
    f"{FULL.restarts} restarts of {FULL.moves} steps on {FULL.copies} copies."
)

SAID_OF = (("half", "σ/2", "blue"), ("one", "σ", "orange"), ("two", "2 σ", "green"))
KINDS = (("ratio", "", "line"), ("epsilon", ", ε", "dashes"))
of_digits = shown("digits")
experiment = Study(
    name="certified_prediction",
    title="Noise at the input certifies a prediction, by f-DP further than by ε and δ",
    description=(
        COMMON + "Here: digits, 8 × 8 pixels in [0, 1], the first fifth of the public order held "
        "out. " + OF_FULL + "\n\nOf a linear classifier of two classes the exact radius is its "
        "margin. The abstaining test is simulated at failure 0.01, beside two that are broken."
    ),
    parts={**of_digits["parts"], **{p.__name__: p for p in (margin, coverage, controls)}},
    claims=(
        *of_digits["claims"],
        *(
            claim
            for depth, said, _ in SAID_OF
            for claim in (
                Claim(f"no radius above a margin of {said}", "margin", f"ratio_{depth} <= whole"),
                Claim(
                    f"nor below it by more than votes allow, at {said}",
                    "margin",
                    f"least_{depth} <= ratio_{depth}",
                ),
            )
        ),
        Claim("wrong no more often than promised", "coverage", "low <= failure"),
        Claim("control: a broken test is wrong more often", "controls", "failure < interval"),
    ),
    plots=(
        *of_digits["plots"],
        Plot(
            "margin",
            "Two classes, linear: radius over exact margin, by f-DP (lines), by ε and δ (dashes)",
            Panel(
                part="margin", x="samples", x_label="votes", y_label="radius over margin", log="x",
                lines=(
                    Line("whole", "the margin", "grey"),
                    *(
                        Line(f"{column}_{depth}", f"margin {said}{told}", colour, style)
                        for column, told, style in KINDS
                        for depth, said, colour in SAID_OF
                    ),
                ),
            ),
        ),
    ),
    listings=(
        *of_digits["listings"],
        Listing(
            "coverage",
            f"Certificates that are wrong, at failure {RISK:g} and {COPIES:,} votes",
            Column("probabilities", "{label}"),
            Column("trials", "{trials:,}"),
            Column("share wrong", "{wrong:.5f}", "low <= failure"),
            Column("at 99.9 %", "{interval:.5f}"),
        ),
        Listing(
            "controls",
            "The same of a broken test, two classes even",
            Column("test", "{label}"),
            Column("share wrong", "{wrong:.5f}", "failure < interval"),
            Column("at 99.9 %", "{interval:.5f}"),
        ),
    ),
)  # fmt: skip

mnist = Study(
    name="certified_mnist",
    title="Certified prediction on MNIST: f-DP certifies further than ε and δ",
    description=(
        COMMON + "Here: MNIST, means of 2 × 2 pixels, rows cut to norm 1 and scaled to 4, so that "
        "pixels are about in [0, 1]; the first of the published test part. " + OF_FULL
    ),
    profiles=("full",),
    needs=("mnist", "mnist_test"),
    **shown("mnist"),
)  # fmt: skip
