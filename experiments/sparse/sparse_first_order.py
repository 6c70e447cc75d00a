"""Bias-reduced SGD whole, beside projected, plain and sampled descent and output perturbation.

Linear losses of sparse records on the unit ball, along ``n`` and ``d``, on two sets of records:
four blocks of identical records, which stand out of the noise, and as many blocks as can be hidden
in it (strength 4), where an estimate of zero is about as good as any.
"""

import itertools
import math
from functools import cache

import numpy as np

import privopt
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.problems import family

SPARSITY, EPSILON, DELTA = 4, 1.0, 1e-6
BUDGET = privopt.Budget(epsilon=EPSILON, delta=DELTA, relation="replace_one")
MU = privopt.privacy.gaussian_mu(EPSILON, DELTA)
BASE = (2**12, 2**12)
ALONG = {
    "n": tuple((n, BASE[1]) for n in (2**10, 2**12, 2**14)),
    "dim": tuple((BASE[0], dim) for dim in (2**10, 2**12, 2**14)),
}
RECORDS = ("four", "hidden")
PILOT, RUNS, ERRORS = 4, 16, 3.0
MOST_STEPS = 200
LAMBDAS = tuple(2.0**k for k in range(-8, 3))
SMALL = tuple(4.0**k for k in range(-3, 1))
LARGE = tuple(4.0**k for k in range(-1, 5))


NAMES = {
    "plain": "DP-GD",
    "projected": "DP-GD, projected",
    "sampled": "DP-SGD",
    "linf": "l-infinity output perturbation",
    "reduced": "bias-reduced SGD",
}
VARIANTS = {
    "fixed steps": {},
    "published noise and stopping rule": {"mode": "paper"},
    "boosted: best of 8 runs on average": {"boost": 0.25},
}
WIDE, POWERS = 10**6, (14, 18, 22, 26)


def grid(**choices):
    """Every combination."""
    for values in itertools.product(*choices.values()):
        yield dict(zip(choices, values, strict=True))


DESCENT = {"steps": (1, 4, 16), "step_size": LARGE, "output": ("last",)}
METHODS = {
    "plain": ("dp_gd", {}, DESCENT),
    "projected": ("dp_gd", {"post": "sparse"}, DESCENT),
    "sampled": ("dp_sgd", {"batch_size": 256}, DESCENT),
    "linf": ("linf_output_perturbation", {}, {"regularisation": LAMBDAS}),
    "reduced": ("bias_reduced_sgd", {"base": 64}, {"steps": (8, 32), "step_size": SMALL}),
}


@cache
def problem(records, n, dim):
    """Blocks of the size for which there are four, or of strength 4."""
    strength = 4.0 if records == "hidden" else 0.249 * n * MU / math.sqrt(SPARSITY)
    ratio = math.sqrt(dim) / (n * MU)
    return family("sparse_linear").build(
        n=n, dim=dim, sparsity=SPARSITY, noise_ratio=ratio, strength=strength
    )


def risks(where, plan, role, runs):
    """Excess risks of so many runs."""
    keys = replicate_keys(stream(0, experiment="sparse_first_order", role=role), runs)
    whole = privopt.Execution(chunk=PILOT)  # pilot and runs are one program
    found = privopt.run_many([plan], where, keys, execution=whole).released[0]
    return np.asarray(where.excess_risk(found))


def planned(name, where, **told):
    """The plan of a method; default steps are held to a number."""
    algorithm, fixed, _ = METHODS[name]
    plan_of = privopt.ALGORITHMS[algorithm].plan
    plan = plan_of(where.problem_class, BUDGET, **fixed, **told)
    steps = getattr(plan.params.mechanism, "steps", 1)
    if not told and steps > MOST_STEPS:
        return plan_of(where.problem_class, BUDGET, **fixed, steps=MOST_STEPS)
    return plan


def interval(values):
    """The mean, give or take standard errors."""
    error = ERRORS * float(values.std(ddof=1)) / math.sqrt(values.size)
    return privopt.Interval(max(0.0, float(values.mean()) - error), float(values.mean()) + error)


