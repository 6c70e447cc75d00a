"""Separation of neighbours by the most powerful test, for mechanisms with a known output law."""

from functools import cache

import numpy as np
from scipy.stats import laplace, norm

from privopt import Budget
from privopt.audit import audit, mechanism_pair
from privopt.lab import Analysis, Claim, Listing, at_most, plotting, stream

BUDGET = Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
QUESTIONS = ((1.0, 0.9),) * 4 + ((-1.0, 0.0),)  # sign and threshold, as in the audit
CELLS = np.linspace(-40.0, 40.0, 8_001)  # in units of the noise
SHARES = (np.arange(20_000) + 0.5) / 20_000  # quantiles of the noise of a threshold
ALPHAS = np.linspace(0.0, 1.0, 201)


def answers(places, scales):
    """Return the laws of Laplace noise about each place, as probabilities of common cells."""
    cells = np.unique(np.concatenate([place + max(scales) * CELLS for place in places]))
    return [
        np.diff(np.concatenate([[0.0], laplace.cdf(cells, place, scale), [1.0]]))
        for place, scale in zip(places, scales, strict=True)
    ]


def first_above(comparison, values, thresholds):
    """Return probabilities that each noisy value is the first above its threshold, or none is."""
    noise = laplace.ppf(SHARES, scale=comparison.threshold_scale)
    limits = np.array(thresholds)[:, None] + noise
    under = laplace.cdf(limits, np.array(values)[:, None], comparison.question_scale)
    unmet = np.cumprod(np.vstack([np.ones_like(noise), under]), axis=0)
    return np.append(unmet[:-1] * (1.0 - under), unmet[-1:], axis=0).mean(axis=1)


def laplace_mean(mechanism, both):
    return answers([float(mechanism.query.answer(each)) for each in both], [mechanism.scale] * 2)


def smooth_median(mechanism, both):
    query, smoothness = mechanism.query, mechanism.smoothness
    scales = [mechanism.scale * float(query.smooth_sensitivity(x, smoothness)) for x in both]
    return answers([float(query.answer(each)) for each in both], scales)


def propose_test_release(mechanism, both):
    query = mechanism.query
    laws = answers([float(query.answer(each)) for each in both], [mechanism.answer_scale] * 2)
    for law, each in zip(laws, both, strict=True):
        distance = float(query.distance_to_instability(each, mechanism.bound))
        passed = laplace.sf(mechanism.threshold, distance, mechanism.distance_scale)
        yield np.append(passed * law, 1.0 - passed)


def sparse_vector(mechanism, both):
    signs, thresholds = zip(*QUESTIONS, strict=True)
    for each in both:
        values = np.array(signs) * float(mechanism.query.answer(each))
        yield first_above(mechanism, values, thresholds)


def thresholdout(mechanism, both):
    means = [float(each.mean()) for each in both]
    laws = answers(means, [mechanism.answer_scale] * 2)
    for mean, law, each in zip(means, laws, both, strict=True):
        training = [-sign * (mechanism.threshold - low / len(each)) for sign, low in QUESTIONS]
        gaps = [abs(mean - other) for other in training]
        first = first_above(mechanism.comparison, gaps, [mechanism.threshold] * len(gaps))
        yield np.append(np.outer(first[:-1], law).ravel(), first[-1])


LAWS = (laplace_mean, smooth_median, propose_test_release, sparse_vector, thresholdout)
SIZES = {"quick": (LAWS[:2], 20_000), "full": (LAWS, 100_000)}


def separation(alpha, power):
    """Return the distance of two unit normals with these error rates."""
    return norm.ppf(power) - norm.ppf(alpha)


@cache
def best_test(law):
    """Return the error rates of the likelihood-ratio tests on the audited pair."""
    pair = mechanism_pair(law.__name__, BUDGET)
    first, second = law(pair.mechanism, (pair.one, pair.two))
    order = np.argsort(-first / np.maximum(second, 1e-300), kind="stable")
    return [np.append(0.0, np.cumsum(each[order])) for each in (second, first)]


