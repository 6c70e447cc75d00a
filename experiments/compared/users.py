"""User-level privacy: error of a mean against the largest number of records per user.

The claims fail for a sensitivity that counts records, which is ``k`` times as large, and for noise
that is not divided by the number of used records.
"""

import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

import privopt
from privopt.lab import Analysis, Claim, Listing, at_most, below, plotting, replicate_keys, stream
from privopt.mechanisms import ClippedGradient, GaussianMechanism
from privopt.problems import GeneralisedLinear, Linear, Problem, UserLoss, by_user

USERS, DIM, LARGEST = 2000, 5, 64
MOST = {"quick": (1, 16, 64), "full": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)}
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
RUNS = {"quick": 500, "full": 4000}
ERRORS = 4.0  # standard errors; all 12 intervals cover except with probability 0.001
CLASS = privopt.ProblemClass(n=USERS, dim=DIM, lipschitz=1.0, radius=1.0, smoothness=0.0)


@cache
def table():
    """Return the users and the records; those of users with many records have another mean."""
    rng = np.random.default_rng(0)
    sizes = np.minimum(LARGEST, (USERS / (np.arange(USERS) + 0.5)) ** 0.8).astype(int)
    users = np.repeat(np.arange(USERS), sizes)
    centre = 0.6 * np.log(sizes) / math.log(LARGEST)
    records = 0.15 * rng.normal(size=(users.size, DIM))
    records[:, 0] += centre[users]
    return users, records / np.maximum(1.0, np.linalg.norm(records, axis=1, keepdims=True))


@jax.jit
@partial(jax.vmap, in_axes=(None, 0, None))
def noisy(mechanism, key, mean):
    """Return the mean with noise, for each key."""
    return mechanism.add_noise(key, mean)


def kept(profile):
    """Yield the error of the mean of all records, from at most ``k`` records of each user."""
    users, records = table()
    target = records.mean(axis=0)
    query = ClippedGradient.of(CLASS)
    mechanism = GaussianMechanism.calibrated(query, BUDGET)
    loss = UserLoss(GeneralisedLinear(Linear()))
    for k in MOST[profile]:
        grouped = by_user((records, np.ones(len(users))), users, n=USERS, most=k)
        problem = Problem(loss=loss, data=grouped, problem_class=CLASS)
        count = int(grouped.present.sum())
        mean = -query.gradient_of(problem.objective)(jnp.zeros(DIM))  # of users, divided by k
        keys = replicate_keys(stream(0, role="noise", k=k), RUNS[profile])
        weight = USERS * k / count
        errors = np.square(np.asarray(noisy(mechanism, keys, mean)) * weight - target).sum(axis=1)
        half = ERRORS * errors.std(ddof=1) / math.sqrt(len(errors))
        low, high = float(errors.mean() - half), float(errors.mean() + half)
        bias = float(np.square(np.asarray(mean) * weight - target).sum())
        noise = mechanism.noise_square(DIM) * weight**2
        yield {
            "label": f"k = {k}", "k": k, "count": count, "noise": noise,
            "bias": bias if count < len(users) else None,
            "theory": bias + noise, "measured": float(errors.mean()),
            "band": privopt.Interval(max(0.0, low), high), "low": low, "high": high,
        }  # fmt: skip


def turn(profile):
    """Yield the k with the smallest predicted error, and the errors of the smallest and largest."""
    rows = list(kept(profile))
    best = min(rows, key=lambda row: row["theory"])
    yield {
        "label": f"k = {best['k']}", "theory": best["k"], "best": best["high"],
        "measured": min(rows, key=lambda row: row["measured"])["k"],
        "first": rows[0]["low"], "last": rows[-1]["low"],
    }  # fmt: skip


def general_bound(guarantee, size, delta=1e-6):
    """Return the general epsilon of a group, by a fixed-point iteration for its delta."""
    share = delta
    for _ in range(60):
        epsilon = guarantee.epsilon(share).upper
        share = delta * math.expm1(epsilon) / math.expm1(size * epsilon)
        if share < 1e-250:
            return math.inf
    return size * epsilon


