"""How much of a claim the best test finds, where the law of what is released is known."""

from functools import cache

import numpy as np
from scipy.stats import laplace, norm

from privopt import Budget
from privopt.audit import audit, mechanism_pair
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, stream

BUDGET = Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
QUESTIONS = ((1.0, 0.9),) * 4 + ((-1.0, 0.0),)  # those of the audit: a sign, and a threshold
CELLS = np.linspace(-40.0, 40.0, 8_001)  # scales of noise
SHARES = (np.arange(20_000) + 0.5) / 20_000  # quantiles of the noise of a threshold
ALPHAS = np.linspace(0.0, 1.0, 201)


def on_the_line(place, scale, cells):
    """Probabilities of the cells between these ends; the outer ones reach to infinity."""
    inner = laplace.cdf(cells, place, scale)
    return np.diff(np.concatenate([[0.0], inner, [1.0]]))


def cells_about(places, scale):
    """Ends of cells that resolve noise of a scale about each place."""
    return np.unique(np.concatenate([place + scale * CELLS for place in places]))


def first_above(comparison, answers, thresholds):
    """Probabilities that the first noisy answer above its noisy threshold is this one, or none."""
    moved = laplace.ppf(SHARES, scale=comparison.threshold_scale)
    limits = np.array(thresholds)[:, None] + moved
    below = laplace.cdf(limits, np.array(answers)[:, None], comparison.question_scale)
    unmet = np.cumprod(np.vstack([np.ones_like(moved), below]), axis=0)
    return np.append(unmet[:-1] * (1.0 - below), unmet[-1:], axis=0).mean(axis=1)


def laplace_mean(mechanism, both):
    places = [float(mechanism.query.answer(each)) for each in both]
    cells = cells_about(places, mechanism.scale)
    return [on_the_line(place, mechanism.scale, cells) for place in places]


def smooth_median(mechanism, both):
    query = mechanism.query
    places = [float(query.answer(each)) for each in both]
    spreads = [
        mechanism.scale * float(query.smooth_sensitivity(each, mechanism.smoothness))
        for each in both
    ]
    cells = cells_about(places, max(spreads))
    return [on_the_line(*law, cells) for law in zip(places, spreads, strict=True)]


def propose_test_release(mechanism, both):
    query = mechanism.query
    places = [float(query.answer(each)) for each in both]
    cells = cells_about(places, mechanism.answer_scale)
    for place, each in zip(places, both, strict=True):
        distance = float(query.distance_to_instability(each, mechanism.bound))
        passed = laplace.sf(mechanism.threshold, distance, mechanism.distance_scale)
        told = on_the_line(place, mechanism.answer_scale, cells)
        yield np.append(passed * told, 1.0 - passed)


def sparse_vector(mechanism, both):
    signs, thresholds = zip(*QUESTIONS, strict=True)
    for each in both:
        yield first_above(
            mechanism, np.array(signs) * float(mechanism.query.answer(each)), thresholds
        )


def thresholdout(mechanism, both):
    comparison = mechanism.comparison
    means = [float(each.mean()) for each in both]
    cells = cells_about(means, mechanism.answer_scale)
    for mean, each in zip(means, both, strict=True):
        size = len(each)
        training = [-sign * (mechanism.threshold - below / size) for sign, below in QUESTIONS]
        gaps = [abs(mean - other) for other in training]
        met = first_above(comparison, gaps, [mechanism.threshold] * len(gaps))
        told = on_the_line(mean, mechanism.answer_scale, cells)
        yield np.append(np.outer(met[:-1], told).ravel(), met[-1])


LAWS = (laplace_mean, smooth_median, propose_test_release, sparse_vector, thresholdout)
SIZES = {"quick": (LAWS[:2], 20_000), "full": (LAWS, 100_000)}


def apart(alpha, power):
    """How far apart two unit normals have these error rates."""
    return norm.ppf(power) - norm.ppf(alpha)


@cache
def best_test(law):
    """Error rates of the likelihood ratio's tests on the pair, by probabilities of cells."""
    pair = mechanism_pair(law.__name__, BUDGET)
    first, second = law(pair.mechanism, (pair.one, pair.two))
    order = np.argsort(-first / np.maximum(second, 1e-300), kind="stable")
    alphas, powers = (np.cumsum(each[order]) for each in (second, first))
    return np.append(0.0, alphas), np.append(0.0, powers)


