"""Certified prediction with noisy inputs: two radii of one certificate, and attacks on both."""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen
from scipy.stats import binom, norm

from privopt import Interval, problems
from privopt.lab import Analysis, Claim, Listing, at_most, below, plotting, replicate_keys, stream
from privopt.statistics import Certificate, Votes, clopper_pearson, noisy_votes

FAILURE = 1e-3  # of one certificate
SIGMAS = (0.25, 0.5, 1.0)
DEPTHS = {"half": 0.5, "one": 1.0, "two": 2.0}  # margins divided by the noise
SIGMA, BLOCK = 0.5, 100  # of the votes on margins
BATCH, NOISES = 256, 10_007  # records of a step; noise images that training uses in turn
RADII = np.linspace(0.0, 1.5, 61)
MULTIPLES = (0.99, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0)


class Images(NamedTuple):
    """A data set with its public constants."""

    side: int
    scale: float  # of rows with norm at most 1
    test: str  # published test part; without one, the first fifth of the public order
    attacked: tuple[float, ...]  # noise of the attacked classifiers


DATA = {"digits": Images(8, 8.0, "", SIGMAS), "mnist": Images(14, 4.0, "mnist_test", (0.5,))}


class Sizes(NamedTuple):
    """The sizes of a profile."""

    steps: int  # of training
    inputs: int  # certified images
    samples: int  # votes per image
    attacked: int  # attacked images
    restarts: int  # per attack
    moves: int  # steps per restart
    copies: int  # noisy copies per gradient
    margin: tuple[int, ...]  # votes on margins
    trials: int  # of the simulated test


SIZES = {
    "quick": Sizes(400, 30, 2_000, 6, 10, 10, 8, (100, 1_000, 10_000), 100_000),
    "full": Sizes(
        2_000, 300, 10_000, 12, 100, 20, 16, (100, 1_000, 10_000, 100_000, 1_000_000), 1_000_000
    ),
}


class Linear(linen.Module):
    """Linear scores."""

    @linen.compact
    def __call__(self, image):  # noqa: D102
        return linen.Dense(10)(image.ravel())


