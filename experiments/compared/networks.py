"""Networks of Bu, Dong, Long and Su (2020) under Gaussian DP: certified guarantees and accuracy.

Noise multipliers are the published ones, and guarantees are certified here. The tables of epsilons
of the article, and their errors, are in `gaussian_dp_accounting` and `gaussian_dp_curves`. The
claims fail if gradients are divided by the realised batch size, and for noise of half the clipping
norm.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.sparse
from flax import linen
from scipy.stats import norm

from privopt import ALGORITHMS, Budget, Execution, Plan, ProblemClass, problems, run_many
from privopt.convex import FirstLayer, SparseFeatures, last_iterate
from privopt.lab import (
    Analysis,
    Claim,
    Listing,
    at_most,
    below,
    close,
    plotting,
    replicate_keys,
    stream,
)
from privopt.privacy import Guarantee, gaussian_mu

BUDGET = Budget(epsilon=1.0, delta=1e-5, relation="add_or_remove_one")
EXECUTION = Execution(microbatch=16)  # fits the cache; empty microbatches are omitted
WORDS, LENGTH = 10_000, 256
RECORDED = 64  # points along a run
ALPHAS = np.linspace(0.0, 1.0, 1001)
LEVELS = 90, 95, 96, 97  # test accuracies, in per cent
# Without all files in PRIVOPT_DATA, the digits of scikit-learn replace the other data sets.
NEEDED = ("a9a", "imdb", "imdb_test", "mnist", "mnist_test")
FILES = {"a9a", "imdb", "mnist"} if {*problems.available()} >= {*NEEDED} else set()


class Dense(linen.Module):
    """Dense layers with ReLU activations."""

    widths: tuple[int, ...]

    @linen.compact
    def __call__(self, x):  # noqa: D102
        for width in self.widths[:-1]:
            x = linen.relu(linen.Dense(width)(x))
        return linen.Dense(self.widths[-1])(x)


class Convolutional(linen.Module):
    """16 filters of 8 x 8 and 32 of 4 x 4 with stride 2, each with 2 x 2 max pooling; 32 units.

    A convolution is a product of patches and a matrix, because the convolutions of XLA are slow
    inside of a loop.
    """

    @linen.compact
    def __call__(self, pixels):  # noqa: D102
        x = jnp.pad(pixels.reshape(28, 28, 1), ((3, 3), (3, 3), (0, 0)))
        for filters, side in ((16, 8), (32, 4)):
            x = linen.relu(linen.Dense(filters)(patches(x, side)))
            x = jnp.maximum(x[:-1], x[1:])
            x = jnp.maximum(x[:, :-1], x[:, 1:])
        return Dense((32, 10))(x.ravel())


def patches(image, side):
    """Return the patches of ``side x side`` with stride 2, each flattened."""
    end, corners = image.shape[0] - side + 1, np.ndindex(side, side)
    return jnp.concatenate([image[i : i + end : 2, j : j + end : 2] for i, j in corners], axis=-1)


class Task(NamedTuple):
    """Training and test records, initial parameters, and the scores and the loss of a record."""

    training: tuple[Any, Any]
    test: tuple[Any, Any]
    start: Any
    scores: Callable
    loss: Callable

    @classmethod
    def of(cls, network, training, test):
        """Return the task of a network on arrays."""
        start = network.init(stream(0, role="start"), jnp.asarray(training[0][0]))

        def loss(parameters, record):
            return cross_entropy(network.apply(parameters, record[0]), record[1])

        return cls(training, test, start, network.apply, loss)

    @property
    def problem(self):
        """The problem, of which only the size and the start are declared."""
        problem_class = ProblemClass(
            n=len(self.training[1]),
            dim=sum(leaf.size for leaf in jax.tree.leaves(self.start)),
            lipschitz=math.inf, radius=math.inf, convex=False,
        )  # fmt: skip
        return problems.Problem(
            loss=self.loss, data=self.training, problem_class=problem_class, start=self.start
        )


def cross_entropy(scores, label):
    """Return the loss of one record."""
    return optax.softmax_cross_entropy_with_integer_labels(scores, label)


def split(inputs, labels, training):
    """Return the first ``training`` records, and the others as the test."""
    arrays = np.asarray(inputs, np.float32), np.asarray(labels, np.int32)
    return tuple(a[:training] for a in arrays), tuple(a[training:] for a in arrays)


@cache
def digits():
    """Return 1,797 images of 8 x 8 in a public order, of which 1,437 are for training."""
    pixels, labels = problems.raw("digits")
    order = np.random.default_rng(0).permutation(len(labels))
    return Task.of(Dense((32, 10)), *split(pixels[order] / 8.0 - 1.0, labels[order], 1_437))


@cache
def adult():
    """Return the training part of Adult in Platt's 123 indicators, split as in the article."""
    rows, labels = problems.raw("a9a")
    return Task.of(Dense((16, 2)), *split(rows.toarray(), labels > 0.0, 29_305))