def levels(profile):
    """Yield the guarantees of one noise for a record, and for 4 and 64 records of a user."""
    del profile
    problem_class = privopt.ProblemClass(n=64_000, dim=DIM, lipschitz=1.0, radius=1.0)
    budget = privopt.Budget(epsilon=0.1, delta=1e-9, relation="add_or_remove_one")
    full_batch = privopt.dp_gd(problem_class, budget, steps=100)
    sampled = privopt.dp_sgd(problem_class, budget, steps=100, batch_size=640)
    for method, plan in (("all records at once", full_batch), ("Poisson samples", sampled)):
        for level, size in (("event", 1), ("user at a time", 4), ("user", 64)):
            general = general_bound(plan.guarantee, size)
            yield {
                "label": f"{method}, {level}", "method": method, "level": level, "records": size,
                "exact": plan.guarantee.group(size).epsilon(1e-6).upper,
                "general": min(general, 1e6),
                "known": f"{general:.3g}" if general < math.inf else "none",
            }  # fmt: skip


def error_figure(frames):
    """Mean squared error against the largest number k of records per user.

    The band is the measured mean with 4 standard errors. The error is the sum of the squared bias,
    which decreases in k, and the noise, which increases; it is smallest between the two ends.
    """
    title = "Mean of all records at user level: error against k, ε = 1, δ = 1e-6"
    figure, (axes,) = plotting.panels(title)
    axes.set(xlabel="k, records per user", ylabel="mean squared error", xscale="log", yscale="log")
    for name, label, style in (
        ("bias", "squared bias", {"color": plotting.GREY, "ls": ":"}),
        ("noise", "noise", {"color": plotting.GREY, "ls": "--"}),
        ("theory", "theory, with measured band", {"band": "band"}),
    ):
        plotting.curve(axes, frames["kept"], "k", name, label=label, **style)
    return figure


WITHIN_GENERAL = at_most("exact", "general")
experiment = Analysis(
    name="users",
    title="Mean at user level: error against the largest number of records per user",
    description=(
        f"{USERS} users have 1 to {LARGEST} records each, and users with many records have another "
        "mean than the others. The mean of all records is estimated from at most k records of each "
        "user at ε = 1, δ = 1e-6 for users under replace-one; the number of used records is "
        "public. With a small k the estimate is biased; with a large k the noise is large. Theory "
        "is the sum of the squared bias and the noise. The second table has the noise of 100 steps "
        "that are (0.1, 1e-9)-DP for one record under add-or-remove-one, and its ε at δ = 1e-6 "
        "for 4 and 64 records that are added together."
    ),
    parts={part.__name__: part for part in (kept, turn, levels)},
    claims=(
        Claim("the theory is at least the lower end of the interval", "kept",
              at_most("low", "theory")),
        Claim("the theory is at most the upper end of the interval", "kept",
              at_most("theory", "high")),
        Claim("one record per user has a larger error than the best k", "turn",
              below("best", "first")),
        Claim("all records have a larger error than the best k", "turn", below("best", "last")),
        Claim("the ε of a group is at most the general bound", "levels", WITHIN_GENERAL),
    ),
    figures={"users": error_figure},
    listings=(
        Listing(
            "kept",
            "Error by the largest number of records per user",
            {"k": "{k}", "records": "{count}", "squared bias": "{bias:.2e}",
             "noise": "{noise:.2e}", "theory": "{theory:.2e}", "measured": "{band:.2e}"},
        ),
        Listing(
            "levels",
            "ε of one noise at δ = 1e-6 for a record, and for the records of a user",
            {"method": "{method}", "level": "{level}", "records": "{records}",
             "ε of the group": "{exact:.3g}", "general bound": "{known}"},
            checks={"ε of the group": WITHIN_GENERAL},
        ),
    ),
)  # fmt: skip
