"""Which private optimiser lands nearest on nine synthetic problems, and how many records it takes.

Every place is one data set; the methods share it, and each draws noise of its own.
"""

import math
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student

import privopt
from privopt import problems
from privopt.convex import StepSizes
from privopt.lab import (
    Claim,
    Column,
    Line,
    Listing,
    Panel,
    Plot,
    Study,
    replicate_keys,
    stream,
)

MOST_STEPS, DELTA, WANTED = 1000, 1e-6, 0.01
RUNS, FEW, LARGE = 16, 4, 10**5  # runs of a place; of one with so many records


class Place(NamedTuple):
    """Where methods are compared."""

    n: int = 1000
    dim: int = 16
    epsilon: float = 1.0
    conditioning: float = 1.0
    sparsity: int | None = None


AXES = {
    "n": ("records n", (100, 1000, 10_000, LARGE)),
    "epsilon": ("ε", (0.03, 0.2, 1.0, 5.0, 30.0)),
    "dim": ("dimension d", (4, 16, 128)),
    "conditioning": ("conditioning", (1.0, 10.0, 100.0, 1000.0)),
    "width": ("dimension d", (16, 256, 4096)),  # that of sparse records
}


class Kind(NamedTuple):
    """A kind of problem: in words, who takes it, and along what it is swept from where."""

    words: str
    methods: tuple[str, ...]
    axes: tuple[str, ...] = ("n", "epsilon", "conditioning")
    base: Place = Place()


class Method(NamedTuple):
    """How a method is drawn, and its algorithm: blue reads records often, orange once."""

    short: str
    colour: str
    style: str
    algorithm: str
    post: str | None = None


METHODS = {
    "dp_gd": Method("DP-GD", "blue", "line", "dp_gd"),
    "dp_gd_sparse": Method("DP-GD, projected", "blue", "dots", "dp_gd", "sparse"),
    "dp_sgd": Method("DP-SGD", "blue", "dashes", "dp_sgd"),
    "noisy_adam": Method("Adam", "blue", "dots", "noisy_adam"),
    "phased_sgd": Method("phased", "orange", "line", "phased_sgd"),
    "objective_perturbation": Method("objective", "purple", "line", "objective_perturbation"),
    "output_perturbation": Method("output", "purple", "dashes", "output_perturbation"),
    "linf_output_perturbation": Method("ℓ∞ output", "green", "line", "linf_output_perturbation"),
    "projection_mechanism": Method("projection", "green", "line", "projection_mechanism"),
    "l1_recovery": Method("recovery", "orange", "dots", "l1_recovery"),
}
OFTEN = "dp_gd", "dp_sgd", "noisy_adam"
KINKED = *OFTEN, "output_perturbation"
SMOOTH = *OFTEN, "phased_sgd", "objective_perturbation", "output_perturbation"
SPARSE = "dp_gd", "dp_gd_sparse", "output_perturbation"
WIDE = {"axes": ("n", "epsilon", "width"), "base": Place(dim=256, sparsity=4)}
KINDS = {
    "logistic": Kind("logistic regression", SMOOTH, tuple(AXES)[:4]),
    "least_squares": Kind("least squares", SMOOTH),
    "huber": Kind("Huber regression", SMOOTH),
    "absolute": Kind("the absolute loss", KINKED, tuple(AXES)[:4]),
    "hinge": Kind("the hinge loss", KINKED),
    "quantile": Kind("quantile regression", KINKED),
    "softmax": Kind("softmax regression", (*OFTEN, "phased_sgd", "output_perturbation")),
    "sparse_mean": Kind("sparse means", (*SPARSE, "projection_mechanism", "l1_recovery"), **WIDE),
    "sparse_linear": Kind(
        "sparse linear losses",
        (*SPARSE, "objective_perturbation", "linf_output_perturbation"),
        **WIDE,
    ),
}
DENSE_KINDS = tuple(kind for kind in KINDS if KINDS[kind].base == Place())
SPARSE_KINDS = tuple(kind for kind in KINDS if kind not in DENSE_KINDS)
UNBOUNDED = ("noisy_adam", "phased_sgd")  # no theorem on empirical risk
DESCENTS = tuple(
    {"step_size": StepSizes.linear_decay(4.0**k), "output": "last", "steps": steps}
    for steps in (20, 200)
    for k in range(-3, 4)
)
TILTS = tuple({"regularisation": 4.0**k} for k in range(-8, 2))
SEARCHED = {
    "dp_gd": DESCENTS,
    "dp_gd_sparse": DESCENTS,
    "dp_sgd": tuple(each | {"batch_size": 64} for each in DESCENTS),
    "phased_sgd": tuple({"step_size": 4.0**k} for k in range(-5, 4)),
    "objective_perturbation": TILTS,
    "output_perturbation": TILTS,
}


