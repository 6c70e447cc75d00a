"""How many records of each user should count? Users of unequal size, at one budget for users.

What goes red: a sensitivity that counts records (a user then has ``k`` times as much), and the
noise of a divisor other than the records that are kept.
"""

import math
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

import privopt
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.mechanisms import ClippedGradient, GaussianMechanism
from privopt.problems import GeneralisedLinear, Linear, Problem, UserLoss, by_user

USERS, DIM, LARGEST = 2000, 5, 64
KEPT = {"quick": (1, 16, 64), "full": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)}
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
RUNS = {"quick": 500, "full": 4000}
SURE = 4.0  # standard errors: all 12 intervals hold together but for one time in a thousand
FACTS = privopt.ProblemClass(n=USERS, dim=DIM, lipschitz=1.0, radius=1.0, smoothness=0.0)


@cache
def table():
    """Whose record it is, and the records: users who give more lie further along an axis."""
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
    """The mean with its noise, by run."""
    return mechanism.add_noise(key, mean)


def kept(profile):
    """Error of the mean of all records, estimated from at most ``k`` of each user."""
    users, records = table()
    target = records.mean(axis=0)
    query = ClippedGradient.of(FACTS)
    mechanism = GaussianMechanism.calibrated(query, BUDGET)
    for k in KEPT[profile]:
        grouped = by_user((records, np.ones(len(users))), users, n=USERS, most=k)
        problem = Problem(
            loss=UserLoss(GeneralisedLinear(Linear())), data=grouped, problem_class=FACTS
        )
        count = int(grouped.present.sum())
        mean = -query.gradient_of(problem.objective)(jnp.zeros(DIM))  # of users, over k each
        keys = replicate_keys(stream(0, role="noise", k=k), RUNS[profile])
        weight = USERS * k / count
        errors = np.square(np.asarray(noisy(mechanism, keys, mean)) * weight - target).sum(axis=1)
        off = SURE * errors.std(ddof=1) / math.sqrt(len(errors))
        low, high = float(errors.mean() - off), float(errors.mean() + off)
        bias = float(np.square(np.asarray(mean) * weight - target).sum())
        noise = mechanism.noise_square(DIM) * weight**2
        yield {
            "label": f"k = {k}", "k": k, "count": count, "noise": noise,
            "bias": bias if count < len(users) else None,
            "theory": bias + noise, "measured": float(errors.mean()),
            "band": privopt.Interval(max(0.0, low), high), "low": low, "high": high,
        }  # fmt: skip


def turn(profile):
    """Where theory turns, and what the ends cost beside it."""
    rows = list(kept(profile))
    best = min(rows, key=lambda row: row["theory"])
    yield {
        "label": f"k = {best['k']}", "theory": best["k"], "best": best["high"],
        "measured": min(rows, key=lambda row: row["measured"])["k"],
        "first": rows[0]["low"], "last": rows[-1]["low"],
    }  # fmt: skip


def levels(profile):
    """One noise, and what it promises to a record, to a user at a time, and to a user.

    A user gives four records at a time, sixteen times.
    """
    del profile
    facts = privopt.ProblemClass(n=64_000, dim=DIM, lipschitz=1.0, radius=1.0)
    budget = privopt.Budget(epsilon=0.1, delta=1e-9, relation="add_or_remove_one")
    choices = {
        "all records at once": ("dp_gd", {"steps": 100}),
        "Poisson samples": ("dp_sgd", {"steps": 100, "batch_size": 640}),
    }
    for told, (name, chosen) in choices.items():
        record = privopt.ALGORITHMS[name].plan(facts, budget, **chosen).guarantee
        for level, size in (("event", 1), ("user at a time", 4), ("user", 64)):
            exact = record.group(size).epsilon(1e-6).upper
            share = 1e-6
            for _ in range(60):  # the general bound, by its fixed point
                one = record.epsilon(share).upper
                share = 1e-6 * math.expm1(one) / math.expm1(size * one)
                if share < 1e-250:
                    break
            general = size * one if share >= 1e-250 else math.inf
            yield {
                "label": f"{told}, {level}", "method": told, "level": level, "records": size,
                "exact": exact, "general": min(general, 1e6),
                "known": f"{general:.3g}" if general < math.inf else "none",
            }  # fmt: skip


experiment = Study(
    name="users",
    title="How many records of a user should count? Neither one nor all",
    description=(
        f"{USERS} users, who gave 1 to {LARGEST} records each; those who gave more differ from the "
        "others. The mean of all records is estimated from at most k of each user, by a sum that "
        "any user moves by one bound, at ε = 1, δ = 1e-6 for users under replace-one; the number "
        "of records kept is public. Few records are another mean than that of all; many are few "
        "users' own, and noise is for the largest. Theory: the squared bias of what is kept, and "
        "the noise. Nothing is tuned. Below: one noise of 100 steps that gives a record ε = 0.1 at "
        "δ = 1e-9 (add-or-remove-one), and what it gives to 4 and to 64 records that come "
        "together, at δ = 1e-6."
    ),
    parts={part.__name__: part for part in (kept, turn, levels)},
    claims=(
        Claim("theory above what was measured low", "kept", "low <= theory"),
        Claim("theory below what was measured high", "kept", "theory <= high"),
        Claim("the error turns: one record is worse", "turn", "best < first"),
        Claim("the error turns: all records are worse", "turn", "best < last"),
        Claim("groups: no more than by the general bound", "levels", "exact <= general"),
    ),
    plots=(
        Plot(
            "users",
            "Records kept of each user, at ε = 1, δ = 1e-6 for users",
            Panel(
                part="kept", title="error of the mean of all records", x="k",
                x_label="k, the most records of a user", y_label="mean squared error", log="xy",
                lines=(
                    Line("bias", "bias of what is kept", "grey", "dots"),
                    Line("noise", "noise", "grey", "dashes"),
                    Line("theory", "theory, in measured bands", "blue", band="band"),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "kept",
            "Error by the most records of a user",
            Column("k", "{k}"),
            Column("records kept", "{count}"),
            Column("bias²", "{bias:.2e}"),
            Column("noise", "{noise:.2e}"),
            Column("theory", "{theory:.2e}"),
            Column("measured", "{band:.2e}"),
        ),
        Listing(
            "levels",
            "One noise, three levels: ε at δ = 1e-6",
            Column("method", "{method}"),
            Column("level", "{level}"),
            Column("records", "{records}"),
            Column("ε of the group", "{exact:.3g}", "exact <= general"),
            Column("by the general bound", "{known}"),
        ),
    ),
)  # fmt: skip
