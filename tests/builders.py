"""Builders of objects that many tests use."""

import itertools
import math

import dp_accounting as dp
import numpy as np
from scipy import stats

from privopt.convex import Oracle
from privopt.privacy.mechanisms.base import release_of

DECLARED = {
    "name": "demo",
    "title": "A demonstration",
    "description": "Nothing in particular.",
    "algorithms": {"dp_gd": {"steps": 5}},
    "families": ("linear",),
    "relation": "replace_one",
    "delta": 1e-6,
    "checks": ("bound",),
    "replicates": {"quick": 4, "full": 8},
}

# Statistical tests use fixed keys. A level is the chance with which code that is right would have
# raised a false alarm for a random one.
LEVEL = 1e-6

N, DIM = 60, 3  # the most in which every algorithm runs
SHAPE = {"capacity": N, "output": "average"}  # theory chooses both by the numbers
CHOICES = {  # one program each, whatever the numbers
    "gradient_descent": {"steps": 30},
    "dp_gd": {"steps": 30},
    "accelerated_dp_gd": {"steps": 30},
    "dp_sgd": {"steps": 30, "batch_size": 12, **SHAPE},
    "dp_svrg": {"steps": 30, "batch_size": 12, "anchor_every": 5, **SHAPE},
    "bias_reduced_sgd": {"steps": 4, "base": 15, "body": "none"},
    "dp_ftrl": {"batch_size": 12, "quantity": "population risk"},
    "noisy_adam": {"steps": 30, "batch_size": 12, "capacity": N},
    "phased_sgd": {},
    "output_perturbation": {"noise": "gaussian", "constraint": "any"},
    "linf_output_perturbation": {},
    "objective_perturbation": {"noise": "gaussian"},
    "approximate_minima_perturbation": {},
    "exponential_mechanism": {"pure": False},
    "projection_mechanism": {"noise": "gaussian"},
    "l1_recovery": {"measurements": 2},
    "sufficient_statistics": {"noise": "gaussian"},
}
ALIKE = {  # see the data by the mechanism of another, which stands for them where that is all
    "gradient_descent": "dp_gd",
    "accelerated_dp_gd": "dp_gd",
    "noisy_adam": "dp_sgd",
    "linf_output_perturbation": "output_perturbation",
    "approximate_minima_perturbation": "objective_perturbation",
}


def experiment(**changes):
    """Return an experiment at n = 1000 and d = 4."""
    from privopt.lab import Experiment, Setting  # not for all who build anything

    return Experiment(**{**DECLARED, "base": Setting(n=1000, dim=4, epsilon=1.0), **changes})


