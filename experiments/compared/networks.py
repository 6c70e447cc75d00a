"""Deep learning under Gaussian DP: the networks of Bu, Dong, Long and Su (2020), certified.

Noises are the published ones, and what they promise is what this library certifies. The article's
tables of epsilons, and what is wrong with them: `gaussian_dp_accounting`, `gaussian_dp_curves`.
What goes red: a divisor that follows the batch, noise for half the clip norm.
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
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.privacy import Guarantee, gaussian_mu

BUDGET = Budget(epsilon=1.0, delta=1e-5, relation="add_or_remove_one")
EXECUTION = Execution(microbatch=32)  # what fits a cache; places that nobody takes are left out
WORDS, LENGTH = 10_000, 256
RECORDED = 64  # points along a run
ALPHAS = np.linspace(0.0, 1.0, 1001)
# Unless all files are there, which PRIVOPT_DATA finds, what ships with scikit-learn is learned.
NEEDED = ("a9a", "imdb", "imdb_test", "mnist", "mnist_test")
FILES = {"a9a", "imdb", "mnist"} if {*problems.available()} >= {*NEEDED} else set()


class Dense(linen.Module):
    """Dense layers, with the positive part between them."""

    widths: tuple[int, ...]

    @linen.compact
    def __call__(self, x):  # noqa: D102
        for width in self.widths[:-1]:
            x = linen.relu(linen.Dense(width)(x))
        return linen.Dense(self.widths[-1])(x)


class Convolutional(linen.Module):
    """16 filters of 8 x 8, 32 of 4 x 4, with stride 2, each before the largest of 2 x 2; 32 units.

    A convolution is written as patches times a matrix: XLA's own are slow inside of a loop.
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
    """Those of ``side x side`` at every second place, each as one row of numbers."""
    end, places = image.shape[0] - side + 1, np.ndindex(side, side)
    return jnp.concatenate([image[i : i + end : 2, j : j + end : 2] for i, j in places], axis=-1)


class Task(NamedTuple):
    """What is learned: records for training and for a test, and how the record's scores come."""

    training: tuple[Any, Any]
    test: tuple[Any, Any]
    start: Any
    scores: Callable
    loss: Callable

    @classmethod
    def of(cls, network, training, test):
        """Of a network on arrays."""
        start = network.init(stream(0, role="start"), jnp.asarray(training[0][0]))

        def loss(parameters, record):
            return cross_entropy(network.apply(parameters, record[0]), record[1])

        return cls(training, test, start, network.apply, loss)

    @property
    def problem(self):
        """Neither convex, nor Lipschitz, nor bounded: what is declared is the size, and a start."""
        facts = ProblemClass(
            n=len(self.training[1]),
            dim=sum(leaf.size for leaf in jax.tree.leaves(self.start)),
            lipschitz=math.inf, radius=math.inf, convex=False,
        )  # fmt: skip
        return problems.Problem(
            loss=self.loss, data=self.training, problem_class=facts, start=self.start
        )


def cross_entropy(scores, label):
    """Of one record."""
    return optax.softmax_cross_entropy_with_integer_labels(scores, label)


def parted(inputs, labels, training):
    """The first so many records for training, the others for a test."""
    whole = np.asarray(inputs, np.float32), np.asarray(labels, np.int32)
    return tuple(a[:training] for a in whole), tuple(a[training:] for a in whole)


@cache
def digits():
    """1,437 of 1,797 images of 8 x 8, in one public order."""
    pixels, labels = problems.raw("digits")
    order = np.random.default_rng(0).permutation(len(labels))
    return Task.of(Dense((32, 10)), *parted(pixels[order] / 8.0 - 1.0, labels[order], 1_437))


@cache
def adult():
    """The training part of Adult in Platt's 123 indicators, parted as in the article."""
    rows, labels = problems.raw("a9a")
    return Task.of(Dense((16, 2)), *parted(rows.toarray(), labels > 0.0, 29_305))


@cache
def mnist():
    """60,000 images of 28 x 28, and 10,000 for the test."""
    parts = [(x / 255.0, y) for x, y in map(problems.raw, ("mnist", "mnist_test"))]
    return Task.of(Convolutional(), *(parted(*part, None)[0] for part in parts))


