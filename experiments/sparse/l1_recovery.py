"""l1 recovery beside the projection mechanism: 90 measurements, which d >= m ln^2 m allows.

Of a mean that is sparse itself, as l1 recovery wants it: all records are one. Of the blocks of
records on which the projection mechanism's bound is tight neither method learns more than zero
does, since half the mass of their mean is below the noise. The bound of the recovery is the square
of the diameter: no theorem on it has constants.

Its order in n is measured by a study, where the size of the blocks leaves something to learn:
blocks of ``12/mu`` records of one number.
"""

import math
from functools import cache

import numpy as np
from scipy import stats

import privopt
from privopt.lab import (
    Axis,
    Claim,
    Column,
    Experiment,
    Line,
    Listing,
    Method,
    Panel,
    Plot,
    Setting,
    Study,
    replicate_keys,
    stream,
)
from privopt.problems import family

FEW = {"measurements": 90}

experiment = Experiment(
    name="l1_recovery",
    title="Recovering a sparse mean from few measurements costs more than projecting it",
    description=(
        "Squared distances to one sparse record, many times over. The same budget pays for a noisy "
        "mean that is projected, or for 90 noisy measurements of it from which the vector of least "
        "l1 norm is recovered and projected too. Both with the least noise, and with the published "
        "one. Both learn far more than the zero predictor here."
    ),
    algorithms=(
        Method("projection", "projection_mechanism", {"noise": "gaussian"}),
        Method("published_projection", "projection_mechanism", {"mode": "paper"}),
        Method("recovery", "l1_recovery", FEW),
        Method("published_recovery", "l1_recovery", {**FEW, "mode": "paper"}),
    ),
    families=("sparse_same_record",),
    base=Setting(n=256, dim=2**12, sparsity=4, epsilon=1.0),
    axes=(Axis("n", (128, 256, 512, 1024)),),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"full": 100},
)

STRENGTH, SPARSITY = 12.0, 1
MU = privopt.privacy.gaussian_mu(1.0, 1e-6)  # at epsilon = 1; epsilon over mu is the same at others
BLOCK = math.ceil(STRENGTH / MU)  # records, 51
BLOCKS = (2, 3, 4, 6)
MOST, WIDE = BLOCK * BLOCKS[-1], 2**13
RUNS, SILENT = 50, 8
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
    """The point at this epsilon of a Gaussian curve, mu in proportion to it."""
    delta = privopt.privacy.gaussian_delta(epsilon, mu=MU * epsilon).upper
    return privopt.Budget(epsilon=epsilon, delta=delta, relation="replace_one")


def problem(n, dim, epsilon):
    """Squared distances to blocks of ``12/mu`` records of one number, as many as fit."""
    ratio = math.sqrt(dim) / (n * MU * epsilon)
    strength = 0.99 * BLOCK * MU  # rounded up to a block
    return family("sparse_copies").build(
        n=n, dim=dim, sparsity=SPARSITY, noise_ratio=ratio, strength=strength
    )


@cache
def errors(method, runs, noisy, *place):
    """Squared errors of every run, at ``place``: n, dim, epsilon."""
    where, (algorithm, choices) = problem(*place), METHODS[method]
    plan = privopt.ALGORITHMS[algorithm].plan(where.problem_class, budget(place[-1]), **choices)
    keys = replicate_keys(stream(0, experiment="l1_recovery_rate", place=str(place)), runs)
    chosen = plan if noisy else plan.with_noise(0.0)
    points = privopt.run_many([chosen], where, keys, execution=privopt.Execution(chunk=4)).released
    return 2.0 * np.asarray(where.excess_risk(points[0]))


def order(n, dim, epsilon):
    """That of the theorem, whose constant nobody knows."""
    logs = math.log(dim / SPARSITY) * math.log(1.0 / budget(epsilon).delta)
    return math.sqrt(SPARSITY * logs) / (n * epsilon)


def interval(values):
    """The mean, give or take three standard errors."""
    error = 3.0 * float(values.std(ddof=1)) / math.sqrt(values.size)
    return privopt.Interval(max(0.0, float(values.mean()) - error), float(values.mean()) + error)


def ladder_of(name):
    """A part: one row a value of a ladder."""

    def part(profile):
        del profile
        for place in LADDERS[name]:
            n, dim, epsilon = place
            found = {method: errors(method, RUNS, True, *place) for method in METHODS}
            zero = 2.0 * float(problem(*place).excess_risk(np.zeros((1, dim)))[0])
            row = {"label": f"n = {n}, d = {dim:,}, ε = {epsilon:.2f}", "n": n, "epsilon": epsilon}
            row |= {method: float(values.mean()) for method, values in found.items()}
            row |= {f"{method}_risk": interval(values) for method, values in found.items()}
            yield row | {"zero": zero, "over": row["recovery"] / order(*place)}

    return part


def values(profile):
    """All rows of the three ladders."""
    for name in LADDERS:
        yield from ladder_of(name)(profile)