@cache
def mnist():
    """Return 60,000 images of 28 x 28, and 10,000 for the test."""
    parts = [(x / 255.0, y) for x, y in map(problems.raw, ("mnist", "mnist_test"))]
    return Task.of(Convolutional(), *(split(*part, None)[0] for part in parts))


@cache
def imdb():
    """Return the last 256 words of 25,000 reviews, and 25,000 reviews for the test.

    The mean embedding of the words of a review is a linear layer on their frequencies. Padding is
    not counted.
    """
    network = Dense((16, 2))
    key = stream(0, role="start")
    table = jax.random.uniform(key, (WORDS, 16), np.float32, -0.05, 0.05)
    rest = network.init(key, table[0])

    def shares(counts, labels):
        lengths = np.maximum(1.0, counts.sum(axis=1))
        rows = (scipy.sparse.diags_array(1.0 / lengths) @ counts).astype(np.float32)
        return SparseFeatures.of(rows, width=LENGTH), labels.astype(np.int32)

    def head(rest, hidden, label):
        return cross_entropy(network.apply(rest, hidden), label)

    def scores(parameters, row):
        return network.apply(parameters[1], row.matvec(parameters[0].T))

    parts = [shares(*problems.raw(name)) for name in ("imdb", "imdb_test")]
    return Task(*parts, (table, rest), scores, FirstLayer(head))


class Row(NamedTuple):
    """A training run, and its published accuracies in per cent."""

    task: Callable[[], Task]
    method: str
    batch: int
    step_size: float
    clip_norm: float
    noise: float
    epochs: int
    runs: int
    printed: float | None = None
    printed_free: float | None = None

    @property
    def label(self):
        """The data set, the method and the number of epochs."""
        return f"{self.task.__name__}, {self.method}, {self.epochs} epochs"

    def sized(self, profile):
        """Return the row, with two runs in the quick profile."""
        return self if profile == "full" else self._replace(runs=2)

    def planned(self, noise: float | Budget, **choices) -> Plan:
        """Return the plan with a noise multiplier, or with the least noise within a budget.

        The budget of a noise multiplier is its certified guarantee. The divisor is the expected
        batch size. The article divides by the realised one, which its accounting does not cover.
        """
        problem_class = self.task().problem.problem_class
        budget = noise if isinstance(noise, Budget) else BUDGET
        plan = ALGORITHMS[self.method].plan(
            problem_class, budget, steps=round(self.epochs * problem_class.n / self.batch),
            batch_size=self.batch, clip_norm=self.clip_norm, step_size=self.step_size,
            output=last_iterate(), **choices,
        )  # fmt: skip
        if isinstance(noise, Budget):
            return plan
        mechanism = plan.params.mechanism.with_noise_multiplier(noise)
        guarantee = Guarantee(mechanism.event(budget.relation), budget.relation)
        budget = replace(budget, epsilon=guarantee.epsilon(budget.delta).upper)
        return replace(plan, budget=budget, params=plan.params._replace(mechanism=mechanism))


@partial(jax.jit, static_argnames="scores")
def accuracy(scores, parameters, inputs, labels):
    """Return the test accuracy for each of the parameters along the leading axis."""

    def one(parameters):
        values = jax.lax.map(partial(scores, parameters), inputs, batch_size=500)
        return (values.argmax(-1).astype(labels.dtype) == labels).astype(np.float32).mean()

    return jax.lax.map(one, parameters)


def accuracies(row, plan):
    """Return accuracies along the run or at its end, and their steps.

    The shapes are ``(runs, steps)`` and ``(steps,)``. All plans have the same batches and the same
    directions of noise.
    """
    task, keys = row.task(), replicate_keys(stream(0, role="noise", row=row.label), row.runs)
    run = run_many([plan], task.problem, keys, execution=EXECUTION)
    steps, points = [plan.params.mechanism.steps], run.released
    if run.path is not None:
        steps, points = np.asarray(run.path.steps[0, 0]), run.path.points
    flat = jax.tree.map(lambda leaf, w: leaf.reshape(-1, *w.shape), points, task.start)
    return np.asarray(accuracy(task.scores, flat, *task.test)).reshape(row.runs, -1), steps


