"""Ratings by factors of users and items, under the published noise: NoisyAdam, certified.

The last row of Bu, Dong, Long and Su (2020), on synthetic ratings of the published sizes.
What goes red: noise for half the clip norm, a test whose ratings were learned.
"""

import math
from dataclasses import replace
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from privopt import Budget, Execution, ProblemClass, noisy_adam, problems, run_many
from privopt.convex import FirstLayer, SparseFeatures, last_iterate
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.privacy import Guarantee

BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
RATE, STEPS, STEP_SIZE, CLIP, NOISE = 1.0 / 80.0, 1_600, 0.01, 5.0, 0.6
CLT, MOMENTS = 10.61, 15.39  # the article's epsilons
RANK = 8
RECORDED = 40


class Ratings(NamedTuple):
    """Who rated what, how, and what was to be expected; the first ``training`` are learned."""

    users: int
    items: int
    training: int
    who: np.ndarray
    what: np.ndarray
    stars: np.ndarray
    expected: np.ndarray

    def part(self, chosen):
        """Records: two rows with a single one, and a rating."""
        ones = np.ones((len(self.who[chosen]), 1), np.float32)
        rows = (
            SparseFeatures(self.who[chosen, None], ones, self.users),
            SparseFeatures(self.what[chosen, None], ones, self.items),
        )
        return rows, jnp.asarray(self.stars[chosen], np.float32)