@cache
def imdb():
    """25,000 reviews, cut to their last 256 words, and as many for the test.

    The mean of the embeddings of a review's words is a linear layer on their shares. Padding is no
    word, and counts for nothing.
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
    """A training run, and the accuracies that are printed of it, in per cent."""

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
        """Data and length."""
        return f"{self.task.__name__}, {self.method}, {self.epochs} epochs"

    def sized(self, profile):
        """With fewer runs in a quick profile."""
        return self if profile == "full" else self._replace(runs=2)

    def planned(self, noise: float | Budget, **choices) -> Plan:
        """With this noise, over a record's share of a step, or the least within a budget.

        The budget of a published noise is what it is certified to spend. The divisor is the
        expected size of a batch, not as in the article the realised one, which nothing covers.
        """
        facts = self.task().problem.problem_class
        budget = noise if isinstance(noise, Budget) else BUDGET
        plan = ALGORITHMS[self.method].plan(
            facts, budget, steps=round(self.epochs * facts.n / self.batch), batch_size=self.batch,
            clip_norm=self.clip_norm, step_size=self.step_size, output=last_iterate(), **choices,
        )  # fmt: skip
        if isinstance(noise, Budget):
            return plan
        mechanism = plan.params.mechanism.with_noise_multiplier(noise)
        promised = Guarantee(mechanism.event(budget.relation), budget.relation)
        spent = replace(budget, epsilon=promised.epsilon(budget.delta).upper)
        return replace(plan, budget=spent, params=plan.params._replace(mechanism=mechanism))


@partial(jax.jit, static_argnames="scores")
def accuracy(scores, parameters, inputs, labels):
    """Share of the test's records, for each of the parameters along the leading axis."""

    def one(parameters):
        found = jax.lax.map(partial(scores, parameters), inputs, batch_size=500)
        return (found.argmax(-1).astype(labels.dtype) == labels).astype(np.float32).mean()

    return jax.lax.map(one, parameters)


def accuracies(row, plan):
    """Along the run, or at its end, and at which steps: shapes ``(runs, steps)`` and ``(steps,)``.

    All plans draw the same batches and the same directions of noise.
    """
    task, keys = row.task(), replicate_keys(stream(0, role="noise", row=row.label), row.runs)
    run = run_many([plan], task.problem, keys, execution=EXECUTION)
    steps, points = [plan.params.mechanism.steps], run.released
    if run.path is not None:
        steps, points = np.asarray(run.path.steps[0, 0]), run.path.points
    flat = jax.tree.map(lambda leaf, w: leaf.reshape(-1, *w.shape), points, task.start)
    return np.asarray(accuracy(task.scores, flat, *task.test)).reshape(row.runs, -1), steps


def trained(profile, rows):
    """What each run spends, promises and reaches; per cent."""
    for row in rows:
        row = row.sized(profile)
        # of digits in the program of figure 4
        plan = row.planned(row.noise, record=RECORDED if row.task is digits else 0)
        labels = row.task().test[1]
        found = 100.0 * accuracies(row, plan)[0][:, -1]
        free = None
        if row.runs > 1:
            free = 100.0 * float(accuracies(row, plan.with_noise(0.0))[0][:, -1].mean())
        yield {
            "label": row.label,
            "parameters": plan.problem_class.dim,
            "noise": row.noise,
            "scale": plan.params.mechanism.scale,
            "spent": plan.guarantee.epsilon(BUDGET.delta),
            "errors": float(np.min(ALPHAS + plan.guarantee.trade_off(ALPHAS))),
            "majority": 100.0 * float(np.bincount(labels).max() / len(labels)),
            "accuracy": float(found.mean()),
            "spread": float(found.std(ddof=1)) if row.runs > 1 else None,
            "runs": row.runs,
            "free": free,
            "printed": row.printed,
            "printed_free": row.printed_free,
        }


DIGITS = (
    Row(digits, "dp_sgd", 64, 0.5, 1.5, 1.3, 20, 10),
    Row(digits, "noisy_adam", 64, 0.01, 1.0, 1.3, 20, 10),
)
SMALL = (
    Row(adult, "dp_sgd", 256, 0.15, 1.0, 0.55, 18, 10, 84.0, 84.5),
    Row(imdb, "noisy_adam", 512, 0.02, 1.0, 0.56, 9, 10, 83.8, 84.7),
)
LARGE = tuple(
    Row(mnist, "dp_sgd", 256, step_size, clip_norm, noise, epochs, 1, printed)
    for step_size, clip_norm, noise, epochs, printed in (
        (0.25, 1.5, 1.3, 15, 95.0),
        (0.15, 1.0, 1.1, 60, 96.6),
        (0.25, 1.5, 0.7, 45, 97.0),
        (0.25, 1.5, 0.6, 62, 97.6),
        (0.25, 1.5, 0.55, 68, 97.8),
        (0.25, 1.5, 0.5, 100, 98.0),
    )
)
# Top of Figure 4: noise and epsilon of the moments accountant; and the like of digits.
FIGURE = Row(mnist, "dp_sgd", 256, 0.15, 1.5, 1.3, 20, 1), 1.34
FIGURE_OF_DIGITS = Row(digits, "dp_sgd", 64, 0.5, 1.5, 2.0, 20, 10), 2.69