def classification(n, dim, seed=0):
    """Return features just within the unit sphere, and random signs as labels."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, dim))
    features /= 1.001 * np.linalg.norm(features, axis=1, keepdims=True)
    return features, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def sparse_rows(rng, n, dim, sparsity):
    """Return rows of norm 1 with ``sparsity`` normals each at random places."""
    rows = np.zeros((n, dim))
    for row in rows:
        row[rng.choice(dim, sparsity, replace=False)] = rng.normal(size=sparsity)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def logistic_slope(x, y, point, clip_norm=math.inf):
    """Return the clipped gradient of the logistic loss of one record."""
    gradient = -y * x / (1.0 + math.exp(y * (x @ point)))
    return gradient * min(1.0, clip_norm / max(np.linalg.norm(gradient), 1e-300))


def onto_ball(point, radius=1.0):
    """Project a vector, or each row, onto a ball about 0."""
    sizes = np.linalg.norm(point, axis=-1, keepdims=True)
    return point * np.minimum(1.0, radius / np.maximum(sizes, 1e-300))


def onto_both_balls(y, l1, l2):
    """Project onto an l1 and an l2 ball, by bisection over the threshold."""

    def at(t):
        cut = np.sign(y) * np.maximum(np.abs(y) - t, 0.0)
        return cut * min(1.0, l2 / max(np.linalg.norm(cut), 1e-300))

    low, high = 0.0, np.abs(y).max()
    if np.abs(at(0.0)).sum() <= l1:
        return at(0.0)
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if np.abs(at(middle)).sum() > l1 else (low, middle)
    return at(high)


def taken_in(batches, steps, records, keys):
    """Return the batches of the records as booleans of shape ``(keys, steps, 100)``."""
    import jax

    @jax.jit
    @jax.vmap
    def drawn(key):
        draw = batches.draws_of(key, records)
        blocks = [draw(jax.numpy.asarray(k)) for k in range(-(-steps // batches.block))]
        return tuple(jax.numpy.concatenate(each)[:steps] for each in zip(*blocks, strict=True))

    rows, taken = map(np.asarray, drawn(keys))
    found = np.zeros((len(keys), steps, 100), bool)
    key, step, place = np.nonzero(taken)
    found[key, step, rows[key, step, place]] = True
    assert taken.sum() == found.sum()  # nobody twice
    return found


def worst_pattern(encoder, times, gap, even=False):
    """Return the largest root of a sum of ``|X_ij|`` over the steps of any record."""
    gram, steps = np.abs(encoder.T @ encoder), range(encoder.shape[1])
    return math.sqrt(
        max(
            gram[np.ix_(chosen, chosen)].sum()
            for size in range(1, times + 1)
            for chosen in itertools.combinations(steps, size)
            if all(b - a == gap if even else b - a >= gap for a, b in itertools.pairwise(chosen))
        )
    )


def claimed_mu(event, relation):
    """Return mu of a Gaussian event: 1 over its multiplier, or 2 over it for replace-one."""
    event, count = (
        (event, 1) if isinstance(event, dp.GaussianDpEvent) else (event.event, event.count)
    )
    assert isinstance(event, dp.GaussianDpEvent)
    return relation.multiple * math.sqrt(count) / event.noise_multiplier


def separation(one, two):
    """Return ``mu`` of normal scores, and the standard error of the estimate."""
    mu = (one.mean() - two.mean()) / math.sqrt(0.5 * (one.var() + two.var()))
    return mu, math.sqrt((2.0 + 0.25 * mu**2) / len(one))


def ks_p_value(sample, cdf):
    """Return a bound of the p-value of the Kolmogorov-Smirnov test, NaN if the sample has a NaN.

    It is ``2 exp(-2 n D^2)``, where ``D`` is the largest distance of the distribution functions
    (Massart 1990). The exact value, by SciPy, takes a second for a large sample.
    """
    below = cdf(np.sort(np.ravel(sample)))
    ranks = np.arange(below.size + 1) / below.size
    distance = np.maximum(np.max(below - ranks[:-1]), np.max(ranks[1:] - below))
    return np.minimum(1.0, 2.0 * np.exp(-2.0 * below.size * distance**2))


def one_scale_passes(p_value, *others):
    """Check that ``p_value`` accepts the scale 1 and rejects the other scales."""
    assert p_value(1.0) > LEVEL
    assert max(map(p_value, others), default=0.0) < LEVEL


def most_allowed(trials, probability):
    """Return the count that is exceeded with probability below 1e-6."""
    return int(stats.binom.isf(1e-6, trials, probability))


class Answers(Oracle):
    """Oracle of functions; ``draw`` returns the batches of a block, ``stop`` ends the run."""

    def __init__(
        self, steps, ask, begin=lambda point: (), *, draw=None, block=0, stop=None, secret=None
    ):
        self.steps, self.block, self.stops = steps, block, stop is not None
        self._ask, self.init, self.draw, self.is_over = ask, begin, draw, stop
        self.secret = secret or super().secret

    def update(self, state, t, point, batch=None):
        return self._ask(state, t, point, *([] if self.block == 0 else [batch]))


def descend(method, oracle, constraint, start, key, **watching):
    """Run a method to its end."""
    return method.of(oracle, constraint, start, key, **watching).run()


def dominating_pairs(event, relation):
    """Return the pairs that dominate one release, removed and added, or None if unknown."""

    release = release_of(event)
    return None if release is None else release.pairs(relation)


def operations(jaxpr, around=(), platform="cpu"):
    """Yield every equation of a program with the names of the loops and branches around it.

    For a choice by platform, the branch of that platform is used.
    """
    for equation in jaxpr.eqns:
        if names := equation.params.get("branches_platforms"):
            chosen = next(i for i, each in enumerate(names) if each is None or platform in each)
            yield from operations(equation.params["branches"][chosen].jaxpr, around, platform)
            continue
        yield equation, around
        name = equation.primitive.name
        inside = (*around, name) if name in ("while", "cond", "scan") else around
        for value in equation.params.values():
            for part in value if isinstance(value, tuple | list) else (value,):
                nested = getattr(part, "jaxpr", part)
                if hasattr(nested, "eqns"):
                    yield from operations(nested, inside, platform)


def draws(jaxpr):
    """Return the loops and branches around each draw of noise, whose words are counted."""
    return [
        around
        for equation, around in operations(jaxpr)
        if equation.primitive.name == "iota" and equation.params["dtype"] == np.uint32
    ]


def largest(jaxpr):
    """Return the size of the largest array of a program, in all loops."""
    made = (out.aval for equation, _ in operations(jaxpr) for out in equation.outvars)
    return max(math.prod(getattr(aval, "shape", ())) for aval in made)
