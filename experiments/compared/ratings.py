"""NoisyAdam on ratings with factors of users and items: published noise, certified guarantee.

The ratings are synthetic, with the sizes and hyperparameters of the last row of Bu, Dong, Long and
Su (2020). The claims fail for noise of half the clipping norm, and if test ratings are used for
training.
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
from privopt.lab import Analysis, Claim, Listing, below, plotting, replicate_keys, stream
from privopt.privacy import Guarantee

BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
RATE, STEPS, STEP_SIZE, CLIP, NOISE = 1.0 / 80.0, 1_600, 0.01, 5.0, 0.6
CLT, MOMENTS = 10.61, 15.39  # epsilons of the article
RANK, RECORDED = 8, 40


class Ratings(NamedTuple):
    """Users, items, stars and expected stars of the ratings; the first ``training`` train."""

    users: int
    items: int
    training: int
    user: np.ndarray
    item: np.ndarray
    stars: np.ndarray
    expected: np.ndarray

    def part(self, rows):
        """Return records: the user and the item as one-hot rows, and the rating."""
        ones = np.ones((len(self.user[rows]), 1), np.float32)
        features = (
            SparseFeatures(self.user[rows, None], ones, self.users),
            SparseFeatures(self.item[rows, None], ones, self.items),
        )
        return features, jnp.asarray(self.stars[rows], np.float32)


@cache
def ratings(profile):
    """Return 1,000,209 ratings of 3,706 items by 6,040 users, of which 80 % are for training.

    A user rates an item at most once. The numbers of ratings per user and per item are long-tailed.
    A rating is the rounded sum of a constant, a user level, an item level, a product of eight
    factors each, and noise. The quick profile has a twentieth of the users and items, and a
    fiftieth of the ratings.
    """
    users, items, count = (6_040, 3_706, 1_000_209) if profile == "full" else (302, 185, 20_004)
    rng = np.random.default_rng(0)
    activity, fame = rng.lognormal(sigma=1.0, size=users), rng.lognormal(sigma=1.5, size=items)
    scores = np.log(activity)[:, None] + np.log(fame) + rng.gumbel(size=(users, items))
    pairs = np.argpartition(scores, -count, axis=None)[-count:]  # without replacement
    user, item = np.divmod(rng.permutation(pairs), items)
    levels = 0.4 * rng.normal(size=users)[user] + 0.5 * rng.normal(size=items)[item]
    factors = rng.normal(size=(users, RANK)), rng.normal(size=(items, RANK))
    taste = (factors[0][user] * factors[1][item]).sum(axis=1) / math.sqrt(RANK)
    mean = 3.6 + levels + 0.4 * taste
    stars = np.clip(np.rint(mean + 0.8 * rng.normal(size=count)), 1.0, 5.0)
    expected = 1.0 + sum(ndtr((mean - edge) / 0.8) for edge in (1.5, 2.5, 3.5, 4.5))
    return Ratings(users, items, 4 * count // 5, user, item, stars, expected)


def prediction(level, both):
    """Return the sum of the levels and the product of the factors of a user and an item."""
    user, item = both
    return level + user[-1] + item[-1] + user[:-1] @ item[:-1]


def half_square(level, both, stars):
    """Return the loss of a rating."""
    return 0.5 * (prediction(level, both) - stars) ** 2


@jax.jit
def error(parameters, rows, stars):
    """Return the root mean squared test error for each of the parameters."""

    def one(parameters):
        tables, level = parameters
        both = [row.matvec(table.T).T for table, row in zip(tables, rows, strict=True)]
        predictions = jax.vmap(partial(prediction, level))(both)
        return jnp.sqrt(jnp.mean((jnp.clip(predictions, 1.0, 5.0) - stars) ** 2))

    return jax.lax.map(one, parameters)


def mean_by(group, values, count):
    """Return the mean value of each group; 0 for an empty group."""
    sizes = np.bincount(group, minlength=count)
    return np.bincount(group, values, count) / np.maximum(sizes, 1)


def references(profile):
    """Return test errors without privacy: of one mean, of levels, and of the expected stars."""
    data = ratings(profile)
    train, test = slice(None, data.training), slice(data.training, None)
    mean = data.stars[train].mean()
    item = mean + mean_by(data.item[train], data.stars[train] - mean, data.items)[data.item]
    residuals = (data.stars - item)[train]
    levels = item + mean_by(data.user[train], residuals, data.users)[data.user]
    predictions = {"mean": mean, "levels": levels, "expected": data.expected}
    return {
        name: float(np.sqrt(np.mean((value - data.stars)[test] ** 2)))
        for name, value in predictions.items()
    }


@cache
def trained(profile):
    """Return the plan, the recorded epochs, and the errors with noise and without it."""
    data, runs = ratings(profile), 10 if profile == "full" else 2
    keys = jax.random.split(stream(0, role="start"))
    tables = tuple(
        jax.random.uniform(key, (count, RANK + 1), np.float32, -0.05, 0.05)
        for key, count in zip(keys, (data.users, data.items), strict=True)
    )
    start = tables, jnp.asarray(3.0, np.float32)  # the middle of the scale
    problem_class = ProblemClass(
        n=data.training, dim=sum(leaf.size for leaf in jax.tree.leaves(start)),
        lipschitz=math.inf, radius=math.inf, convex=False,
    )  # fmt: skip
    problem = problems.Problem(
        loss=FirstLayer(half_square), data=data.part(slice(None, data.training)),
        problem_class=problem_class, start=start,
    )  # fmt: skip
    plan = noisy_adam(
        problem_class, BUDGET, steps=STEPS, rate=RATE, clip_norm=CLIP, step_size=STEP_SIZE,
        output=last_iterate(), record=RECORDED,
    )  # fmt: skip
    mechanism = plan.params.mechanism.with_noise_multiplier(NOISE)
    guarantee = Guarantee(mechanism.event(BUDGET.relation), BUDGET.relation)
    budget = replace(BUDGET, epsilon=guarantee.epsilon(BUDGET.delta).upper)
    plan = replace(plan, budget=budget, params=plan.params._replace(mechanism=mechanism))
    keys = replicate_keys(stream(0, role="noise"), runs)
    plans = [plan, plan.with_noise(0.0)]
    path = run_many(plans, problem, keys, execution=Execution(chunk=1)).path
    flat = jax.tree.map(lambda leaf, w: leaf.reshape(-1, *w.shape), path.points, start)
    values = np.asarray(error(flat, *data.part(slice(data.training, None))))
    return plan, RATE * np.asarray(path.steps[0, 0]), *values.reshape(len(plans), runs, -1)


def errors(profile):
    """Yield the last and the least error of the runs with and without noise."""
    plan, epochs, noisy, free = trained(profile)
    for label, values, epsilon in (
        ("NoisyAdam", noisy, plan.guarantee.epsilon(BUDGET.delta)),
        ("the same without noise", free, None),
    ):
        mean = values.mean(axis=0)
        yield {
            "label": label, "spent": epsilon, "error": float(mean[-1]),
            "spread": float(values[:, -1].std(ddof=1)), "runs": len(values),
            "least": float(mean.min()), "epoch": float(epochs[mean.argmin()]),
            **references(profile),
        }  # fmt: skip


def along(profile):
    """Yield the mean errors along the run, and the constant errors of the references."""
    _, epochs, noisy, free = trained(profile)
    for i, epoch in enumerate(epochs):
        means = {"noisy": float(noisy[:, i].mean()), "free": float(free[:, i].mean())}
        yield {"label": f"{epoch:.2f}", "epochs": float(epoch)} | means | references(profile)


def spent(profile):
    """Yield the certified epsilon of the noise and the epsilons of the article."""
    epsilon = trained(profile)[0].guarantee.epsilon(BUDGET.delta)
    label = f"noise {NOISE:g}, {STEPS} steps at rate 1/80"
    yield {"label": label, "certified": epsilon, "clt": CLT, "moments": MOMENTS}


def error_figure(frames):
    """Root mean squared test error along the run (mean of all runs).

    The grey lines are the errors of one mean, of levels of users and items, and of the expected
    stars. With noise the error is smallest after a few epochs and then increases.
    """
    figure, (axes,) = plotting.panels("NoisyAdam on synthetic ratings: test error against epochs")
    axes.set(xlabel="epochs", ylabel="root mean squared error, stars", xscale="log")
    noisy = plotting.method_style("noisy_adam")
    for name, style in {
        "mean": {"label": "one mean", "color": plotting.GREY, "ls": ":"},
        "levels": {"label": "levels, not private", "color": plotting.GREY, "ls": "--"},
        "expected": {"label": "expected stars", "color": plotting.GREY},
        "free": noisy | {"label": "NoisyAdam without noise", "ls": "--"},
        "noisy": noisy,
    }.items():
        plotting.curve(axes, frames["along"], "epochs", name, **style)
    return figure


experiment = Analysis(
    name="ratings",
    title="NoisyAdam on synthetic ratings with the published noise: test error and guarantee",
    description=(
        "A rating is predicted by a constant, levels of its user and its item, and the product of "
        f"{RANK} factors of both. `noisy_adam` has the hyperparameters of Bu, Dong, Long and Su "
        "(2020, arXiv:1911.11607) for MovieLens 1M: 1,600 steps at rate 1/80, step size 0.01, "
        "clipping norm 5, noise 0.6. The guarantee is for adding or removing one rating, not all "
        "ratings of a user; δ = 1e-6.\n\n"
        "**The ratings are synthetic**, because MovieLens may not be redistributed: 1,000,209 "
        "ratings of 3,706 items by 6,040 users from a model with the same number of factors; 80 % "
        "are for training. The errors of the article, 0.915 with noise and 0.893 without, are for "
        "other data and need not agree. The quick profile has 20,004 ratings by 302 users.\n\n"
        "*Expected* is the error of the mean of each rating under that model, the least possible "
        "one up to sampling. *Levels* are means of items, then of users, without privacy or "
        "factors. Gradients of the embeddings are clipped without forming them (`FirstLayer`)."
    ),
    parts={part.__name__: part for part in (errors, along, spent)},
    claims=(
        Claim("the error with factors is below that of one mean", "errors", below("error", "mean")),
        Claim("no error is below that of the expected stars", "errors", below("expected", "least")),
        Claim("the certified ε is above that of the CLT", "spent", below("clt", "certified")),
        Claim("the certified ε is below that of the moments accountant", "spent",
              below("certified", "moments")),
    ),
    figures={"ratings": error_figure},
    listings=(
        Listing(
            "errors",
            "Root mean squared test error, in stars",
            {"training": "{label}", "certified ε": "{spent:.3f}", "runs": "{runs}",
             "error": "{error:.4f}", "deviation of runs": "{spread:.4f}",
             "least along the run": "{least:.4f}", "at epoch": "{epoch:.1f}",
             "one mean": "{mean:.4f}", "levels": "{levels:.4f}", "expected": "{expected:.4f}"},
            checks={"error": below("error", "mean")},
        ),
        Listing(
            "spent",
            "ε at δ = 1e-6",
            {"run": "{label}", "CLT, published": "{clt:.2f}", "certified": "{certified:.4f}",
             "moments accountant, published": "{moments:.2f}"},
            checks={"certified": below("clt", "certified")},
        ),
    ),
)  # fmt: skip