def least_errors(plan):
    """Return the least sum of both errors of a test for one record."""
    return float(np.min(ALPHAS + plan.guarantee.trade_off(ALPHAS)))


def trained(rows, profile):
    """Yield guarantee and accuracy of each run, in per cent."""
    for row in rows:
        row = row.sized(profile)
        # Digits share the program of figure 4.
        plan = row.planned(row.noise, record=RECORDED if row.task is digits else 0)
        labels, long = row.task().test[1], row.task is mnist
        values = 100.0 * accuracies(row, plan)[0][:, -1]
        free = None if long else accuracies(row, plan.with_noise(0.0))[0][:, -1]
        yield {
            "label": row.label, "parameters": plan.problem_class.dim, "noise": row.noise,
            "scale": plan.params.mechanism.scale, "spent": plan.guarantee.epsilon(BUDGET.delta),
            "errors": least_errors(plan),
            "majority": 100.0 * float(np.bincount(labels).max() / len(labels)),
            "accuracy": float(values.mean()),
            "spread": float(values.std(ddof=1)), "runs": row.runs,
            "free": None if free is None else 100.0 * float(free.mean()),
            "printed": row.printed, "printed_free": row.printed_free,
        }  # fmt: skip


DIGITS = (
    Row(digits, "dp_sgd", 64, 0.5, 1.5, 1.3, 20, 10),
    Row(digits, "noisy_adam", 64, 0.01, 1.0, 1.3, 20, 10),
)
SMALL = (
    Row(adult, "dp_sgd", 256, 0.15, 1.0, 0.55, 18, 10, 84.0, 84.5),
    Row(imdb, "noisy_adam", 512, 0.02, 1.0, 0.56, 9, 10, 83.8, 84.7),
)
LARGE = tuple(
    Row(mnist, "dp_sgd", 256, *numbers, 3, published)
    for *numbers, published in (
        (0.25, 1.5, 1.3, 15, 95.0),  # step size, clipping norm, noise, epochs, accuracy
        (0.15, 1.0, 1.1, 60, 96.6),
        (0.25, 1.5, 0.7, 45, 97.0),
        (0.25, 1.5, 0.6, 62, 97.6),
        (0.25, 1.5, 0.55, 68, 97.8),
        (0.25, 1.5, 0.5, 100, 98.0),
    )
)
# Top and bottom of Figure 4, each one run with noise and epsilon of the moments accountant.
FIGURES = {
    "figure_4": (Row(mnist, "dp_sgd", 256, 0.15, 1.5, 1.3, 20, 1), 1.34),
    "figure_4_bottom": (Row(mnist, "dp_sgd", 256, 0.15, 1.5, 0.7, 70, 1), 8.68),
}
FIGURES_OF_DIGITS = {
    "figure_4": (Row(digits, "dp_sgd", 64, 0.5, 1.5, 2.0, 20, 10), 2.69),
    "figure_4_bottom": (Row(digits, "dp_sgd", 64, 0.5, 1.5, 1.0, 20, 10), 7.73),
}


def table(profile):
    """Return the rows of the small data sets, and the first row of MNIST."""
    if profile == "quick":
        return trained(DIGITS[:1], profile)
    return trained((*DIGITS, *SMALL, LARGE[0]) if FILES else DIGITS, profile)


@cache
def runs_of(figure, profile):
    """Return three plans at one epsilon, their epochs and their accuracies along the run."""
    figures = FIGURES if profile == "full" and FILES else FIGURES_OF_DIGITS
    row, claimed = figures[figure]
    row = row.sized(profile)
    rate = row.batch / len(row.task().training[1])
    steps = round(row.epochs / rate)
    # The root z of mu(epsilon, delta)^2 = rate^2 T (e^(1/z^2) - 1).
    excess = (gaussian_mu(claimed, BUDGET.delta) / rate) ** 2 / steps
    noises = {
        "moments": row.noise,
        "certified": replace(BUDGET, epsilon=claimed),
        "clt": 1.0 / math.sqrt(math.log1p(excess)),
    }
    plans = [row.planned(noise, record=RECORDED) for noise in noises.values()]

    def along(plan):
        with jax.enable_x64(True):  # a setting of the thread
            return accuracies(row, plan)

    with ThreadPoolExecutor() as threads:  # one core each
        values, steps = zip(*threads.map(along, plans), strict=True)
    means = 100.0 * np.mean(values, axis=1)
    return row, claimed, dict(zip(noises, plans, strict=True)), rate * steps[0], means