@cache
def measured(records, n, dim):
    """One row: every method at its default numbers and at the best of a grid, and their bounds."""
    where = problem(records, n, dim)
    zero = float(where.excess_risk(np.zeros((1, dim)))[0])
    label = {"four": "four blocks", "hidden": "hidden blocks"}[records]
    row = {"label": f"{label}, n = {n:,}, d = {dim:,}", "n": n, "dim": dim, "zero": zero}
    for name, (_, _, choices) in METHODS.items():
        plans = [planned(name, where, **told) for told in grid(**choices)]
        best = min(plans, key=lambda plan: risks(where, plan, "pilot", PILOT).mean())
        default = planned(name, where)
        for role, plan in (("default", default), ("tuned", best)):
            values = risks(where, plan, role, RUNS)
            row |= {f"{name}_{role}": float(values.mean()), f"{name}_{role}_risk": interval(values)}
        row[f"{name}_bound"] = default.rate.upper
    order = sorted(METHODS, key=lambda name: row[f"{name}_tuned"])
    others = [name for name in order if name != "reduced"]
    return row | {
        "least": NAMES[order[0]],
        "best_risk": row[f"{others[0]}_tuned_risk"],
        "next_risk": row[f"{order[1]}_tuned_risk"],
        "most": 0.9 * zero,
    }


def along(records, axis):
    """A part: one set of records along one axis."""
    shown = ("label", axis, "zero", "reduced_default", *(f"{name}_tuned" for name in METHODS))

    def part(profile):
        del profile
        for place in ALONG[axis]:
            row = measured(records, *place)
            yield {name: row[name] for name in shown}

    return part


def every(records):
    """A part: one set of records, all that was measured."""

    def part(profile):
        del profile
        for place in sorted({place for places in ALONG.values() for place in places}):
            yield measured(records, *place)

    return part


def within(profile):
    """Default numbers beside their bounds, one row a method and setting."""
    for records in RECORDS:
        for row in every(records)(profile):
            for name in METHODS:
                risk, bound = row[f"{name}_default_risk"], row[f"{name}_bound"]
                yield {"label": f"{NAMES[name]}, {row['label']}", "risk": risk, "bound": bound}


def variants(profile):
    """Bias-reduced SGD with a fixed number of steps, the published rule, and the best of runs."""
    del profile
    where = problem("four", *BASE)
    for label, told in VARIANTS.items():
        plans = [planned("reduced", where, **told, step_size=size) for size in SMALL[1:]]
        best = min(plans, key=lambda plan: risks(where, plan, "pilot", PILOT).mean())
        default = risks(where, planned("reduced", where, **told), "default", RUNS)
        tuned = risks(where, best, "tuned", RUNS)
        zero = measured("four", *BASE)["zero"]
        row = {"label": label, "default": default.mean(), "tuned": tuned.mean(), "zero": zero}
        yield row | {"risk": interval(tuned), "most": 0.9 * zero}