@cache
def drawn(kind, n, dim, conditioning, sparsity):
    """The data set of that size."""
    knobs = {} if conditioning == 1.0 else {"conditioning": conditioning}
    family = problems.synthetic(kind, sparsity=sparsity, **knobs)
    return family.build(n=n, dim=dim, noise_ratio=0.0, strength=0.0)


def problem(kind, place):
    """The data set there, which all budgets share."""
    return drawn(kind, place.n, place.dim, place.conditioning, place.sparsity)


def planned(name, kind, place, choices):
    """The plan, held to ``MOST_STEPS``; ``None`` where it is refused."""
    facts = problem(kind, place).problem_class
    budget = privopt.Budget(epsilon=place.epsilon, delta=DELTA, relation="replace_one")
    algorithm = privopt.ALGORITHMS[METHODS[name].algorithm]
    if METHODS[name].post:
        choices = {"post": METHODS[name].post} | choices
    try:
        plan = algorithm.plan(facts, budget, **choices)
        steps = getattr(plan.params.mechanism, "steps", None)
        if "steps" in algorithm.choices and "steps" not in choices and steps > MOST_STEPS:
            plan = algorithm.plan(facts, budget, **choices, steps=MOST_STEPS)
    except ValueError:
        return None
    return plan


def runs(plan, name, kind, place, role):
    """Excess risks. One program serves all budgets and numbers of a method at one size."""
    where = problem(kind, place)
    told = {axis: value for axis, value in place._asdict().items() if value is not None}
    keys = stream(0, role=role, method=name, problem=kind, **told)
    keys = replicate_keys(keys, FEW if place.n >= LARGE else RUNS)
    return where.excess_risk(privopt.run_many([plan], where, keys).released[0])


@cache
def measured(name, kind, place):
    """Risks at default numbers and the bound on their mean; ``None`` where there is no plan."""
    plan = planned(name, kind, place, {})
    if plan is None:
        return None
    speaks = plan.rate.quantity == "empirical risk"
    return runs(plan, name, kind, place, "default"), plan.rate.upper if speaks else math.inf


def tuned(name, kind, place):
    """Mean risk at the best numbers of a grid: a pilot chooses, and other runs measure."""
    plans = [planned(name, kind, place, choices) for choices in SEARCHED[name]]
    found = [(float(runs(plan, name, kind, place, "pilot").mean()), i)
             for i, plan in enumerate(plans) if plan is not None]  # fmt: skip
    best = runs(plans[min(found)[1]], name, kind, place, "tuned") if found else None
    return None if best is None else float(best.mean())


def interval(risks):
    """95 % for the mean, by Student's law."""
    half = student.isf(0.025, risks.size - 1) * risks.std(ddof=1) / math.sqrt(risks.size)
    return privopt.Interval(max(float(risks.mean() - half), 0.0), float(risks.mean() + half))


def zero(kind, place):
    """The excess risk of the centre of the constraint set."""
    where = problem(kind, place)
    return float(np.squeeze(where.excess_risk(np.zeros(where.shape or place.dim))))


# --- plates ---------------------------------------------------------------------------------------


@cache
def sweep(kind, axis, profile):
    """One row a value: the mean, its interval, the bound and the tuned mean of every method."""
    del profile
    rows, field = [], "dim" if axis == "width" else axis
    for value in AXES[axis][1]:
        place = KINDS[kind].base._replace(**{field: value})
        row = {"label": f"{kind}, {field} = {value:g}", field: value, "zero": zero(kind, place)}
        for name in KINDS[kind].methods:
            found = measured(name, kind, place)
            if found is None:
                continue
            row[name], row[f"{name}_risk"] = float(found[0].mean()), interval(found[0])
            row[f"{name}_bound"] = found[1] if math.isfinite(found[1]) else None
            if axis == "epsilon" and name in SEARCHED:
                row[f"{name}_best"] = tuned(name, kind, place)
        rows.append(row)
    return rows