def along_the_run(figure, profile):
    """Yield accuracies along the run in per cent, and their gains over the first plan in points."""
    row, _, plans, epochs, means = runs_of(figure, profile)
    for i in np.flatnonzero(epochs >= 0.2):
        yield {
            "label": f"{row.label}, {epochs[i]:.2f}", "epochs": float(epochs[i]),
            **dict(zip(plans, map(float, means[:, i]), strict=True)),
            "certified_gain": float(means[1, i] - means[0, i]),
            "clt_gain": float(means[2, i] - means[0, i]),
        }  # fmt: skip


def noises(profile):
    """Yield claimed and certified epsilons, and the share of the noise reduction by the CLT."""
    for figure in FIGURES:
        row, claimed, plans, epochs, means = runs_of(figure, profile)
        multipliers = {
            name: plan.params.mechanism.scale / plan.params.mechanism.record_sensitivity
            for name, plan in plans.items()
        }
        gain = multipliers["moments"] - multipliers["clt"]
        for (name, plan), accuracy in zip(plans.items(), means, strict=True):
            label = {"moments": "moments accountant", "clt": "CLT"}.get(name, name)
            yield {
                "label": f"{label}, claimed ε {claimed:g}", "noise_by": label, "figure": figure,
                "run": row.label, "claimed": claimed, "noise": multipliers[name],
                "spent": plan.guarantee.epsilon(BUDGET.delta),
                "gain": 100.0 * (multipliers["moments"] - multipliers[name]) / gain,
                "accuracy": float(accuracy[-1]),
                **{f"epochs_{level}": first(epochs, accuracy, level) for level in LEVELS},
            }  # fmt: skip


def first(epochs, accuracy, level):
    """Return the recorded epoch from which on the accuracy is at least ``level``, or None."""
    lower = np.flatnonzero(accuracy < level)
    index = lower[-1] + 1 if lower.size else 0
    return float(epochs[index]) if index < len(epochs) else None


def errors(profile):
    """Yield the least sum of both errors at the run of Figure 3, which reaches 96.6 %."""
    row = LARGE[1] if profile == "full" and FILES else DIGITS[0]
    plan = row.planned(row.noise)
    rate, steps = row.batch / plan.problem_class.n, plan.params.mechanism.steps
    mu = rate * math.sqrt(steps * math.expm1(row.noise**-2))
    clt = float(2.0 * norm.cdf(-mu / 2.0))
    label = f"{row.label}, noise {row.noise:g}"
    yield {"label": label, "certified": least_errors(plan), "clt": clt}


def plot_along_the_run(frames, figure):
    """Return a figure of test accuracy, its gain over the moments accountant, and certified ε."""
    points = frames["noises"][frames["noises"]["figure"] == figure]
    names = "test accuracy", "gain over the moments accountant", "ε by noise multiplier"
    title = f"DP-SGD with three noises for claimed ε {points['claimed'].iloc[0]:g}: accuracy and ε"
    drawn, (accuracy, gain, epsilon) = plotting.panels(title, *names)
    accuracy.set(xlabel="epochs", ylabel="per cent", xscale="log")
    gain.set(xlabel="epochs", ylabel="percentage points", xscale="log")
    epsilon.set(xlabel="noise multiplier", ylabel="ε at δ = 0.00001")
    for name, noise_by, label, color, ls in (
        ("clt", "CLT", "noise by the CLT", plotting.ORANGE, "--"),
        ("certified", "certified", "certified noise", plotting.BLUE, "-"),
        ("moments", "moments accountant", "noise by the moments accountant", plotting.PURPLE, ":"),
    ):
        style = {"label": label, "color": color, "ls": ls}
        plotting.curve(accuracy, frames[figure], "epochs", name, **style)
        if name != "moments":
            plotting.curve(gain, frames[figure], "epochs", f"{name}_gain", **style)
        point = points[points["noise_by"] == noise_by]
        plotting.curve(epsilon, point, "noise", "spent", color=color, marker="o")
    claimed = {"label": "claimed ε", "color": plotting.GREY}
    plotting.curve(epsilon, points, "noise", "claimed", **claimed)
    return drawn


def top(frames):
    """Test accuracy, its gain over the moments accountant, and the certified ε of three noises.

    Means of all runs. The noises are for one claimed ε: by the moments accountant, by the central
    limit theorem (CLT), and certified. On MNIST the accuracies differ by less than a point. The
    noise by the CLT has a larger ε than claimed.
    """
    return plot_along_the_run(frames, "figure_4")


