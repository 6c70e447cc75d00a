"""l1 recovery and the projection mechanism on sparse means, from 90 measurements and against n.

The sweep uses identical records, so that the mean is sparse, as l1 recovery assumes; 90
measurements satisfy its condition d >= m ln^2 m. On the blocks of records for which the bound of
the projection mechanism is tight, neither method is better than the zero predictor, because half of
the norm of their mean is below the noise. The bound of l1 recovery is the squared diameter: no
theorem on it has constants.

The analysis measures the order in n on larger blocks, of ``12/mu`` records with one nonzero.
"""

import math
from functools import cache, partial

import numpy as np
from scipy import stats

import privopt
from privopt import lab
from privopt.lab import Claim, Listing, at_most, below, close, plotting
from privopt.problems import family

FEW = {"measurements": 90}

experiment = lab.Experiment(
    name="l1_recovery",
    title="l1 recovery and projection mechanism on a sparse mean: excess risk against n",
    description=(
        "Squared distances to one sparse record, repeated n times. With the same budget, a noisy "
        "mean is projected, or a vector of least l1 norm is recovered from 90 noisy measurements "
        "of the mean and projected. Both are run with calibrated and with published noise. Both "
        "are much better than the zero predictor, and l1 recovery has the larger risk."
    ),
    algorithms=(
        lab.Method("projection", "projection_mechanism", {"noise": "gaussian"}),
        lab.Method("published_projection", "projection_mechanism", {"mode": "paper"}),
        lab.Method("recovery", "l1_recovery", FEW),
        lab.Method("published_recovery", "l1_recovery", {**FEW, "mode": "paper"}),
    ),
    families=("sparse_same_record",),
    base=lab.Setting(n=256, dim=2**12, sparsity=4, epsilon=1.0),
    axes=(lab.Axis("n", (128, 256, 512, 1024)),),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"full": 100},
)

STRENGTH, SPARSITY = 12.0, 1
MU = privopt.privacy.gaussian_mu(1.0, 1e-6)  # mu at epsilon = 1; mu is proportional to epsilon
BLOCK = math.ceil(STRENGTH / MU)  # 51 records
BLOCKS = (2, 3, 4, 6)
MOST, WIDE = BLOCK * BLOCKS[-1], 2**13
RUNS, NOISELESS_RUNS = 50, 8
METHODS = {
    "recovery": ("l1_recovery", {}),
    "projection": ("projection_mechanism", {"noise": "gaussian"}),
}
LADDERS = {
    "wider": tuple((BLOCK * k, 27 * BLOCK * k, 1.0) for k in BLOCKS),
    "wide": tuple((BLOCK * k, WIDE, 1.0) for k in BLOCKS),
    "epsilon": tuple((MOST, WIDE, k / BLOCKS[-1]) for k in BLOCKS),
}
NAMES = {"wider": "n, d = 27 n", "wide": "n, d = 8,192", "epsilon": "ε, n = 306, d = 8,192"}


def budget(epsilon):
    """Return the budget of the Gaussian mechanism with ``mu`` proportional to ``epsilon``."""
    delta = privopt.privacy.gaussian_delta(epsilon, mu=MU * epsilon).upper
    return privopt.Budget(epsilon=epsilon, delta=delta, relation="replace_one")


def problem(n, dim, epsilon):
    """Return squared distances to as many blocks of ``12/mu`` records with one nonzero as fit."""
    ratio = math.sqrt(dim) / (n * MU * epsilon)
    strength = 0.99 * BLOCK * MU  # rounded up to a block
    return family("sparse_copies").build(
        n=n, dim=dim, sparsity=SPARSITY, noise_ratio=ratio, strength=strength
    )


@cache
def errors(method, runs, noisy, *place):
    """Return the squared errors of the runs at a ``place``: n, d and epsilon."""
    where, (algorithm, options) = problem(*place), METHODS[method]
    plan = privopt.ALGORITHMS[algorithm].plan(where.problem_class, budget(place[-1]), **options)
    plans = [plan if noisy else plan.with_noise(0.0)]
    keys = lab.replicate_keys(lab.stream(0, experiment="l1_recovery_rate", place=str(place)), runs)
    points = privopt.run_many(plans, where, keys, execution=privopt.Execution(chunk=4)).released
    return 2.0 * np.asarray(where.excess_risk(points[0]))


def order(n, dim, epsilon):
    """Return the order of the theorem, without its unknown constant."""
    logs = math.log(dim / SPARSITY) * math.log(1.0 / budget(epsilon).delta)
    return math.sqrt(SPARSITY * logs) / (n * epsilon)


def interval(values):
    """Return the mean plus or minus three standard errors."""
    error = 3.0 * float(values.std(ddof=1)) / math.sqrt(values.size)
    return privopt.Interval(max(0.0, float(values.mean()) - error), float(values.mean()) + error)


def ladder(name, _):
    """Yield a row for every value of a ladder."""
    for place in LADDERS[name]:
        n, dim, epsilon = place
        samples = {method: errors(method, RUNS, True, *place) for method in METHODS}
        zero = 2.0 * float(problem(*place).excess_risk(np.zeros((1, dim)))[0])
        row = {"label": f"n = {n}, d = {dim:,}, ε = {epsilon:.2f}", "n": n, "epsilon": epsilon}
        row |= {method: float(values.mean()) for method, values in samples.items()}
        row |= {f"{method}_risk": interval(values) for method, values in samples.items()}
        yield row | {"zero": zero, "over": row["recovery"] / order(*place)}