def plate(kind):
    """The picture of a kind: default numbers along the axes, tuned ones, and the bounds."""
    words, names, axes, base = KINDS[kind]

    def lines(suffix="", leave_out=()):
        told = [Line("zero", "zero predictor", "grey", "dots")]
        for name in names:
            if name not in leave_out:
                short, colour, style = METHODS[name][:3]
                band = None if suffix else f"{name}_risk"
                told.append(Line(name + suffix, short, colour, style, band=band))
        return tuple(told)

    untuned = [name for name in names if name not in SEARCHED]
    shown = [
        *((axis, "default numbers, mean and 95 %", lines()) for axis in axes),
        ("epsilon", "best of a grid, oracle-tuned", lines("_best", untuned)),
        ("epsilon", "upper bounds, default numbers", lines("_bound", UNBOUNDED)),
    ]
    sparse = "" if base.sparsity is None else f", s = {base.sparsity}"
    return Plot(
        f"plate_{kind}",
        f"Who lands nearest on {words}? (ε, 10⁻⁶)-DP, replace-one, n = 1,000, d = {base.dim}"
        + sparse,
        *(
            Panel(part=f"{kind}_{axis}", x="dim" if axis == "width" else axis,
                  x_label=AXES[axis][0], log="xy", title=title, lines=told,
                  y_label="" if i % 3 else "excess empirical risk")
            for i, (axis, title, told) in enumerate(shown)
        ),
    )  # fmt: skip


def bounds(profile):
    """One row a kind, number of records and method with a bound; ``least``: what the mean exceeds.

    All of these one-sided limits hold together with probability .95.
    """
    found = [
        (row, name, f"{name} on {kind}, n = {row['n']:,}")
        for kind in KINDS
        for row in sweep(kind, "n", profile)
        for name in KINDS[kind].methods
        if row.get(f"{name}_bound") is not None
    ]
    for row, name, label in found:
        law = student((FEW if row["n"] >= LARGE else RUNS) - 1)
        wider = law.isf(0.05 / len(found)) / law.isf(0.025)
        least = row[name] - wider * (row[f"{name}_risk"].upper - row[name])
        yield {"label": label, "least": least, "bound": row[f"{name}_bound"]}


def again(profile):
    """The one row above its bound, by fresh runs: there the bound is the mean, by equality."""
    del profile
    place = KINDS["sparse_mean"].base._replace(n=10_000)
    plan = planned("l1_recovery", "sparse_mean", place, {})
    keys = replicate_keys(stream(0, role="again", method="l1_recovery"), 25 * RUNS)
    where = problem("sparse_mean", place)
    risks = where.excess_risk(privopt.run_many([plan], where, keys).released[0])
    yield {"label": "l1_recovery on sparse_mean, n = 10,000",
           "ratio": interval(risks / plan.rate.upper), "one": 1.0}  # fmt: skip


# --- the price of privacy -------------------------------------------------------------------------


def needed(risks, sizes=AXES["n"][1]):
    """Least ``n`` at which the risk is ``WANTED``, linear between logarithms; infinite if none."""
    for i, risk in enumerate(risks):
        if risk <= WANTED:
            if i == 0:
                return float(sizes[0])
            logs = np.log([risks[i - 1], max(risk, 1e-12)])
            share = (logs[0] - math.log(WANTED)) / (logs[0] - logs[1])
            return float(sizes[i - 1] * (sizes[i] / sizes[i - 1]) ** share)
    return math.inf


def price(kinds, profile):
    """One row a kind: how many records every method takes for an excess risk of .01."""
    for kind in kinds:
        row = {"label": kind, "kind": KINDS[kind].words}
        for name in METHODS:
            risks = [each.get(f"{name}_risk") for each in sweep(kind, "n", profile)]
            row[f"{name}_takes"] = "–" if None in risks else taken(risks)
        yield row


def taken(intervals):
    """In words: from the lower ends of the risks to the upper ones."""
    low = needed([each.lower for each in intervals])
    high = needed([each.upper for each in intervals])
    if math.isinf(low):
        return f"not below {LARGE:,}"
    if high <= AXES["n"][1][0]:
        return f"at most {AXES['n'][1][0]}"
    ends = [
        f"{float(f'{n:.2g}'):,.0f}" if math.isfinite(n) else f"over {LARGE:,}" for n in (low, high)
    ]
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def agreement(profile):
    """One row a kind: is the method of the least bound within twice the least risk, along n?"""
    for kind in KINDS:
        ratios = []
        for row in sweep(kind, "n", profile):
            there = [
                (math.inf if row[f"{name}_bound"] is None else row[f"{name}_bound"], row[name])
                for name in KINDS[kind].methods
                if name in row
            ]
            ratios.append(min(there)[1] / min(mean for _, mean in there))
        yield {
            "label": kind, "kind": KINDS[kind].words, "places": len(ratios),
            "within": sum(ratio <= 2.0 for ratio in ratios),
            "share": float(np.mean([ratio <= 2.0 for ratio in ratios])),
            "half": 0.5, "worst": max(ratios),
        }  # fmt: skip