def bottom(frames):
    """The same at a larger ε.

    On MNIST the three accuracies differ by at most a fifth of a point. All runs have the same
    batches and the same directions of noise; the article compares one run of each, of other draws.
    """
    return plot_along_the_run(frames, "figure_4_bottom")


TRAINED = {
    "run": "{label}", "parameters": "{parameters}", "noise": "{noise:g}",
    "certified ε": "{spent:.3f}", "least sum of errors": "{errors:.3f}", "runs": "{runs}",
    "accuracy": "{accuracy:.1f}", "deviation of runs": "{spread:.1f}",
    "published": "{printed:.1f}", "without noise": "{free:.1f}",
    "published, not private": "{printed_free:.1f}",
}  # fmt: skip
PUBLISHED = close("accuracy", "printed", 1.0)

experiment = Analysis(
    name="networks",
    uses=NEEDED,
    title="DP-SGD and NoisyAdam on networks with published noise: accuracy and certified ε",
    description=(
        "Networks of Bu, Dong, Long and Su, *Deep learning with Gaussian differential privacy* "
        "(2020, arXiv:1911.11607), with the published noise, steps and clipping norms, under "
        "add-or-remove-one, δ = 1e-5. Guarantees are certified here for gradients divided by the "
        "expected batch size; the code of the article divides by the realised one, which its "
        "accounting does not cover. *Without noise* is the same run, clipped, without noise. "
        "MNIST: two convolutions, first row of Table 1, not run without noise. Adult: 16 units on "
        "Platt's 123 indicators. IMDb: the mean embedding of the words of a review, from 10,000 "
        "words. The digits of scikit-learn, with common hyperparameters, are the only data set if "
        "`PRIVOPT_DATA` does not have all others.\n\n"
        "Figure 4 of the article compares two noises for one claimed ε, by the moments accountant "
        "and by a central limit theorem (CLT), at two values of ε. A third noise is certified here "
        "for each. The noise by the CLT exceeds the claimed ε, so a part of its gain is not "
        "private. The article prints the epochs to 95, 96 and 97 % at the larger ε: 23, 33 and 64 "
        "with the noise by the moments accountant, 18, 26 and 45 with the noise by the CLT."
    ),
    parts={
        "table": table, **{figure: partial(along_the_run, figure) for figure in FIGURES},
        "errors": errors, "noises": noises,
    },
    claims=(
        Claim("the accuracy is above the share of the largest class", "table",
              below("majority", "accuracy")),
        Claim("the certified ε is at most the claimed one for two of three noises", "noises",
              at_most("spent", "claimed"), rows=4),
        Claim("the least sum of errors is at least that by the CLT", "errors",
              at_most("clt", "certified")),
    ),
    figures={"figure_4": top, "figure_4_bottom": bottom},
    listings=(
        Listing("table", "Test accuracy, in per cent", TRAINED, {"published": PUBLISHED}),
        Listing(
            "noises",
            "Figure 4: claimed and certified ε",
            {"noise by": "{noise_by}", "run": "{run}", "ε claimed": "{claimed:.2f}",
             "noise": "{noise:.3f}", "certified ε": "{spent:.4f}",
             "share of the CLT's gain": "{gain:.0f} %", "accuracy": "{accuracy:.1f}",
             **{f"epochs to {level} %": f"{{epochs_{level}:.1f}}" for level in LEVELS}},
            checks={"certified ε": at_most("spent", "claimed")},
        ),
        Listing(
            "errors",
            "Figure 3: least sum of both errors of a test for one record",
            {"run": "{label}", "certified": "{certified:.4f}", "CLT": "{clt:.4f}"},
        ),
    ),
)  # fmt: skip

mnist_rows = Analysis(
    name="networks_mnist",
    uses=NEEDED,
    title="DP-SGD on MNIST with published noise: accuracy and certified ε of five rows",
    description=(
        "Table 1 of Bu, Dong, Long and Su (2020) after its first row, which is in `networks`: the "
        "published noise, its certified guarantee, and the mean accuracy of three runs. 1,005 "
        "epochs, two to five hours on one core, each row cached separately."
    ),
    parts={
        f"row_{i}": partial(trained, [row if FILES else DIGITS[0]])
        for i, row in enumerate(LARGE[1:], 2)
    },
    claims=tuple(
        Claim(f"row {i}: the published accuracy is met up to a point", f"row_{i}", PUBLISHED)
        for i in range(2, 7)
    ),
    listings=tuple(
        Listing(f"row_{i}", f"Row {i}", TRAINED, {"published": PUBLISHED}) for i in range(2, 7)
    ),
    profiles=("full",),
)