def table(profile):
    """The small sets, and the first row of MNIST."""
    full = profile == "full"
    yield from trained(profile, DIGITS if full else DIGITS[:1])
    if full and FILES:
        yield from trained(profile, (*SMALL, LARGE[0]))


def mnist_row(row, profile):
    """One of the others; without the files, of digits."""
    yield from trained(profile, [row if FILES else DIGITS[0]])


@cache
def compared(profile):
    """Figure 4: plans of three noises at one epsilon, steps, and accuracies along them."""
    row, claimed = FIGURE if profile == "full" and FILES else FIGURE_OF_DIGITS
    row = row.sized(profile)
    rate = row.batch / len(row.task().training[1])
    steps = round(row.epochs / rate)
    # the root of mu(epsilon, delta)^2 = rate^2 T (e^(1/z^2) - 1)
    excess = (gaussian_mu(claimed, BUDGET.delta) / rate) ** 2 / steps
    noises = {
        "moments": row.noise,
        "certified": replace(BUDGET, epsilon=claimed),
        "clt": 1.0 / math.sqrt(math.log1p(excess)),
    }
    plans = [row.planned(noise, record=RECORDED) for noise in noises.values()]

    def along(plan):
        with jax.enable_x64(True):  # in this thread too
            return accuracies(row, plan)

    with ThreadPoolExecutor() as threads:  # one core each
        reached, steps = zip(*threads.map(along, plans), strict=True)
    found = 100.0 * np.mean(reached, axis=1)
    return row, claimed, dict(zip(noises, plans, strict=True)), rate * steps[0], found


def figure_4(profile):
    """Accuracy along the run, in per cent, and what less noise than the first gains, in points."""
    row, _, plans, epochs, found = compared(profile)
    for i in np.flatnonzero(epochs >= 0.2):
        yield {
            "label": f"{row.label}, {epochs[i]:.2f}",
            "epochs": float(epochs[i]),
            **dict(zip(plans, map(float, found[:, i]), strict=True)),
            "certified_gain": float(found[1, i] - found[0, i]),
            "clt_gain": float(found[2, i] - found[0, i]),
        }


def noises(profile):
    """What is claimed and spent at the end, and how much of the limit theorem's gain is lent."""
    row, claimed, plans, epochs, found = compared(profile)
    multipliers = {
        name: plan.params.mechanism.scale / plan.params.mechanism.record_sensitivity
        for name, plan in plans.items()
    }
    gain = multipliers["moments"] - multipliers["clt"]
    for (name, plan), accuracy in zip(plans.items(), found, strict=True):
        yield {
            "label": {"moments": "moments accountant", "clt": "CLT"}.get(name, name),
            "run": row.label,
            "claimed": claimed,
            "noise": multipliers[name],
            "spent": plan.guarantee.epsilon(BUDGET.delta),
            "gain": 100.0 * (multipliers["moments"] - multipliers[name]) / gain,
            "accuracy": float(accuracy[-1]),
            "epochs_90": first(epochs, accuracy, 90.0),
            "epochs_95": first(epochs, accuracy, 95.0),
        }


def first(epochs, accuracy, level):
    """The first recorded epoch from which on the accuracy was as high."""
    below = np.flatnonzero(accuracy < level)
    after = below[-1] + 1 if below.size else 0
    return float(epochs[after]) if after < len(epochs) else None


def errors(profile):
    """Figure 3's text: the least sum of both errors of a test, at the run that reaches 96.6 %.

    What is printed is the whole curve of the limit theorem, and of the moments accountant one pair.
    """
    row = LARGE[1] if profile == "full" and FILES else DIGITS[0]
    plan = row.planned(row.noise)
    rate, steps = row.batch / plan.problem_class.n, plan.params.mechanism.steps
    mu = rate * math.sqrt(steps * math.expm1(row.noise**-2))
    yield {
        "label": f"{row.label}, noise {row.noise:g}",
        "certified": float(np.min(ALPHAS + plan.guarantee.trade_off(ALPHAS))),
        "clt": float(2.0 * norm.cdf(-mu / 2.0)),
    }


TRAINED = (
    Column("run", "{label}"),
    Column("parameters", "{parameters}"),
    Column("noise", "{noise:g}"),
    Column("certified ε", "{spent:.3f}"),
    Column("least sum of errors", "{errors:.3f}"),
    Column("runs", "{runs}"),
    Column("accuracy", "{accuracy:.1f}"),
    Column("deviation of runs", "{spread:.1f}"),
    Column("printed", "{printed:.1f}", "accuracy = printed ± 1.0"),
    Column("without noise", "{free:.1f}"),
    Column("printed, not private", "{printed_free:.1f}"),
)