def spent(profile):
    """Yield the largest separation over the one that the guarantee allows, for every mechanism."""
    laws, runs = SIZES[profile]
    for law in laws:
        pair = mechanism_pair(law.__name__, BUDGET)
        alphas, powers = best_test(law)
        powers = np.append(powers, np.interp(ALPHAS, alphas, powers))
        alphas = np.append(alphas, ALPHAS)
        inside = (alphas > 1e-6) & (alphas < 1.0 - 1e-6) & (powers < 1.0 - 1e-6)
        alphas, powers = alphas[inside], powers[inside]
        allowed = separation(alphas, 1.0 - pair.guarantee.trade_off(alphas))
        best = float((separation(alphas, powers) / allowed).max())
        key = stream(0, role="noise", method=law.__name__)
        ratio = audit(pair, key=key, runs=runs).attack.ratio
        yield {
            "label": law.__name__.replace("_", " "), "best": best, "found": ratio,
            "share": ratio / best, "most": 0.7 * best, "all": 1.0 + 1e-6,
        }  # fmt: skip


def curves(profile):
    """Yield the largest power that each guarantee allows, and that of the best test."""
    pairs = {law.__name__: mechanism_pair(law.__name__, BUDGET) for law in LAWS}
    columns = {f"claimed_{name}": 1.0 - x.guarantee.trade_off(ALPHAS) for name, x in pairs.items()}
    columns |= {law.__name__: np.interp(ALPHAS, *best_test(law)) for law in LAWS}
    for i, alpha in enumerate(ALPHAS):
        yield {"alpha": float(alpha)} | {name: float(each[i]) for name, each in columns.items()}


def curves_figure(frames):
    """Power of the most powerful test (solid) and the largest power allowed (dashed).

    Only the mean with Laplace noise attains its guarantee. The smooth median stays far below.
    """
    names = ("one release", "adaptive questions")
    figure, panels = plotting.panels("Power against false alarms at ε = 1, δ = 1e-5", *names)
    lines = (
        (0, "claimed_laplace_mean", "claimed of Laplace noise", plotting.GREY, "--"),
        (0, "claimed_smooth_median", "claimed of the other two", plotting.GREEN, "--"),
        (0, "laplace_mean", "mean with Laplace noise", plotting.GREY, "-"),
        (0, "smooth_median", "smooth median", plotting.BLUE, "-"),
        (0, "propose_test_release", "propose-test-release", plotting.ORANGE, "-"),
        (1, "claimed_sparse_vector", "claimed of both", plotting.GREY, "--"),
        (1, "sparse_vector", "sparse vector", plotting.GREEN, "-"),
        (1, "thresholdout", "Thresholdout", plotting.PURPLE, "-"),
    )
    for axes in panels:
        axes.set(xlabel="false-alarm rate", ylabel="power")
    for panel, name, label, color, ls in lines:
        style = {"label": label, "color": color, "ls": ls}
        plotting.curve(panels[panel], frames["curves"], "alpha", name, **style)
    return figure


ALL, BEST, MOST = at_most("best", "all"), at_most("found", "best"), at_most("most", "found")

experiment = Analysis(
    name="unspent",
    title="Five mechanisms: separation by the most powerful test and by an audit, over the claim",
    description=(
        "An audit below a claim is due to a weak attack or to a loose theorem. For these "
        "mechanisms the law of the output is known on both data sets of the audit, at ε = 1, δ = "
        "1e-5, replace-one. **Best test**: the largest separation by the likelihood ratio over the "
        "one that the guarantee allows at the same false-alarm rate. **Audit**: the certified "
        "ratio from 100,000 runs on each data set (20,000 in the quick profile). Smooth noise is "
        "charged for a change of its scale as for a change of its location, but the scale matters "
        "in the tails only. All questions before the last are charged as if each were informative. "
        "Another pair may show more."
    ),
    parts={"spent": spent, "curves": curves},
    claims=(
        Claim("no best test is above its claim", "spent", ALL),
        Claim("no audit is above the best test", "spent", BEST),
        Claim("an audit shows at least 0.7 of the best test", "spent", MOST),
    ),
    figures={"curves": curves_figure},
    listings=(
        Listing(
            "spent",
            "Separation over the claimed separation",
            {"mechanism": "{label}", "best test": "{best:.3f}", "audit": "{found:.3f}"}
            | {"audit over best test": "{share:.2f}"},
            {"best test": ALL, "audit": BEST, "audit over best test": MOST},
        ),
    ),
)
