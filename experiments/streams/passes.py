"""DP-FTRL by passes and noise beside DP-SGD and DP-GD: excess risk against epsilon.

All plans have default hyperparameters for their number of passes, chosen without data.
"""

import math
from functools import partial

import jax
import numpy as np
from scipy.stats import t as student

import privopt
from privopt import theory
from privopt.lab import (
    Analysis,
    Chart,
    Claim,
    Listing,
    at_most,
    below,
    plotting,
    replicate_keys,
    stream,
)
from privopt.problems import family

DELTA, RELATION = 1e-6, "replace_one"
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
PASSES, MOST_STEPS = (1, 4, 16, 32), 500  # at most 500 steps of DP-GD and DP-SGD
DEFAULT = "dp_ftrl"


def plans(problem_class, budget):
    """Return the plans by name; ``dp_ftrl`` is the default: 32 passes, banded inverse."""
    plan = {name: privopt.ALGORITHMS[name].plan for name in ("dp_ftrl", "dp_sgd", "dp_gd")}
    plan = {name: partial(each, problem_class, budget) for name, each in plan.items()}
    found = {DEFAULT: plan["dp_ftrl"]()}
    batch = found[DEFAULT].params.mechanism.batches.batch_size
    for passes in PASSES:
        for noise in ("tree", "banded_inverse"):
            if (noise, passes) != ("banded_inverse", PASSES[-1]):
                found[f"{noise}_{passes}"] = plan["dp_ftrl"](noise=noise, epochs=passes)
    found["leader"] = plan["dp_ftrl"](quantity="population risk")
    found["in_order"] = plan["dp_ftrl"](noise="independent", batch_size=batch)
    for name in ("dp_sgd", "dp_gd"):
        steps = plan[name]().params.mechanism.steps
        found[name] = plan[name](steps=min(steps, MOST_STEPS))
    return found


def quadratic_bound(plan):
    """Return the bound of the default plan for quadratic losses."""
    mechanism, scale = plan.params.mechanism, float(plan.params.descent.step_sizes.scale)
    rule = theory.StepRule(scale * plan.problem_class.smoothness, decay=1.0)
    increments = mechanism.noise.factorisation(mechanism.steps).inverse()
    batches = mechanism.batches
    gains = theory.quadratic_gains(rule.sizes(mechanism.steps), increments, batches=batches.period)
    risk = gains.risk(plan.problem_class, noise_std=mechanism.scale, batch_size=batches.batch_size)
    return risk.total


# Family, number of records, dimension and runs.
PROBLEMS = {
    "sphere": ("sphere_logistic", 4096, 20, 20),
    "breast_cancer": ("breast_cancer_logistic", 569, 30, 20),
    "a9a": ("a9a_logistic", 32_561, 123, 5),
}


def along(name, profile):
    """Yield a row for each epsilon with the mean risks of all plans."""
    del profile
    kind, n, dim, runs = PROBLEMS[name]
    problem = family(kind).build(n=n, dim=dim, noise_ratio=1.0, strength=1.0)
    zero = float(problem.excess_risk(np.zeros_like(problem.reference.minimiser)))
    half = student.ppf(0.975, runs - 1) / math.sqrt(runs)
    for epsilon in EPSILONS:
        budget = privopt.Budget(epsilon=epsilon, delta=DELTA, relation=RELATION)
        row = {"label": f"ε = {epsilon:g}", "epsilon": epsilon, "zero": zero}
        for method, plan in plans(problem.problem_class, budget).items():
            key = stream(0, role="noise", problem=name, method=method, epsilon=epsilon)
            points = privopt.run_many([plan], problem, replicate_keys(key, runs)).released[0]
            risks = np.asarray(problem.excess_risk(np.asarray(points)))
            mean, error = float(risks.mean()), half * float(risks.std(ddof=1))
            row |= {method: mean, f"{method}_within": privopt.Interval(mean - error, mean + error)}
            if method == DEFAULT:
                batches, sizes = plan.params.mechanism.batches, plan.params.descent.step_sizes
                row |= {
                    "bound": quadratic_bound(plan), "batches": batches.period,
                    "step": float(sizes.scale) * plan.problem_class.smoothness,
                }  # fmt: skip
        row |= {"twice": 2.0 * row["dp_sgd_within"].upper}
        jax.clear_caches()
        yield row