def beside(kind):
    """The listing of default and oracle-tuned means of a kind."""
    names = [name for name in KINDS[kind].methods if name in SEARCHED]
    return Listing(
        f"{kind}_epsilon",
        f"Default numbers, and oracle-tuned ones in brackets: {KINDS[kind].words}",
        Column("ε", "{epsilon:g}"),
        Column("zero predictor", "{zero:.2g}"),
        *(Column(METHODS[name].short, f"{{{name}:.2g}} ({{{name}_best:.2g}})") for name in names),
    )


def prices(part, kinds, where):
    """The listing of what privacy costs in records."""
    names = [name for name in METHODS if any(name in KINDS[kind].methods for kind in kinds)]
    return Listing(
        part,
        f"The price of privacy: records for an excess risk of 0.01 at ε = 1, {where}",
        Column("problem", "{kind}"),
        *(Column(METHODS[name].short, f"{{{name}_takes}}") for name in names),
    )


experiment = Study(
    name="synthetic",
    profiles=("full",),
    title="Which private optimiser lands nearest, on nine synthetic problems?",
    description=(
        "Excess empirical risk of (ε, 10⁻⁶)-DP methods under replace-one, over the ball of the "
        "kind, along n, ε, d and the conditioning of the features, the others staying at n = "
        "1,000, d = 16 and ε = 1; the two sparse kinds have d = 256 and records of s = 4 numbers. "
        "Every place is one data set of the law of problems.synthetic, shared by all methods, and "
        "16 runs of each, 4 at n = 100,000: intervals are over keys. Default numbers are those of "
        "theory, held to 1,000 steps, and nothing is tuned but what is labelled oracle-tuned: the "
        "best of a grid of step sizes and steps, or of regularisations, chosen by 16 pilot runs "
        "and run afresh.\n\n"
        "On smooth losses objective perturbation and the descents need about as many records, five "
        "to ten times fewer than one pass in phases; output perturbation needs the most or, on the "
        "Huber loss, as many as phases. On the hinge loss the "
        "default step sizes of DP-GD and DP-SGD, of a theorem that asks for more than 1,000 steps, "
        "leave 0.03 at ε = 30 where tuned ones leave 0.002 and less, and Adam 0.001. Held to 1,000 "
        "steps a descent may have a larger bound at n = 100,000 than output perturbation and far "
        "less risk: there the least bound names the wrong method.\n\n"
        "On sparse means the projection mechanism, whose noise is Laplace's here, has a sixth to a "
        "fifteenth of the risk of dense DP-GD along n, and a nineteenth at d = 4,096; a factor of "
        "four is no sparsity: it clips records of norm 1, DP-GD gradients of norm 2. A descent "
        "with projected gradients is nowhere worse than the dense one by a tenth at default "
        "numbers, and has less than a quarter of its risk at d = 4,096, on sparse linear losses "
        "too, though its bound is the larger one.\n\n"
        "One mean of 136 is above its bound, and refutes a claim whose false alarm is 5 %: that of "
        "recovery at n = 10,000, where projection has taken over and the bound is the mean itself. "
        "It is chance: 400 fresh runs come to the bound within 2 %.\n\n"
        "A bound is drawn where it speaks of empirical risk: phased SGD has one of the population "
        "risk, and none is known of Adam. Objective perturbation asks for a loss of one linear "
        "prediction, and both it and phased SGD for one without kinks. Left out, since they are "
        "too dear here: DP-SVRG, DP-FTRL and bias-reduced SGD, and approximate minima "
        "perturbation, whose risk is that of objective perturbation; d is swept for four kinds."
    ),
    parts={
        **{
            f"{kind}_{axis}": partial(sweep, kind, axis)
            for kind in KINDS
            for axis in KINDS[kind].axes
        },
        "bounds": bounds,
        "again": again,
        "price": partial(price, DENSE_KINDS),
        "sparse_price": partial(price, SPARSE_KINDS),
        "agreement": agreement,
    },
    claims=(
        Claim("no mean risk above the bound of the theorem (false alarm 5 %, over all rows)",
              "bounds", "least <= bound"),
        Claim("where one is, 400 fresh runs come to the bound", "again", "ratio = one ± 0.02"),
        Claim("the least bound names a method within twice the least risk, in most places",
              "agreement", "half < share"),
    ),
    plots=tuple(map(plate, KINDS)),
    listings=(
        prices("price", DENSE_KINDS, "d = 16"),
        prices("sparse_price", SPARSE_KINDS, "d = 256, s = 4"),
        Listing(
            "agreement",
            "Bounds and runs: is the method of the least bound within twice the least risk?",
            Column("problem", "{kind}"),
            Column("places", "{places}"),
            Column("within twice", "{within}", "half < share"),
            Column("at worst", "{worst:.2g}"),
        ),
        *map(beside, KINDS),
    ),
)  # fmt: skip