def bounds(profile):
    """Of the four methods for sparse gradients, by theory alone."""
    del profile
    for power in POWERS:
        n = 2**power
        facts = privopt.ProblemClass(
            n=n, dim=WIDE, lipschitz=1.0, radius=1.0, smoothness=0.0, sparsity=SPARSITY
        )
        row = {"label": f"n = 2^{power}", "n": n}
        for name in ("plain", "projected", "linf", "reduced"):
            algorithm, fixed, _ = METHODS[name]
            fixed = fixed | ({"base": n // 256} if name == "reduced" else {})
            row[name] = privopt.ALGORITHMS[algorithm].plan(facts, BUDGET, **fixed).rate.upper
        yield row | {"others": min(row[name] for name in ("plain", "projected", "linf"))}


COLOURS = ("orange", "blue", "purple", "green", "grey")
LINES = (
    Line("zero", "zero predictor", "grey", "dots"),
    Line("reduced_default", "bias-reduced SGD, default", "grey", "points"),
    *(
        Line(f"{name}_tuned", NAMES[name], colour, "dashes" if name == "reduced" else "line")
        for name, colour in zip(METHODS, COLOURS, strict=True)
    ),
)


def panel(part, axis, title):
    """Risks of one part."""
    label = {"n": "n", "dim": "d"}[axis]
    return Panel(
        part=part, x=axis, x_label=label, y_label="excess risk", lines=LINES, log="xy", title=title
    )


def listing(part, caption):
    """Default and tuned numbers of all methods."""
    return Listing(
        part,
        caption,
        Column("", "{label}"),
        Column("zero", "{zero:.3f}"),
        *(Column(NAMES[m], f"{{{m}_default:.2g}} / {{{m}_tuned:.2g}}") for m in METHODS),
        Column("least", "{least}"),
    )


experiment = Study(
    name="sparse_first_order",
    profiles=("full",),
    title="Is bias-reduced SGD ever the best? Not here, and not by its bound",
    description=(
        "Linear losses on the unit ball, records of four numbers, every method (ε = 1, δ = "
        "1e-6)-DP under replace_one: full-batch and sampled noisy descent, descent with "
        "projected gradients, output perturbation nearest in the largest coordinate, and bias- "
        "reduced SGD with batches of 64 and more. Default numbers, of at most 200 steps, and "
        "oracle-tuned ones: the best of a grid of steps, step sizes or regularisers by a pilot "
        "that looks at the risk. Four blocks of identical records stand out of the noise; "
        "hidden blocks, of strength 4, do not. Without noise one step of descent ends at the "
        "minimiser. Projected descent is the least everywhere but for hidden blocks with many "
        "records for their dimension, where plain descent is. Steps of bias-reduced SGD see "
        "small batches, whose noise so few steps do not average out: tuned, it learns the four "
        "blocks and is far behind all others. Boosted, it is no better, at eight times the "
        "time; the published noise and stopping rule learn nothing. By its bound it is the last "
        "of four methods up to n = 2^26."
    ),
    parts={
        **{f"{records}_{axis}": along(records, axis) for records in RECORDS for axis in ALONG},
        **{records: every(records) for records in RECORDS},
        **{part.__name__: part for part in (within, variants, bounds)},
    },
    claims=(
        Claim(
            "four blocks: projected descent is the least",
            "four",
            "projected_tuned_risk < next_risk",
        ),
        Claim("four blocks: bias-reduced SGD learns", "four", "reduced_tuned_risk < most"),
        Claim("four blocks: it is not the least", "four", "best_risk < reduced_tuned_risk"),
        Claim("hidden blocks: it is not the least", "hidden", "best_risk < reduced_tuned_risk"),
        Claim(
            "hidden blocks: it gains less than a tenth on zero",
            "hidden",
            "most < reduced_tuned_risk",
        ),
        Claim("default risks are within their bounds", "within", "risk <= bound"),
        Claim(
            "four blocks: all but the published variant learn", "variants", "risk < most", rows=2
        ),
        Claim("its bound is not the least, d = 10^6", "bounds", "others < reduced"),
    ),
    plots=(
        Plot(
            "four",
            "Four blocks of records, oracle-tuned, ε = 1",
            panel("four_n", "n", f"d = {BASE[1]:,}"),
            panel("four_dim", "dim", f"n = {BASE[0]:,}"),
        ),
        Plot(
            "hidden",
            "Blocks hidden in the noise, oracle-tuned, ε = 1",
            panel("hidden_n", "n", f"d = {BASE[1]:,}"),
            panel("hidden_dim", "dim", f"n = {BASE[0]:,}"),
        ),
    ),
    listings=(
        listing("four", "Four blocks: mean excess risk at default / oracle-tuned numbers"),
        listing("hidden", "Hidden blocks: mean excess risk at default / oracle-tuned numbers"),
        Listing(
            "variants",
            f"Bias-reduced SGD on four blocks, n = {BASE[0]:,}, d = {BASE[1]:,}",
            Column("", "{label}"),
            Column("zero", "{zero:.3f}"),
            Column("default", "{default:.3f}"),
            Column("oracle-tuned step size", "{tuned:.3f}"),
        ),
        Listing(
            "bounds",
            "Bounds at d = 10^6, default numbers; bias-reduced SGD with batches of n/256 and more",
            Column("", "{label}"),
            *(Column(NAMES[m], f"{{{m}:.2g}}") for m in ("plain", "projected", "linf", "reduced")),
        ),
    ),
)