def values(profile):
    """Return the rows of the three ladders."""
    return [row for name in LADDERS for row in ladder(name, profile)]


def weights(axis):
    """Return the weights of log values in the exponent that least squares fits to them."""
    logs = np.log(np.asarray(axis))
    logs = logs - logs.mean()
    return logs / (logs @ logs)


def decay(axis, samples):
    """Return ``a`` in ``mean = c x^-a`` and its 95 % interval.

    The error of a log mean is the relative error of the mean.
    """
    shares, means = weights(axis), [float(each.mean()) for each in samples]
    exponent = -math.fsum(float(w * math.log(mean)) for w, mean in zip(shares, means, strict=True))
    errors = [
        abs(w) * (float(each.std(ddof=1)) / (mean * math.sqrt(each.size)))
        for w, mean, each in zip(shares, means, samples, strict=True)
    ]
    reach = float(stats.t.isf(0.025, RUNS - 1)) * math.hypot(*errors)
    return exponent, privopt.Interval(exponent - reach, exponent + reach)


def slopes(_, names=tuple(LADDERS)):
    """Yield ``a`` of the fit ``x^-a`` to the squared error, and that of the theorem's order."""
    for name in names:
        places = LADDERS[name]
        axis = [n * epsilon for n, _, epsilon in places]
        slope = -float(weights(axis) @ np.log([order(*place) for place in places]))
        row = {"label": NAMES[name], "order": slope, "ladder": name}
        for method in METHODS:
            samples = [errors(method, RUNS, True, *place) for place in places]
            row[f"{method}_decay"], row[method] = decay(axis, samples)
        yield row


def silent(_):
    """Yield the largest error of l1 recovery without noise."""
    for place in LADDERS["wider"]:
        worst = float(errors("recovery", NOISELESS_RUNS, False, *place).max())
        yield {"label": f"n = {place[0]}", "worst": worst, "nothing": 1e-12}


def error_figure(frames):
    """Squared error on blocks of 12/μ records with one nonzero, mean of 50 runs, (1, 1e-6)-DP.

    Bands are 3 standard errors. Both methods are better than the zero predictor, and the projection
    mechanism is better than l1 recovery. The number of blocks increases from left to right.
    """
    title = "l1 recovery and projection mechanism on sparse means: squared error against n and ε"
    figure, places = plotting.panels(title, *NAMES.values())
    for name, axes in zip(LADDERS, places, strict=True):
        x = "epsilon" if name == "epsilon" else "n"
        axes.set(xlabel=NAMES[name][0], ylabel="squared error", xscale="log", yscale="log")
        style = {"label": "zero predictor", "color": plotting.GREY, "ls": ":"}
        plotting.curve(axes, frames[name], x, "zero", **style)
        for method, (algorithm, _) in METHODS.items():
            style = {"band": f"{method}_risk"} | plotting.method_style(algorithm)
            plotting.curve(axes, frames[name], x, method, **style)
    return figure


rate = lab.Analysis(
    name="l1_recovery_rate",
    profiles=("full",),
    title="l1 recovery and projection mechanism on sparse means: exponents in n and ε",
    description=(
        "Squared errors for the mean of 2, 3, 4 and 6 blocks of identical records with one "
        "nonzero, under replace-one, at (1, 1e-6)-DP; where ε is swept, δ keeps ε/μ constant. "
        "The theorem's order is sqrt(s ln(d/s) ln(1/δ))/(n ε). Its constant is unknown, so there "
        "is no claim about a bound. The plan chooses m, about 0.8 n ε, without any tuning. Blocks "
        "have 12/μ records: on the smaller blocks of the lower bound neither method is better than "
        "the zero predictor. The error of the zero predictor is one over the number of blocks. "
        f"{RUNS} runs; intervals of means are three standard errors to either side."
    ),
    parts={name: partial(ladder, name) for name in LADDERS}
    | {
        "values": values, "slopes": slopes, "scaled": partial(slopes, names=("wider",)),
        "unscaled": partial(slopes, names=("wide", "epsilon")), "silent": silent,
    },
    claims=(
        Claim("l1 recovery beats the zero predictor", "values", below("recovery_risk", "zero")),
        Claim("projection beats recovery", "values", below("projection_risk", "recovery_risk")),
        Claim("d = 27 n: the theorem's exponent", "scaled", close("recovery", "order", 0.2)),
        Claim("d fixed: at least the theorem's exponent", "unscaled", at_most("order", "recovery")),
        Claim("without noise the mean is recovered", "silent", at_most("worst", "nothing")),
    ),
    figures={"errors": error_figure},
    charts=tuple(
        lab.Chart(
            problem=f"sparse means, {NAMES[name]}", part=name,
            x="epsilon" if name == "epsilon" else "n", label="squared error", band="risk",
        )
        for name in LADDERS
    ),
    listings=(
        Listing(
            "slopes",
            "Exponents a of the squared error, fitted as x^-a",
            {
                "x": "{label}", "l1 recovery": "{recovery_decay:.2f}",
                "95 % interval": "{recovery_lower:.2f} to {recovery_upper:.2f}",
                "projection": "{projection_decay:.2f}", "theorem, l1 recovery": "{order:.2f}",
            },
        ),
        Listing(
            "values",
            "Mean squared errors",
            {
                "": "{label}", "zero": "{zero:.3f}", "l1 recovery": "{recovery:.3f}",
                "projection": "{projection:.3f}", "l1 recovery / order": "{over:.2f}",
            },
        ),
    ),
)  # fmt: skip