def patches(image):
    """Return the 3 x 3 patches of ``(h, w, c)`` with stride 2.

    On a CPU, a product of patches and a matrix is ten times as fast as the convolutions of XLA.
    """
    padded = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))
    rows, columns = (2 * ((side + 1) // 2) for side in image.shape[:2])
    corners = [(i, j) for i in range(3) for j in range(3)]
    return jnp.concatenate([padded[i : i + rows : 2, j : j + columns : 2] for i, j in corners], -1)


class Convolutions(linen.Module):
    """Two convolutions with stride 2, and a linear layer."""

    @linen.compact
    def __call__(self, image):  # noqa: D102
        image = image[..., None]
        for features in (16, 32):
            image = linen.relu(linen.Dense(features)(patches(image)))
        return linen.Dense(10)(image.ravel())


MODELS = {"linear": Linear(), "network": Convolutions()}
MODEL_NAMES = {"linear": "linear", "network": "convolutions"}


@cache
def images(name):
    """Return training and test images with their digits; pixels of digits are in [0, 1]."""
    side, scale, test_name, _ = DATA[name]
    data = problems.DATASETS[name]()
    fifth = 0 if test_name else len(data.labels) // 5
    data = data.subset(len(data.labels))
    test = problems.DATASETS[test_name]() if test_name else data
    parts = (data, slice(fifth, None)), (test, slice(0, fifth or None))
    return tuple(
        (
            (scale * each.features[part]).reshape(-1, side, side).astype(np.float32),
            each.classes[part].astype(np.int32),
        )
        for each, part in parts
    )


@partial(jax.jit, static_argnames=("model", "steps"))
def fitted(model, start, sigma, pixels, digits, noise, steps):
    """Return parameters trained on noisy images by Adam on the cross-entropy."""
    optimiser = optax.adam(optax.cosine_decay_schedule(3e-3, steps))

    def loss(parameters, noisy, truth):
        scores = jax.vmap(partial(MODELS[model].apply, parameters))(noisy)
        return optax.softmax_cross_entropy_with_integer_labels(scores, truth).mean()

    def step(state, t):
        parameters, moments = state
        turn = BATCH * t + jnp.arange(BATCH)
        rows, copies = turn % len(digits), turn % len(noise)
        gradient = jax.grad(loss)(parameters, pixels[rows] + sigma * noise[copies], digits[rows])
        updates, moments = optimiser.update(gradient, moments)
        return (optax.apply_updates(parameters, updates), moments), None

    return jax.lax.scan(step, (start, optimiser.init(start)), jnp.arange(steps))[0][0]


@partial(jax.jit, static_argnames=("model", "samples"))
def voted(model, parameters, sigma, x, key, samples):
    """Return the votes on one image."""
    scores = partial(MODELS[model].apply, parameters)
    return noisy_votes(scores, x, sigma, key, samples=samples)


def certificates(model, parameters, sigma, pixels, key, samples):
    """Return a certificate for each image."""
    keys = [jax.random.fold_in(key, i) for i in range(len(pixels))]
    votes = partial(voted, model, parameters, sigma, samples=samples)
    return [
        Certificate.of(votes(x, key), failure=FAILURE) for x, key in zip(pixels, keys, strict=True)
    ]


@cache
def certified(profile, name, model, sigma):
    """Return ``(parameters, certificates)`` of the first test images."""
    size, ((pixels, digits), (held_out, _)) = SIZES[profile], images(name)
    key = partial(stream, 0, data=name, model=model, sigma=sigma)
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(NOISES, *pixels.shape[1:])).astype(np.float32)
    start = jax.tree.map(
        lambda leaf: np.float32(rng.normal(size=leaf.shape) / np.sqrt(leaf.shape[0])),
        jax.eval_shape(MODELS[model].init, key(role="start"), pixels[0]),
    )
    parameters = fitted(model, start, sigma, pixels, digits, noise, size.steps)
    inputs = held_out[: size.inputs], key(role="votes"), size.samples
    return parameters, certificates(model, parameters, sigma, *inputs)


@cache
def radii(profile, name, model, sigma):
    """Return the radii by both rules, shape ``(2, inputs)``, and if the class is right."""
    results, truth = certified(profile, name, model, sigma)[1], images(name)[1][1]
    both = [[each.radius for each in results], [each.radius_by_epsilon for each in results]]
    is_right = [each.predicted == label for each, label in zip(results, truth, strict=False)]
    return np.array(both), np.array(is_right)


def settings(sigmas=SIGMAS):
    """Yield every model and noise, with the name of its column."""
    for model in MODELS:
        for sigma in sigmas:
            yield model, sigma, f"{model}_{100 * sigma:.0f}"


def accuracy(name, profile):
    """Yield for each radius the share of test images with a right, certified class."""
    results = {column: radii(profile, name, *setting) for *setting, column in settings()}
    for radius in RADII:
        row = {"label": f"r = {radius:g}", "radius": float(radius)}
        for column, (both, right) in results.items():
            for rule, each in zip(("", "_epsilon"), both, strict=True):
                row[column + rule] = float(np.mean(right & (each > radius)))
        yield row


def inputs(name, profile):
    """Yield a summary of the certificates of each model and noise."""
    for model, sigma, _ in settings():
        (radius, other), right = radii(profile, name, model, sigma)
        yield {
            "label": f"{MODEL_NAMES[model]}, σ = {sigma:g}", "inputs": radius.size,
            "abstains": float(np.mean(radius == 0.0)), "right": float(np.mean(right)),
            "mean": float(np.mean(right * radius)), "mean_epsilon": float(np.mean(right * other)),
            "most": float(radius.max()), "most_epsilon": float(other.max()),
            "least_gap": float(np.min(radius - other)), "zero": 0.0,
        }  # fmt: skip


@partial(jax.jit, static_argnames="model")
def attacked(model, parameters, sigma, x, predicted, radius, starts, noise, fresh):
    """Return the point within ``radius`` of ``x`` with the smallest lead of class ``predicted``.

    Projected gradient steps reduce the mean probability of the noisy copies ``x + sigma noise``,
    shape ``(moves, copies, ...)``, from random ``starts``. The copies ``fresh`` measure the leads.
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

    moves, leads = jax.lax.map(restart, starts, batch_size=10)
    return x + moves[jnp.argmin(leads)]


@cache
def broken(profile, name, model, sigma):
    """Return ``(inputs, changed, abstained)`` of the attacks at each multiple of the radius."""
    size, pixels = SIZES[profile], images(name)[1][0]
    parameters, results = certified(profile, name, model, sigma)
    indices = [i for i, each in enumerate(results) if each.predicted is not None][: size.attacked]
    classes, rows = [results[i].predicted for i in indices], []
    for number, multiple in enumerate(MULTIPLES):
        rng = np.random.default_rng(number)
        shapes = (size.restarts,), (size.moves, size.copies), (200,)
        noise = [rng.normal(size=(*each, *pixels.shape[1:])).astype(np.float32) for each in shapes]
        ends = [
            attacked(
                model, parameters, sigma, pixels[i], predicted, multiple * results[i].radius, *noise
            )
            for i, predicted in zip(indices, classes, strict=True)
        ]
        key = stream(0, data=name, model=model, sigma=sigma, role="judge", multiple=multiple)
        after = certificates(model, parameters, sigma, ends, key, size.samples)
        new = [each.predicted for each in after]
        changed = sum(now not in (None, was) for now, was in zip(new, classes, strict=True))
        rows.append((len(ends), changed, new.count(None)))
    return rows


def attacks(name, profile):
    """Yield the share of changed inputs at each multiple of the certified radius."""
    for number, multiple in enumerate(MULTIPLES):
        row = {"label": f"{multiple:g} of the radius", "multiple": multiple}
        for model, sigma, column in settings(DATA[name].attacked):
            count, changed, _ = broken(profile, name, model, sigma)[number]
            row[column] = changed / count
        yield row


def within(name, profile):
    """Yield changed inputs within the radius (none) and outside of it (at least one)."""
    for model, sigma, _ in settings(DATA[name].attacked):
        rows = broken(profile, name, model, sigma)
        yield {
            "label": f"{MODEL_NAMES[model]}, σ = {sigma:g}", "inputs": rows[0][0],
            "inside": rows[0][1], "unsettled": rows[0][2],
            "outside": max(changed for _, changed, _ in rows[1:]), "none": 0,
        }  # fmt: skip


@cache
def margins(profile):
    """Return exact margins of three images, and running votes on them, shape ``(3, blocks, 2)``.

    The classifier of even and odd digits is linear, fitted by least squares without noise.
    """
    (pixels, digits), (held_out, _) = images("digits")
    flat, signs = pixels.reshape(len(pixels), -1), np.where(digits % 2, -1.0, 1.0)
    plane = np.linalg.solve(flat.T @ flat + 100.0 * np.eye(flat.shape[1]), flat.T @ signs)
    distances = held_out.reshape(len(held_out), -1) @ plane / np.linalg.norm(plane)
    indices = [int(np.argmin(abs(abs(distances) - depth * SIGMA))) for depth in DEPTHS.values()]
    right_first = np.sign(distances[indices, None, None]) * held_out[indices]
    plane = jnp.asarray(plane.reshape(8, 8), jnp.float32)

    def scores(image):
        return jnp.sum(image * plane) * jnp.array([1.0, -1.0])

    def votes(image, key):
        return noisy_votes(scores, image, SIGMA, key, samples=BLOCK, choosing=1).counts

    blocks = SIZES[profile].margin[-1] // BLOCK
    keys = replicate_keys(stream(0, role="margin"), 3 * blocks).reshape(3, blocks)
    counts = jax.jit(
        lambda images: jax.lax.map(
            lambda each: jax.lax.map(lambda key: votes(each[0], key), each[1]), (images, keys)
        )
    )(jnp.asarray(right_first, jnp.float32))
    return abs(distances[indices]), np.cumsum(np.asarray(counts), axis=1)


def margin(profile):
    """Yield radii divided by the exact radius, the distance from the plane of two classes.

    ``least`` has the smallest number of votes for the class, except with probability ``failure``.
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
            result = certificate(votes[samples // BLOCK - 1])
            unlucky = certificate(np.array([few, samples - few]))
            row |= {
                f"ratio_{name}": result.radius / float(distance),
                f"epsilon_{name}": result.radius_by_epsilon / float(distance),
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
    """Return the share of certificates with a radius beyond the exact one, and its interval."""
    rng, law = np.random.default_rng(0), np.array(law)
    counts = rng.multinomial(COPIES, law, size=trials)
    first = rng.multinomial(FIRST, law, size=trials) if fresh else counts
    cases = np.column_stack([first.argmax(axis=1), counts])
    cases, times = np.unique(cases, axis=0, return_counts=True)
    total = 0
    for (predicted, *votes), count in zip(cases, times, strict=True):
        result = Certificate.of(Votes(predicted, np.array(votes), 0, 1.0), failure=failure)
        rival = np.delete(law, predicted).max()
        exact = 0.5 * (norm.ppf(law[predicted]) - norm.ppf(rival))
        total += int(count) * (result.radius > max(0.0, exact))
    return total / trials, Interval(*map(float, clopper_pearson(total, trials, 5e-4)))


def coverage(profile):
    """Yield how often certificates are wrong under known probabilities."""
    for label, law in LAWS.items():
        trials = SIZES[profile].trials // (1 if len(law) == 2 else 50)
        share, interval = wrong(law, trials)
        yield {
            "label": label, "trials": trials, "wrong": float(share), "interval": interval,
            "low": interval.lower, "failure": RISK,
        }  # fmt: skip


def controls(profile):
    """Yield the same for two invalid tests, with two equally likely classes."""
    for label, defect in (
        ("chosen and bounded on one sample", {"fresh": False}),
        ("bounds at twice the failure", {"failure": 2.0 * RISK}),
    ):
        share, interval = wrong(LAWS["two classes, even"], SIZES[profile].trials, **defect)
        yield {"label": label, "wrong": share, "interval": interval, "failure": RISK}


COLOURS = (plotting.BLUE, plotting.ORANGE, plotting.GREEN)
RULES = {"": ("f-DP", "-"), "_epsilon": ("ε and δ", "--")}


def accuracy_figure(name):
    """Return the function that draws the certified accuracy on a data set."""

    def certified_accuracy(frames):
        """Share of test images with a right class and a certified radius above the abscissa.

        The certificates have the same votes; the radius by f-DP is never smaller than that by ε and
        δ. More noise gives larger radii and a smaller accuracy.
        """
        title = f"Certified prediction on {name}: accuracy against radius"
        figure, panels = plotting.panels(title, *MODEL_NAMES.values())
        for axes, model in zip(panels, MODELS, strict=True):
            axes.set(xlabel="ℓ2 radius", ylabel="certified accuracy")
            for rule, (text, ls) in RULES.items():
                for sigma, color in zip(SIGMAS, COLOURS, strict=True):
                    column = f"{model}_{100 * sigma:.0f}{rule}"
                    style = {"label": f"σ = {sigma:g}, {text}", "color": color, "ls": ls}
                    plotting.curve(axes, frames["accuracy"], "radius", column, **style)
        return figure

    return certified_accuracy


def attacks_figure(name):
    """Return the function that draws the success of attacks on a data set."""

    def broken_share(frames):
        """Share of attacked images with a changed class, against the radius of the attack.

        The unit of the radius is the certified radius of each image. Attacks within it change no
        class.
        """
        title = f"Projected gradient attacks on certified {name}: success against radius"
        figure, (axes,) = plotting.panels(title)
        label = "radius of the attack / certified radius"
        axes.set(xlabel=label, ylabel="share of changed images", xscale="log")
        for model, ls in (("network", "-"), ("linear", "--")):
            for sigma, color in zip(SIGMAS, COLOURS, strict=True):
                if sigma in DATA[name].attacked:
                    text = f"{MODEL_NAMES[model]}, σ = {sigma:g}"
                    style, column = {"color": color, "ls": ls}, f"{model}_{100 * sigma:.0f}"
                    plotting.curve(axes, frames["attacks"], "multiple", column, label=text, **style)
        return figure

    return broken_share


def margin_figure(frames):
    """Certified radius divided by the exact radius against the number of votes.

    Three images with margins σ/2, σ and 2 σ. With more votes the radius by f-DP approaches the
    exact one. The radius by ε and δ stays smaller.
    """
    title = "Linear classifier of two classes: certified over exact radius against votes"
    figure, (axes,) = plotting.panels(title)
    axes.set(xlabel="votes", ylabel="certified / exact radius", xscale="log")
    exact = {"label": "exact radius", "color": plotting.GREY}
    plotting.curve(axes, frames["margin"], "samples", "whole", **exact)
    for rule, (text, ls) in zip(("ratio", "epsilon"), RULES.values(), strict=True):
        for depth, color in zip(DEPTHS, COLOURS, strict=True):
            style = {"label": f"margin {MARGINS[depth]}, {text}", "color": color, "ls": ls}
            plotting.curve(axes, frames["margin"], "samples", f"{rule}_{depth}", **style)
    return figure


MARGINS = {"half": "σ/2", "one": "σ", "two": "2 σ"}
FULL = SIZES["full"]
COMMON = (
    "A classifier votes on copies of an input with Gaussian noise σ in every pixel. Under the "
    f"relation `{Certificate.relation}`, at distance r, the vote is (r/σ)-Gaussian DP, so its "
    "winner is constant within σ/2 (Φ⁻¹ p₁ - Φ⁻¹ p₂) (Cohen, Rosenfeld and Kolter 2019). The other "
    "radius is by the condition of PixelDP on the same votes (Lecuyer et al. 2019), lower score > "
    "e^2ε upper score + (1 + e^ε) δ, at the best ε. A certificate fails with probability at most "
    "0.001, by Clopper-Pearson bounds on votes that did not select the class. The classifiers are "
    "public models, trained on noisy images without privacy; no record is protected.\n\n"
    "Attacks: projected gradient steps on the mean probability of noisy copies. The worst of all "
    "restarts is an error if new votes certify another class. Radii are attacked separately, so "
    "the share may decrease. "
    f"Full profile: {FULL.samples:,} votes per input, {FULL.attacked} attacked inputs, "
    f"{FULL.restarts} restarts of {FULL.moves} steps on {FULL.copies} copies.\n\n"
)
ABOVE, WRONG = at_most("zero", "least_gap"), at_most("low", "failure")
INSIDE, OUTSIDE = at_most("inside", "none"), below("none", "outside")
DETECTED = below("failure", "interval")


def analysis(data, *, parts=(), claims=(), figures=(), listings=(), **texts):
    """Return the analysis of a data set, with additional parts."""
    common = (accuracy, inputs, attacks, within)
    figures = {"accuracy": accuracy_figure(data), "attacks": attacks_figure(data)} | dict(figures)
    return Analysis(
        parts={part.__name__: partial(part, data) for part in common}
        | {part.__name__: part for part in parts},
        claims=(
            Claim("no radius by ε and δ is above that by f-DP", "inputs", ABOVE),
            Claim("no attack within the radius changes a class", "within", INSIDE),
            Claim("control: attacks beyond the radius change classes", "within", OUTSIDE),
            *claims,
        ),
        figures=figures,
        listings=(
            Listing(
                "inputs",
                "Certificates with failure probability 0.001",
                {"classifier": "{label}", "inputs": "{inputs}"}
                | {
                    head: f"{{{column}:.3f}}"
                    for head, column in {
                        "abstains": "abstains", "right": "right",
                        "mean radius, 0 if wrong": "mean", "mean by ε and δ": "mean_epsilon",
                        "largest": "most", "largest by ε and δ": "most_epsilon",
                    }.items()
                }
                | {"least difference": "{least_gap:.2g}"},
                {"least difference": ABOVE},
            ),
            Listing(
                "within",
                "Attacks: inputs for which another class is certified",
                {"classifier": "{label}", "inputs": "{inputs}",
                 "within 0.99 of the radius": "{inside}", "abstentions there": "{unsettled}",
                 "within 1.25 to 8 of it": "{outside}"},
                {"within 0.99 of the radius": INSIDE, "within 1.25 to 8 of it": OUTSIDE},
            ),
            *listings,
        ),
        **texts,
    )  # fmt: skip


experiment = analysis(
    "digits",
    name="certified_prediction",
    title="Certified prediction on digits: radii by f-DP and by ε and δ, and attacks",
    description=COMMON
    + "Digits have 8 × 8 pixels in [0, 1]; the first fifth of the public order is held out. The "
    "exact radius of a linear classifier of two classes is its margin. The abstaining test is "
    "simulated at failure probability 0.01, together with two invalid tests.",
    parts=(margin, coverage, controls),
    claims=(
        *(
            Claim(f"{sentence}, margin {MARGINS[depth]}", "margin", at_most(low + depth, high))
            for depth in DEPTHS
            for sentence, low, high in (
                ("the radius is at most the margin", "ratio_", "whole"),
                ("it is at least the one with the fewest votes", "least_", f"ratio_{depth}"),
            )
        ),
        Claim("the test is wrong at most with its failure probability", "coverage", WRONG),
        Claim("control: an invalid test is wrong more often", "controls", DETECTED),
    ),
    figures={"margin": margin_figure},
    listings=(
        Listing(
            "coverage",
            f"Wrong certificates at failure probability {RISK:g} with {COPIES:,} votes",
            {"probabilities": "{label}", "trials": "{trials:,}", "share wrong": "{wrong:.5f}",
             "at 99.9 %": "{interval:.5f}"},
            {"share wrong": WRONG},
        ),
        Listing(
            "controls",
            "Wrong certificates of invalid tests, two equally likely classes",
            {"test": "{label}", "share wrong": "{wrong:.5f}", "at 99.9 %": "{interval:.5f}"},
            {"share wrong": DETECTED},
        ),
    ),
)  # fmt: skip

mnist = analysis(
    "mnist",
    name="certified_mnist",
    title="Certified prediction on MNIST: radii by f-DP and by ε and δ, and attacks",
    description=COMMON
    + "MNIST has means of 2 × 2 pixels, with rows cut to norm 1 and scaled to 4, so pixels are "
    "about in [0, 1]; inputs are the first of the published test part.",
    profiles=("full",),
    needs=("mnist", "mnist_test"),
)