experiment = Study(
    name="networks",
    uses=NEEDED,
    title="Deep learning under Gaussian DP, as certified",
    description=(
        "Networks of Bu, Dong, Long and Su, *Deep learning with Gaussian differential privacy* "
        "(2020, arXiv:1911.11607), trained by `dp_sgd` and `noisy_adam` with the published noises, "
        "steps and clip norms, a record added or removed, δ = 1e-5. What the noises promise is "
        "certified here, for batches divided by their expected size; the article's code divides by "
        "the realised one, which its accounting does not cover. *Without noise* is the same run, "
        "clipped, with the noise off. MNIST: two convolutions, its first row of Table 1. Adult: 16 "
        "units on Platt's 123 indicators, parted as in the article. IMDb: the mean "
        "of the embeddings of a review's words, of 10,000; gradients of single reviews are clipped "
        "and never formed; padding is left out of the mean. Digits of "
        "scikit-learn, with customary numbers, stand beside them, and alone where `PRIVOPT_DATA` "
        "names no folder with all others.\n\n"
        "Figure 4: two noises that are said to spend the same, by the moments accountant "
        "and by a central limit theorem (CLT), and a third that is certified to spend it. Part of "
        "the gain of the second is lent: it spends more than is said.\n\n"
        "The other five rows of MNIST are `privopt run networks_mnist --profile full`: 335 epochs, "
        "two hours of a core, each row kept by itself."
    ),
    parts={part.__name__: part for part in (table, figure_4, errors, noises)},
    claims=(
        Claim("what is learned is more than the majority", "table", "majority < accuracy"),
        Claim("certified: within what is claimed", "noises", "spent <= claimed", rows=2),
        Claim("the least sum of errors is no less than by the CLT", "errors", "clt <= certified"),
    ),
    plots=(
        Plot(
            "figure_4",
            "Figure 4: one claim of privacy, three noises",
            Panel(
                part="figure_4",
                x="epochs",
                x_label="epochs",
                y_label="per cent",
                title="accuracy on the test",
                log="x",
                lines=(
                    Line("clt", "noise by the CLT", "orange", "dashes"),
                    Line("certified", "certified noise", "blue"),
                    Line("moments", "by the moments accountant", "purple", "dots"),
                ),
            ),
            Panel(
                part="figure_4",
                x="epochs",
                x_label="epochs",
                y_label="percentage points",
                title="gain over the moments accountant",
                log="x",
                lines=(
                    Line("clt_gain", "noise by the CLT", "orange", "dashes"),
                    Line("certified_gain", "certified noise", "blue"),
                ),
            ),
            Panel(
                part="noises",
                x="noise",
                x_label="noise over the clip norm",
                title="CLT, certified, moments",
                y_label="ε at δ = 0.00001",
                lines=(
                    Line("claimed", "claimed of all three", "grey"),
                    Line("spent", "certified", "green", "points"),
                ),
            ),
        ),
    ),
    listings=(
        Listing("table", "Accuracy on the test, in per cent", *TRAINED),
        Listing(
            "noises",
            "Figure 4: what is claimed, and what is spent",
            Column("noise by", "{label}"),
            Column("run", "{run}"),
            Column("ε claimed", "{claimed:.2f}"),
            Column("noise", "{noise:.3f}"),
            Column("certified ε", "{spent:.4f}", "spent <= claimed"),
            Column("share of the CLT's gain", "{gain:.0f} %"),
            Column("accuracy", "{accuracy:.1f}"),
            Column("epochs to 90 %", "{epochs_90:.1f}"),
            Column("epochs to 95 %", "{epochs_95:.1f}"),
        ),
        Listing(
            "errors",
            "Figure 3: least sum of both errors of a test for one record",
            Column("run", "{label}"),
            Column("certified", "{certified:.4f}"),
            Column("CLT", "{clt:.4f}"),
        ),
    ),
)

mnist_rows = Study(
    name="networks_mnist",
    uses=NEEDED,
    title="Deep learning under Gaussian DP: the other rows of MNIST",
    description=(
        "Table 1 of Bu, Dong, Long and Su (2020) after its first row, which is in `networks`: the "
        "published noises, what is certified of them, and the accuracy of one run of each. 335 "
        "epochs, two hours of a core; each row is kept by itself."
    ),
    parts={f"row_{i}": partial(mnist_row, row) for i, row in enumerate(LARGE[1:], 2)},
    claims=tuple(
        Claim(f"row {i}: within a point of what is printed", f"row_{i}", "accuracy = printed ± 1.0")
        for i in range(2, 7)
    ),
    listings=tuple(Listing(f"row_{i}", f"Row {i}", *TRAINED) for i in range(2, 7)),
    profiles=("full",),
)