SHADES = dict(
    zip(PASSES, (plotting.SKY, plotting.GREEN, plotting.AMBER, plotting.BROWN), strict=True)
)
BY_PASSES = {
    f"{noise}_{passes}" if (noise, passes) != ("banded_inverse", PASSES[-1]) else DEFAULT: {
        "label": f"{label}, {passes} {'pass' if passes == 1 else 'passes'}",
        "color": SHADES[passes],
        "ls": ls,
    }
    for noise, label, ls in (("banded_inverse", "banded", "-"), ("tree", "tree", ":"))
    for passes in PASSES
}
BESIDE = {
    DEFAULT: {"label": "DP-FTRL, default", "color": plotting.BROWN},
    "leader": {"label": "leader, tree, 1 pass", "color": plotting.BROWN, "ls": ":"},
    "in_order": {"label": "DP-SGD, batches in order", "color": plotting.ORANGE, "ls": "--"},
    "dp_sgd": {"label": "DP-SGD, amplified", "color": plotting.ORANGE},
    "dp_gd": {"label": "DP-GD", "color": plotting.BLUE},
}
PANELS = {"DP-FTRL by passes and noise": BY_PASSES, "beside DP-SGD and DP-GD": BESIDE}


def risk_figure(name):
    """Return the function that draws the risks on a problem against epsilon."""

    def risks(frames):
        """Mean excess empirical risk against ε, with 95 % intervals over the noise of the runs.

        Left: DP-FTRL with tree and banded inverse noise by the number of passes. Right: the default
        of DP-FTRL (32 passes, banded inverse), the leader with the population bound, DP-SGD on the
        same batches in the same order without amplification, DP-SGD with Poisson batches, and
        DP-GD. The grey line is the risk of zero. Hyperparameters depend on the problem class and
        the budget only.
        """
        frame = frames[name]
        figure, panels = plotting.panels(
            f"DP-FTRL beside DP-SGD on {name}: excess empirical risk against ε", *PANELS
        )
        for axes, lines in zip(panels, PANELS.values(), strict=True):
            axes.set(xlabel="ε", ylabel="excess empirical risk", xscale="log", yscale="log")
            style = {"label": "zero", "color": plotting.GREY, "ls": ":"}
            plotting.curve(axes, frame, "epsilon", "zero", **style)
            for method, style in lines.items():
                plotting.curve(axes, frame, "epsilon", method, band=f"{method}_within", **style)
        return figure

    return risks


def claims(name, compared=True):
    """Return the claims on a problem; without comparisons if its records are too few for them."""
    twice = Claim(f"{name}: the default of DP-FTRL has at most twice the risk of amplified DP-SGD",
                  name, at_most(f"{DEFAULT}_within", "twice"))  # fmt: skip
    others = {
        "leader": "the leader of one pass",
        "in_order": "DP-SGD on the same batches in order",
        f"tree_{PASSES[-1]}": "tree noise with 32 passes",
    }
    comparisons = [
        Claim(f"{name}: the default of DP-FTRL has a smaller risk than {words}",
              name, below(f"{DEFAULT}_within", f"{other}_within"))
        for other, words in others.items()
    ]  # fmt: skip
    return twice, *(comparisons if compared else ())


def listing(name):
    """Return the table of the mean risks on a problem."""
    columns = {"ε": "{epsilon:g}", "batches": "{batches:d}", "H η": "{step:g}"}
    columns |= {style["label"]: f"{{{method}:.2g}}" for method, style in BESIDE.items()}
    columns |= {"bound, quadratic losses": "{bound:.2g}", "zero": "{zero:.2g}"}
    return Listing(name, f"{name}: mean excess empirical risk", columns)


def analysis(names, **texts):
    """Return the analysis of some problems."""
    return Analysis(
        **texts,
        profiles=("full",),  # compiling a hundred programs takes a minute
        parts={name: partial(along, name) for name in names},
        claims=tuple(
            claim for name in names for claim in claims(name, compared=name != "breast_cancer")
        ),
        figures={name: risk_figure(name) for name in names},
        listings=tuple(map(listing, names)),
        charts=tuple(
            Chart(name, name, "epsilon", "excess empirical risk", band="within") for name in names
        ),
    )


COMMON = (
    "All plans are (ε, 1e-6)-DP under replace-one, with default hyperparameters for their number "
    "of passes and noise. Passes have a fixed random order, and no amplification is used, except "
    "by DP-SGD with Poisson batches. The number of batches of DP-FTRL and its first step minimise "
    "the bound for quadratic losses (Regret, Theorem 3), which depends on the problem class and "
    "the budget; logistic losses may exceed it, above all if the constraint set is active. DP-GD "
    "and DP-SGD have at most 500 steps. `H η` is the first step size in units of 1/H.\n\n"
)
experiment = analysis(
    ("sphere", "breast_cancer"),
    name="passes",
    title="DP-FTRL and DP-SGD on logistic regression: excess risk against ε, by passes and noise",
    description=COMMON
    + "`sphere` has 4,096 records of dimension 20 on the sphere, `breast_cancer` 569 of dimension "
    "30, too few for a comparison at small ε.",
)
census = analysis(
    ("a9a",),
    name="passes_census",
    title="DP-FTRL and DP-SGD on a9a: excess risk against ε, by passes and noise",
    description=COMMON + "Logistic regression on a9a over the ball of radius 10, 5 runs.",
    uses=("a9a",),
    part_data={"a9a": ("a9a",)},
)
