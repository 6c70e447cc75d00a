"""Noise of printed formulas, divided by the least noise that is certified for the same budget.

A recipe is a formula for the noise of a mechanism. The needed noise is the smallest one for which
an accountant certifies the budget of the formula. A recipe with less noise breaks its guarantee; a
recipe with more noise wastes accuracy.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from scipy.optimize import brentq
from scipy.stats import norm

from privopt import Budget, ProblemClass, Relation, dp_gd
from privopt.accounting import advanced_epsilon
from privopt.lab import Analysis, Claim, Listing, at_most, below, plotting
from privopt.mechanisms import (
    BiasReducedGradient,
    ClippedGradient,
    LaplaceMechanism,
    SparseMinimiser,
    published_laplace_scale,
)
from privopt.privacy import CompressedGaussianDpEvent, Guarantee, calibrate
from privopt.statistics import BoundedMean, Median, SmoothCauchyMechanism, pure_release

DELTA = 1e-6
REPLACE, ZERO_OUT, ADD = "replace_one", "zero_out", "add_or_remove_one"
LESS = 0.99  # factor of the needed noise, for which the budget must be exceeded
N, BOUNDS = 1000, (-1.0, 1.0)


def spend(epsilon, delta, relation):
    """Return the budget of a recipe."""
    return Budget(epsilon=epsilon, delta=delta, relation=relation)


class Recipe(NamedTuple):
    """Printed noise for a budget, with the event of any noise."""

    label: str
    setting: str
    budget: Budget
    noise: float
    event: Callable[[float], DpEvent]

    @property
    def needed(self):
        """Least noise that an accountant certifies."""
        return calibrate(self.event, self.budget)

    def spent(self, noise):
        """Return the certified epsilon of a noise."""
        guarantee = Guarantee(self.event(noise), self.budget.relation)
        return guarantee.epsilon(self.budget.delta)

    def row(self):
        """Return the printed and the needed noise with their certified epsilons."""
        needed, spent = self.needed, self.spent(self.noise)
        times = self.noise / needed
        verdict = "enough" if spent.upper <= self.budget.epsilon else "not enough"
        return {
            "label": f"{self.label}, {self.setting}", "recipe": self.label, "setting": self.setting,
            "relation": self.budget.relation.value.replace("_", "-"),
            "target": self.budget.epsilon, "delta": self.budget.delta, "noise": self.noise,
            "needed": needed, "times": times, "spent": spent, "verdict": verdict,
            "certified": self.spent(needed), "less": self.spent(LESS * needed),
        }  # fmt: skip


# --- formulas -------------------------------------------------------------------------------------


def gaussian(epsilon, delta):
    """Return the classical Gaussian mechanism, ``sqrt(2 ln(1.25/delta))/epsilon``."""
    noise = math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon
    setting = f"ε = {epsilon:g}, δ = {delta:g}"
    budget = spend(epsilon, delta, ZERO_OUT)
    return Recipe("Gaussian, constant 1.25", setting, budget, noise, GaussianDpEvent)


def loss_tail():
    """Return Gaussian noise with a loss above epsilon with probability delta."""
    tail = norm.isf(DELTA)
    noise = 1.0 / (math.sqrt(tail**2 + 2.0) - tail)
    budget = spend(1.0, DELTA, ZERO_OUT)
    return Recipe("Gaussian, P(loss > ε) = δ", "one release", budget, noise, GaussianDpEvent)


def descent(steps):
    """Return the noise of a sum in DP-GD, ``8 sqrt(T) (ln(1.25/delta) + ln(T + 1))/epsilon``."""
    noise = 8.0 * math.sqrt(steps) * (math.log(1.25 / DELTA) + math.log(steps + 1))
    return Recipe(
        "DP-GD, 8 L √T (…)/(ε n)", f"T = {steps:,}", spend(1.0, DELTA, REPLACE), noise,
        lambda z: SelfComposedDpEvent(GaussianDpEvent(z), steps),
    )  # fmt: skip


def tree(steps, relation):
    """Return ``2 sqrt(log2 T ln(1/delta))/epsilon`` for the nodes that contain one record."""
    noise = 2.0 * math.sqrt(math.log2(steps) * -math.log(DELTA))
    return Recipe(
        "tree, 2 √(log T ln 1/δ)/ε", f"T = {steps:,}, {relation.replace('_', '-')}",
        spend(1.0, DELTA, relation), noise, lambda z: nodes(z, steps),
    )  # fmt: skip


def nodes(noise, steps):
    """Return the event of the nodes of a tree that contain one record."""
    return SelfComposedDpEvent(GaussianDpEvent(noise), steps.bit_length())


def inverted_tree(steps):
    """Return the noise of a tree that would be ``(sigma sqrt(log2 T))``-Gaussian DP."""
    budget = spend(1.0, DELTA, ZERO_OUT)
    mu = 1.0 / calibrate(GaussianDpEvent, budget)
    noise = mu / math.sqrt(math.log2(steps))
    return Recipe(
        "tree, “(σ √log T)-GDP”", f"T = {steps:,}", budget, noise, lambda z: nodes(z, steps)
    )


def sampling(epsilon, rate):
    """Return Laplace noise of an epsilon that sampling is said to lower to ``2 q epsilon``."""
    return Recipe(
        "sampling, “2 q ε”", f"q = {rate:g}, ε = {epsilon:g}",
        spend(2.0 * rate * epsilon, 0.0, ADD), 1.0 / epsilon,
        lambda b: PoissonSampledDpEvent(rate, LaplaceDpEvent(b)),
    )  # fmt: skip


def composition(label, steps, total, formula):
    """Return ``1/epsilon_0`` for pure releases with ``formula(epsilon_0) = total``."""
    least, most = 1e-9, 2.0 * total
    loss = brentq(lambda each: formula(each) - total, least, most, xtol=1e-15)
    return Recipe(
        label, f"k = {steps:,}, ε = {total:g}", spend(total, DELTA, ZERO_OUT), 1.0 / loss,
        lambda b: SelfComposedDpEvent(pure_release(1.0 / b if b > 0.0 else math.inf), steps),
    )  # fmt: skip


def root(steps):
    """Return ``sqrt(2 k ln(1/delta))``."""
    return math.sqrt(-2.0 * steps * math.log(DELTA))


def advanced(steps, form):
    """Return the noise of an advanced composition theorem, at a total epsilon of 1."""
    name = {"drv": "Dwork, Rothblum and Vadhan", "kov": "Kairouz, Oh and Viswanath"}[form]
    return composition(
        f"composition, {name}", steps, 1.0,
        lambda each: advanced_epsilon([(each, steps)], DELTA, form),
    )  # fmt: skip


def root_only(steps):
    """Return the noise of ``epsilon_0 = epsilon/sqrt(8 k ln(1/delta))``."""
    label = "composition, ε/√(8 T ln 1/δ)"
    return composition(label, steps, 1.0, lambda each: 2.0 * root(steps) * each)


def thirty_five():
    """Return the noise of ``epsilon_0 = 7e-4``, 35 times that of basic composition."""
    label = "composition, 35 times basic"
    return composition(label, 50_000, 1.0, lambda each: each / 7e-4)


def drift_in_root(steps, total):
    """Return the noise of advanced composition with the drift inside the root, a misprint."""

    def formula(each):
        return math.sqrt((root(steps) * each) ** 2 + steps * each * math.expm1(each))

    return composition("composition, drift in the root", steps, total, formula)


def wrong_denominator(steps, total):
    """Return the noise of a drift over ``e^(epsilon + 1)``, a misprint of ``e^epsilon + 1``."""

    def formula(each):
        return root(steps) * each + steps * each * math.expm1(each) / math.exp(each + 1.0)

    return composition("composition, drift over e^(ε+1)", steps, total, formula)


def curvature(ratio):
    """Return Laplace noise with the factor ``2 H/lambda + 1`` for a sparse minimiser."""
    facts = ProblemClass(n=N, dim=500, lipschitz=1.0, radius=math.inf, smoothness=1.0, sparsity=4)
    query = SparseMinimiser.of(facts, Relation.REPLACE_ONE, regularisation=1.0 / ratio)
    budget = spend(1.0, 0.0, REPLACE)
    return Recipe(
        "sparse minimiser, 2 H/λ + 1", f"H/λ = {ratio:g}", budget,
        published_laplace_scale(query, budget),
        lambda b: LaplaceMechanism(query, b).event(Relation.REPLACE_ONE),
    )  # fmt: skip


def recovery(measurements, delta=DELTA):
    """Return the noise of l1 recovery, ``sigma^2 = 18 L^2 ln(2.5/delta)/(n epsilon)^2``."""
    noise = 3.0 * math.sqrt(2.0 * math.log(2.5 / delta))
    return Recipe(
        "ℓ1 recovery, factor 18", f"m = {measurements:,}", spend(1.0, delta, REPLACE), noise,
        lambda z: CompressedGaussianDpEvent(z, measurements),
    )  # fmt: skip


def stopping(n):
    """Return the noise of bias-reduced SGD with the published stopping rule.

    The event is that of a fixed number of steps, the limit of the mean number under the rule.
    """
    delta = min(DELTA, 0.5 / n**2)
    budget = spend(1.0, delta, REPLACE)
    query = ClippedGradient.of(ProblemClass(n=n, dim=1, lipschitz=1.0, radius=1.0))
    steps = round(2.0 * n / math.log(4.0 / delta))
    unit = BiasReducedGradient(query=query, n=n, base=1, scale=1.0, steps=steps)
    return Recipe(
        "bias-reduced SGD, stopping rule", f"n = {n:,}, T = {steps}", budget,
        BiasReducedGradient.published(query, budget, n).noise_multiplier,
        lambda z: unit.with_noise_multiplier(z).event(Relation.REPLACE_ONE),
    )  # fmt: skip


def cauchy():
    """Return Cauchy noise with ``c = 6/epsilon``, at the published ``beta = epsilon/6``."""

    def event(scale):
        return SmoothCauchyMechanism(Median.of(0.0, 1.0), 1.0 / 6.0, scale).event(REPLACE)

    budget = spend(1.0, 0.0, REPLACE)
    return Recipe("smooth sensitivity, Cauchy 6/ε", "β = ε/6", budget, 6.0, event)


def mean():
    """Return Laplace noise for a mean with ``max(|l|, |u|)/n`` as its sensitivity."""
    query, budget = BoundedMean.of(*BOUNDS, size=N), spend(1.0, 0.0, REPLACE)
    return Recipe(
        "mean, sensitivity max(|l|, |u|)/n", "records in [-1, 1]", budget, 1.0 / N,
        lambda b: LaplaceMechanism(query, b).event(Relation.REPLACE_ONE),
    )  # fmt: skip


# --- tables ---------------------------------------------------------------------------------------


def sufficient(profile):
    """Yield the recipes within the range of their proofs."""
    yield gaussian(0.1, 1e-5).row()
    yield gaussian(1.0, 1e-5).row()
    yield loss_tail().row()
    yield from (descent(steps).row() for steps in (1, 100, 10_000))
    yield root_only(1024).row()
    yield from (advanced(1024, form).row() for form in ("drv", "kov"))
    yield thirty_five().row()
    yield from (sampling(epsilon, 0.01).row() for epsilon in (0.1, 1.0))
    yield tree(1024, ZERO_OUT).row()
    yield from (curvature(ratio).row() for ratio in (1.0, 10.0, 100.0))
    yield from (recovery(measurements).row() for measurements in (100, 1000))
    yield stopping(4096 if profile == "full" else 512).row()
    yield cauchy().row()


def insufficient(profile):
    """Yield the recipes outside of the range of a proof, and misprints."""
    yield gaussian(10.0, 1e-5).row()
    yield tree(1024, REPLACE).row()
    yield inverted_tree(1024).row()
    yield sampling(2.0, 0.01).row()
    yield drift_in_root(100, 50.0).row()
    yield wrong_denominator(100, 50.0).row()
    yield recovery(1).row()
    yield mean().row()


def all_recipes(profile):
    """Yield all recipes."""
    yield from sufficient(profile)
    yield from insufficient(profile)


def budgets(profile):
    """Yield the ratios of recipes that depend on epsilon."""
    for epsilon in (0.1, 0.2, 0.5, 1.0, 1.25, 1.5, 2.0, 3.0, 5.0, 7.0, 8.0, 9.0, 10.0, 12.0):
        row = {"label": f"ε = {epsilon:g}", "epsilon": epsilon, "one": 1.0}
        for delta in (1e-3, 1e-5, 1e-8):
            row[f"gaussian_{-math.log10(delta):.0f}"] = ratio(gaussian(epsilon, delta))
        for percent in (1, 10, 50):
            row[f"sampling_{percent}"] = ratio(sampling(epsilon, percent / 100.0))
        yield row


def steps(profile):
    """Yield the ratios of recipes that depend on the number of steps."""
    for power in range(1, 15):
        count = 2**power
        yield {
            "label": f"T = {count}", "steps": count, "one": 1.0, "least": 13.9, "most": 22.6,
            "descent": ratio(descent(count)), "zero_out": ratio(tree(count, ZERO_OUT)),
            "replace": ratio(tree(count, REPLACE)), "root": ratio(root_only(count)),
            "drv": ratio(advanced(count, "drv")), "kov": ratio(advanced(count, "kov")),
        }  # fmt: skip


def measurements(profile):
    """Yield the ratios of l1 recovery."""
    for count in (1, 2, 3, 5, 10, 20, 50, 100, 1000):
        row = {"label": f"m = {count}", "measurements": count, "one": 1.0}
        yield row | {f"delta_{p}": ratio(recovery(count, 10.0**-p)) for p in (6, 10)}


def ratio(recipe: Recipe):
    """Return the printed noise over the needed one."""
    return recipe.noise / recipe.needed


def lecture_bound(n, dim, epsilon):
    """Return the printed bound of DP-GD, ``2 D G (2 + ln T)/sqrt(T)``, at its best ``T``.

    ``L = R = 1``, ``D = 2 R``.
    """

    def at(count):
        noise = descent(count).noise / (epsilon * n)
        return 4.0 * math.sqrt((1.0 + dim * noise**2) / count) * (2.0 + math.log(count))

    return min(at(round(10.0 ** (k / 20.0))) for k in range(160))


def certified_bound(n, dim, epsilon):
    """Return the bound of the plan of DP-GD."""
    problem_class = ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0)
    return dp_gd(problem_class, spend(epsilon, DELTA, REPLACE)).rate.upper


@cache
def least_size(bound, dim, epsilon):
    """Return the smallest ``n`` for which a bound is below ``L R``, that of the centre."""
    low, high = 1, 2
    while bound(high, dim, epsilon) >= 1.0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bound(middle, dim, epsilon) < 1.0 else (middle, high)
    return high


def sizes(profile):
    """Yield the number of records from which a theorem on DP-GD is not vacuous."""
    for dim in (1, 16, 100):
        for epsilon in (0.1, 1.0):
            printed = least_size(lecture_bound, dim, epsilon)
            certified = least_size(certified_bound, dim, epsilon)
            yield {
                "label": f"d = {dim}, ε = {epsilon:g}", "dim": dim, "epsilon": epsilon,
                "printed": printed, "certified": certified, "times": printed / certified,
                "least": 1000.0,
            }  # fmt: skip


# --- figures --------------------------------------------------------------------------------------


def recipes_figure(frames):
    """Printed noise over the needed noise; recipes left of the line break their guarantee.

    Needed is the least noise that an accountant certifies for the budget of the recipe. DP-GD has
    14 to 22 times the needed noise. Of 50,000 pure releases each may have 53 times the ε of basic
    composition, where the recipe has 35 times.
    """
    figure, (axes,) = plotting.panels("Printed formulas: noise divided by the certified noise")
    frame = frames["all_recipes"].sort_values("times", ascending=False, ignore_index=True)
    figure.set_size_inches(8.2, 0.9 + 0.21 * len(frame))
    for verdict, color in (("enough", plotting.BLUE), ("not enough", plotting.ORANGE)):
        rows = frame[frame["verdict"] == verdict]
        axes.scatter(rows["times"], rows.index, color=color, label=verdict)
    axes.axvline(1.0, color=plotting.INK, lw=1.0, ls="-.")
    axes.set_yticks(range(len(frame)), frame["label"].tolist())
    axes.set_ylim(len(frame) - 0.5, -0.5)
    axes.set(xscale="log", xlabel="printed noise / needed noise")
    return figure


def ranges_figure(frames):
    """Printed noise over the needed noise against ε, steps and measurements.

    Below 1 a recipe breaks its guarantee: the constant 1.25 from ε = 7.4 to 9.4 on, “2 q ε” from
    ε = 1.26 on for small q, the tree of sums under replace-one at every T, and ℓ1 recovery from few
    measurements.
    """
    names = "one release", "T gradients", "k pure releases", "m measurements"
    title = "Printed formulas: noise divided by the certified noise"
    figure, panels = plotting.panels(title, *names, columns=2)
    grey = plotting.GREY
    lines = (
        (0, "budgets", "epsilon", "gaussian_3", "1.25, δ = 1e-3", plotting.BLUE, ":"),
        (0, "budgets", "epsilon", "gaussian_5", "1.25, δ = 1e-5", plotting.BLUE, "--"),
        (0, "budgets", "epsilon", "gaussian_8", "1.25, δ = 1e-8", plotting.BLUE, "-"),
        (0, "budgets", "epsilon", "sampling_1", "2 q ε, q = 0.01", plotting.ORANGE, "-"),
        (0, "budgets", "epsilon", "sampling_10", "2 q ε, q = 0.1", plotting.ORANGE, "--"),
        (0, "budgets", "epsilon", "sampling_50", "2 q ε, q = 0.5", plotting.ORANGE, ":"),
        (0, "budgets", "epsilon", "one", None, grey, "-"),
        (1, "steps", "steps", "descent", "DP-GD", plotting.GREEN, "-"),
        (1, "steps", "steps", "zero_out", "tree, zero-out", plotting.PURPLE, "-"),
        (1, "steps", "steps", "replace", "tree, replace-one", plotting.PURPLE, "--"),
        (1, "steps", "steps", "one", None, grey, "-"),
        (2, "steps", "steps", "root", "ε/√(8 T ln 1/δ)", plotting.BROWN, "-"),
        (2, "steps", "steps", "drv", "Dwork et al.", plotting.SKY, "-"),
        (2, "steps", "steps", "kov", "Kairouz et al.", plotting.AMBER, "--"),
        (2, "steps", "steps", "one", None, grey, "-"),
        (3, "measurements", "measurements", "delta_6", "ℓ1, δ = 1e-6", plotting.INK, "-"),
        (3, "measurements", "measurements", "delta_10", "ℓ1, δ = 1e-10", plotting.INK, "--"),
        (3, "measurements", "measurements", "one", None, grey, "-"),
    )
    for axes, name in zip(panels, "εTkm", strict=True):
        axes.set(xlabel=name, ylabel="printed / needed", xscale="log", yscale="log")
    for panel, part, x, quantity, label, color, ls in lines:
        style = {"color": color, "ls": ls} | ({} if label is None else {"label": label})
        plotting.curve(panels[panel], frames[part], x, quantity, **style)
    return figure


ENOUGH, SHORT = at_most("spent", "target"), below("target", "spent")
COLUMNS = {
    "recipe": "{recipe}", "setting": "{setting}", "relation": "{relation}",
    "ε claimed": "{target:.3g}", "ε certified": "{spent:.3g}", "noise": "{noise:.4g}",
    "needed": "{needed:.4g}", "noise / needed": "{times:.3g}",
}  # fmt: skip

experiment = Analysis(
    name="recipes",
    title="Printed formulas for noise, divided by the least noise that is certified",
    description=(
        "Formulas of lectures, articles and textbooks for the noise of a mechanism, and the least "
        "noise for which an accountant certifies the same (ε, δ). Noise is in units of the "
        "sensitivity of one record; δ = 1e-6 unless the setting or the mechanism differs (1e-5 for "
        "the Gaussian, 0 for Laplace and Cauchy). *Enough*: the certified ε at the printed noise "
        "is at most the claimed one. The recipes of the second table are outside of the range of "
        "their proofs, or misprints. Composition is that of arbitrary pure releases, and the "
        "noise is then 1/ε of one release. The stopping rule is compared at its mean number of "
        "steps. For the theorem on DP-GD the table of sizes shows from how many records it says "
        "more than the centre of the constraint set, whose excess risk is at most L R."
    ),
    parts={
        part.__name__: part
        for part in (all_recipes, sufficient, insufficient, budgets, steps, measurements, sizes)
    },
    claims=(
        Claim("recipes in the range of their proofs add enough noise", "sufficient", ENOUGH),
        Claim("recipes outside of it do not", "insufficient", SHORT),
        Claim("the needed noise is enough", "all_recipes", at_most("certified", "target")),
        Claim("1 % less than the needed noise is not", "all_recipes", below("target", "less")),
        Claim("DP-GD: at least 13.9 times the noise", "steps", at_most("least", "descent")),
        Claim("DP-GD: at most 22.6 times the noise", "steps", at_most("descent", "most")),
        Claim("tree: enough under zero-out at every T", "steps", at_most("one", "zero_out")),
        Claim("tree: not enough under replace-one", "steps", below("replace", "one")),
        Claim("DP-GD: 1,000 times as many records", "sizes", at_most("least", "times")),
    ),
    figures={"recipes": recipes_figure, "ranges": ranges_figure},
    listings=(
        Listing(
            "sufficient", "Recipes in the range of their proofs", COLUMNS, {"ε certified": ENOUGH}
        ),
        Listing(
            "insufficient",
            "Recipes outside of the range of a proof, and misprints",
            COLUMNS,
            {"ε certified": SHORT},
        ),
        Listing(
            "sizes",
            "Records from which the theorem on DP-GD is below the risk of the centre",
            {"": "{label}", "printed theorem": "{printed:,}", "certified": "{certified:,}"}
            | {"ratio": "{times:,.0f}"},
        ),
    ),
)