def weights(axis):
    """Of the logs of values, in the exponent that least squares fits to them."""
    logs = np.log(np.asarray(axis))
    logs = logs - logs.mean()
    return logs / (logs @ logs)


def decay(axis, samples):
    """``a`` in ``mean = c x^-a``, and its 95 % interval: log means have the errors of means."""
    shares = weights(axis)
    terms = [float(w * math.log(float(v.mean()))) for w, v in zip(shares, samples, strict=True)]
    errors = [
        abs(w) * (float(v.std(ddof=1)) / (float(v.mean()) * math.sqrt(v.size)))
        for w, v in zip(shares, samples, strict=True)
    ]
    found = -math.fsum(terms)
    reach = float(stats.t.isf(0.025, RUNS - 1)) * math.hypot(*errors)
    return found, privopt.Interval(found - reach, found + reach)


def slopes(profile):
    """``a`` where the squared error falls like ``x^-a``, with a 95 % interval; of the order too."""
    del profile
    for name, places in LADDERS.items():
        axis = [n * epsilon for n, _, epsilon in places]
        told = -float(weights(axis) @ np.log([order(*place) for place in places]))
        row = {"label": NAMES[name], "order": told, "ladder": name}
        for method in METHODS:
            samples = [errors(method, RUNS, True, *place) for place in places]
            row[f"{method}_decay"], row[method] = decay(axis, samples)
        yield row


def scaled(profile):
    """Where the dimension grows with the number of records."""
    return [row for row in slopes(profile) if row["ladder"] == "wider"]


def unscaled(profile):
    """Where it does not."""
    return [row for row in slopes(profile) if row["ladder"] != "wider"]


def silent(profile):
    """Without the noise."""
    del profile
    for place in LADDERS["wider"]:
        worst = float(errors("recovery", SILENT, False, *place).max())
        yield {"label": f"n = {place[0]}", "worst": worst, "nothing": 1e-12}


def panel(name, x, x_label):
    """Both methods beside zero."""
    return Panel(
        part=name,
        x=x,
        x_label=x_label,
        y_label="squared error",
        log="xy",
        title=NAMES[name],
        lines=(
            Line("zero", "zero", "grey", "dots"),
            Line("recovery", "l1 recovery", "purple", band="recovery_risk"),
            Line("projection", "projection", "orange", band="projection_risk"),
        ),
    )


rate = Study(
    name="l1_recovery_rate",
    profiles=("full",),
    title="Where l1 recovery beats zero, how does its error fall with n?",
    description=(
        "Squared errors for the mean of 2, 3, 4 and 6 blocks of identical records of one number, "
        "under replace-one, at (1, 1e-6)-DP, and where ε is swept at the δ that keeps ε/μ. The "
        "theorem's order is sqrt(s ln(d/s) ln(1/δ))/(n ε), and the plan takes its m by itself, "
        "about 0.8 n ε: nothing is tuned. No constant is known, so no bound is claimed. Blocks are "
        "of 12/μ records: on the smaller ones of the lower bound neither method learns more than "
        "zero knows. The error of zero is one over the number of blocks, so it falls too; without "
        f"noise nothing is lost. {RUNS} runs; bands are three standard errors to either side."
    ),
    parts={
        **{name: ladder_of(name) for name in LADDERS},
        **{part.__name__: part for part in (values, slopes, scaled, unscaled, silent)},
    },
    claims=(
        Claim("l1 recovery beats zero everywhere", "values", "recovery_risk < zero"),
        Claim("the projection beats l1 recovery", "values", "projection_risk < recovery_risk"),
        Claim("d in proportion to n: the theorem's exponent", "scaled", "recovery = order ± 0.2"),
        Claim("d fixed: at least the theorem's exponent", "unscaled", "order <= recovery"),
        Claim("without noise the mean is found", "silent", "worst <= nothing"),
    ),
    plots=(
        Plot(
            "errors",
            "Squared error, blocks of 12/μ records, s = 1",
            panel("wider", "n", "n"),
            panel("wide", "n", "n"),
            panel("epsilon", "epsilon", "ε"),
        ),
    ),
    listings=(
        Listing(
            "slopes",
            "The squared error falls like n, or ε, to the power of minus",
            Column("", "{label}"),
            Column("l1 recovery", "{recovery_decay:.2f}"),
            Column("its 95 % interval", "{recovery_lower:.2f} to {recovery_upper:.2f}"),
            Column("projection", "{projection_decay:.2f}"),
            Column("the theorem's order", "{order:.2f}"),
        ),
        Listing(
            "values",
            "Squared errors",
            Column("", "{label}"),
            Column("zero", "{zero:.3f}"),
            Column("l1 recovery", "{recovery:.3f}"),
            Column("projection", "{projection:.3f}"),
            Column("l1 recovery over the order", "{over:.2f}"),
        ),
    ),
)