def spent(profile):
    """The largest distance over what the guarantee allows there: by the law, and as attacked."""
    laws, runs = SIZES[profile]
    for law in laws:
        pair = mechanism_pair(law.__name__, BUDGET)
        alphas, powers = best_test(law)
        alphas, powers = (
            np.append(alphas, ALPHAS),
            np.append(powers, np.interp(ALPHAS, alphas, powers)),
        )
        seen = (alphas > 1e-6) & (alphas < 1.0 - 1e-6) & (powers < 1.0 - 1e-6)
        alphas, powers = alphas[seen], powers[seen]
        ratios = apart(alphas, powers) / apart(alphas, 1.0 - pair.guarantee.trade_off(alphas))
        key = stream(0, role="noise", method=law.__name__)
        found = audit(pair, key=key, runs=runs).attack.ratio
        best = float(ratios.max())
        yield {
            "label": law.__name__.replace("_", " "),
            "best": best,
            "found": found,
            "share": found / best,
            "most": 0.7 * best,
            "all": 1.0 + 1e-6,
        }


def curves(profile):
    """Power at a false-alarm rate: what is claimed at most, and the best test's."""
    names = {"claimed_" + law.__name__: mechanism_pair(law.__name__, BUDGET) for law in LAWS}
    claimed = {name: 1.0 - pair.guarantee.trade_off(ALPHAS) for name, pair in names.items()}
    best = {law.__name__: np.interp(ALPHAS, *best_test(law)) for law in LAWS}
    for i, alpha in enumerate(ALPHAS):
        yield {
            "alpha": float(alpha),
            **{name: float(each[i]) for name, each in {**claimed, **best}.items()},
        }


def panel(title, *lines):
    return Panel(
        part="curves", x="alpha", x_label=f"false alarms, {title}", y_label="power", lines=lines
    )


experiment = Study(
    name="unspent",
    title="How much of a claim the best test finds: five mechanisms",
    description=(
        "Where an audit stays below a claim, the attack may be weak or the theorem loose. Here the "
        "law of what is released is known on both data sets of the audit's pair, at ε = 1, δ = "
        "1e-5, replace-one, so the best test is known too: the likelihood ratio's. **Best test**: "
        "the largest distance of its error rates, over what the guarantee allows at the same "
        "false-alarm rate. **Audit**: the same, certified, by 100,000 runs a side (20,000 in the "
        "quick profile). Laplace noise on a mean is tight. Smooth noise is charged for a change of "
        "its width as for a change of "
        "place, and the width shows in tails alone; questions before the last are charged as if "
        "each told most in one run. Another pair may show more than these."
    ),
    parts={"spent": spent, "curves": curves},
    claims=(
        Claim("no best test is above its claim", "spent", "best <= all"),
        Claim("no audit finds more than there is", "spent", "found <= best"),
        Claim("an audit finds seven tenths of what there is", "spent", "most <= found"),
    ),
    plots=(
        Plot(
            "curves",
            "Claimed power (dashes), and the best test's, at ε = 1, δ = 0.00001",
            panel(
                "one release",
                Line("claimed_laplace_mean", "claimed of Laplace noise", "grey", "dashes"),
                Line("claimed_smooth_median", "claimed of the other two", "green", "dashes"),
                Line("laplace_mean", "Laplace mean", "grey"),
                Line("smooth_median", "smooth median", "blue"),
                Line("propose_test_release", "propose-test-release", "orange"),
            ),
            panel(
                "questions",
                Line("claimed_sparse_vector", "claimed of both", "grey", "dashes"),
                Line("sparse_vector", "sparse vector", "green"),
                Line("thresholdout", "Thresholdout", "purple"),
            ),
        ),
    ),
    listings=(
        Listing(
            "spent",
            "Found over claimed separation",
            Column("mechanism", "{label}"),
            Column("best test on the pair", "{best:.3f}", "best <= all"),
            Column("audit", "{found:.3f}", "found <= best"),
            Column("audit over best", "{share:.2f}", "most <= found"),
        ),
    ),
)