@cache
def ratings(profile):
    """1 to 5 stars by 6,040 users for 3,706 items, 1,000,209 in all, of which 80 % are learned.

    Nobody rates an item twice. How many a user rates, and how many rate an item, has a long tail.
    A rating is a level, those of the user and of the item, a product of eight factors each, and
    noise, rounded. A quick profile has a twentieth of both, and a fiftieth of the ratings.
    """
    users, items, count = (6_040, 3_706, 1_000_209) if profile == "full" else (302, 185, 20_004)
    draw = np.random.default_rng(0)
    activity, fame = draw.lognormal(sigma=1.0, size=users), draw.lognormal(sigma=1.5, size=items)
    drawn = np.log(activity)[:, None] + np.log(fame) + draw.gumbel(size=(users, items))
    pairs = np.argpartition(drawn, -count, axis=None)[-count:]  # without replacement
    who, what = np.divmod(draw.permutation(pairs), items)
    levels = 0.4 * draw.normal(size=users)[who] + 0.5 * draw.normal(size=items)[what]
    factors = draw.normal(size=(users, RANK)), draw.normal(size=(items, RANK))
    taste = (factors[0][who] * factors[1][what]).sum(axis=1) / math.sqrt(RANK)
    mean = 3.6 + levels + 0.4 * taste
    stars = np.clip(np.rint(mean + 0.8 * draw.normal(size=count)), 1.0, 5.0)
    expected = 1.0 + sum(ndtr((mean - edge) / 0.8) for edge in (1.5, 2.5, 3.5, 4.5))
    return Ratings(users, items, 4 * count // 5, who, what, stars, expected)


def prediction(level, both):
    """A level, those of user and item, and the product of their factors."""
    user, item = both
    return level + user[-1] + item[-1] + user[:-1] @ item[:-1]


def half_square(level, both, stars):
    """The loss."""
    return 0.5 * (prediction(level, both) - stars) ** 2


@jax.jit
def error(parameters, rows, stars):
    """Root of the mean squared error on the test, for each of the parameters."""

    def one(parameters):
        tables, level = parameters
        both = [row.matvec(table.T).T for table, row in zip(tables, rows, strict=True)]
        found = jax.vmap(partial(prediction, level))(both)
        return jnp.sqrt(jnp.mean((jnp.clip(found, 1.0, 5.0) - stars) ** 2))

    return jax.lax.map(one, parameters)


def level_of(who, residuals, count):
    """The mean residual of each; 0 of one without ratings."""
    return np.bincount(who, residuals, count) / np.maximum(np.bincount(who, minlength=count), 1)


def references(profile):
    """Errors on the test without privacy: of one mean, of levels, and of what was expected."""
    known = ratings(profile)
    learned, test = slice(None, known.training), slice(known.training, None)
    mean = known.stars[learned].mean()
    found = {"mean": np.full(len(known.stars), mean)}
    item = (
        mean + level_of(known.what[learned], known.stars[learned] - mean, known.items)[known.what]
    )
    left = (known.stars - item)[learned]
    found["levels"] = item + level_of(known.who[learned], left, known.users)[known.who]
    found["expected"] = known.expected
    return {
        name: float(np.sqrt(np.mean((value - known.stars)[test] ** 2)))
        for name, value in found.items()
    }


@cache
def trained(profile):
    """The private plan, epochs along a run, and errors with the noise and without it."""
    known, runs = ratings(profile), 10 if profile == "full" else 2
    rows, stars = known.part(slice(None, known.training))
    key = stream(0, role="start")
    tables = tuple(
        jax.random.uniform(key, (count, RANK + 1), np.float32, -0.05, 0.05)
        for key, count in zip(jax.random.split(key), (known.users, known.items), strict=True)
    )
    start = tables, jnp.asarray(3.0, np.float32)  # the middle of the scale
    facts = ProblemClass(
        n=known.training, dim=sum(leaf.size for leaf in jax.tree.leaves(start)),
        lipschitz=math.inf, radius=math.inf, convex=False,
    )  # fmt: skip
    problem = problems.Problem(
        loss=FirstLayer(half_square), data=(rows, stars), problem_class=facts, start=start
    )
    plan = noisy_adam(
        facts, BUDGET, steps=STEPS, rate=RATE, clip_norm=CLIP, step_size=STEP_SIZE,
        output=last_iterate(), record=RECORDED,
    )  # fmt: skip
    mechanism = plan.params.mechanism.with_noise_multiplier(NOISE)
    promised = Guarantee(mechanism.event(BUDGET.relation), BUDGET.relation)
    budget = replace(BUDGET, epsilon=promised.epsilon(BUDGET.delta).upper)
    plan = replace(plan, budget=budget, params=plan.params._replace(mechanism=mechanism))
    keys = replicate_keys(stream(0, role="noise"), runs)
    test = known.part(slice(known.training, None))
    both = [plan, plan.with_noise(0.0)]
    path = run_many(both, problem, keys, execution=Execution(chunk=1)).path
    flat = jax.tree.map(lambda leaf, w: leaf.reshape(-1, *w.shape), path.points, start)
    found = np.asarray(error(flat, *test)).reshape(len(both), runs, -1)
    return plan, RATE * np.asarray(path.steps[0, 0]), *found


def errors(profile):
    """At the end of a run and where it was least; beside what needs no factors."""
    plan, epochs, *found = trained(profile)
    known = references(profile)
    labels = "NoisyAdam", "the same without noise"
    for label, error, spent in zip(
        labels, found, (plan.guarantee.epsilon(BUDGET.delta), None), strict=True
    ):
        mean = error.mean(axis=0)
        yield {
            "label": label,
            "spent": spent,
            "error": float(mean[-1]),
            "spread": float(error[:, -1].std(ddof=1)),
            "runs": len(error),
            "least": float(mean.min()),
            "epoch": float(epochs[mean.argmin()]),
            **known,
        }


def along(profile):
    """The error along a run, and what stays as it is."""
    _, epochs, noisy, free = trained(profile)
    for i in range(len(epochs)):
        yield {
            "label": f"{epochs[i]:.2f}",
            "epochs": float(epochs[i]),
            "noisy": float(noisy[:, i].mean()),
            "free": float(free[:, i].mean()),
            **references(profile),
        }


def spent(profile):
    """What the noise promises, and what is printed of it."""
    plan, *_ = trained(profile)
    yield {
        "label": f"noise {NOISE:g}, {STEPS} steps at rate 1/80",
        "certified": plan.guarantee.epsilon(BUDGET.delta),
        "clt": CLT,
        "moments": MOMENTS,
    }


experiment = Study(
    name="ratings",
    title="Ratings under Gaussian DP: published noise, synthetic stars",
    description=(
        "A rating is predicted by a level, levels of its user and its item, and the product of "
        f"{RANK} factors of both. Training: `noisy_adam` with the numbers that Bu, Dong, Long and "
        "Su (2020, arXiv:1911.11607) give for MovieLens 1M: 1,600 steps at rate 1/80, step size "
        "0.01, clip norm 5, noise 0.6; one rating is added or removed, δ = 1e-6. Who rates what is "
        "therefore private one rating at a time, and not all ratings of a user.\n\n"
        "**The ratings are synthetic.** MovieLens may not be redistributed, so 1,000,209 ratings "
        "of 3,706 items by 6,040 users are drawn, with long tails, from a model with as many "
        "factors as are learned; 80 % are for training. The article's errors on MovieLens, 0.915 "
        "with noise and 0.893 without, are those of other data, and no row here need "
        "equal them. A quick profile draws 20,004 ratings by 302 users.\n\n"
        "*Expected* is the error of each rating's mean under that model, which nobody can beat "
        "but by luck. *Levels* are means of items, then of users, without privacy or factors. The "
        "embeddings' gradients are clipped by their norms and never formed (`FirstLayer` with two "
        "layers)."
    ),
    parts={part.__name__: part for part in (errors, along, spent)},
    claims=(
        Claim("factors are learned: better than one mean", "errors", "error < mean"),
        Claim("nobody knows more than the model", "errors", "expected < least"),
        Claim("certified: more than the CLT says", "spent", "clt < certified"),
        Claim("certified: less than the moments accountant says", "spent", "certified < moments"),
    ),
    plots=(
        Plot(
            "ratings",
            "Error on the test along a run, at published noise",
            Panel(
                part="along",
                x="epochs",
                x_label="epochs",
                y_label="root of the mean squared error, stars",
                log="x",
                lines=(
                    Line("mean", "one mean", "grey", "dots"),
                    Line("levels", "levels, not private", "grey", "dashes"),
                    Line("expected", "what is expected", "grey"),
                    Line("free", "without noise", "orange", "dashes"),
                    Line("noisy", "NoisyAdam", "blue"),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "errors",
            "Root of the mean squared error on the test, in stars",
            Column("training", "{label}"),
            Column("certified ε", "{spent:.3f}"),
            Column("runs", "{runs}"),
            Column("error", "{error:.4f}", "error < mean"),
            Column("deviation of runs", "{spread:.4f}"),
            Column("least along the run", "{least:.4f}"),
            Column("at epoch", "{epoch:.1f}"),
            Column("one mean", "{mean:.4f}"),
            Column("levels", "{levels:.4f}"),
            Column("expected", "{expected:.4f}"),
        ),
        Listing(
            "spent",
            "ε at δ = 1e-6",
            Column("run", "{label}"),
            Column("CLT, as printed", "{clt:.2f}"),
            Column("certified", "{certified:.4f}", "clt < certified"),
            Column("moments accountant, as printed", "{moments:.2f}"),
        ),
    ),
)
