"""The noise that DP-GD needs for T steps at one budget, by five ways to compose.

What goes red: advanced composition without its square root (``Basic`` in its place) has slope 1;
the Gaussian's mu divided by 1.01 leaves the interval of the exact line.
"""

import math
from functools import cache

import numpy as np
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

from privopt import privacy
from privopt.accounting import Advanced, Basic
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study
from privopt.privacy import Fourier, Renyi
from privopt.spec import Budget

BUDGET = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
STEPS = tuple(2**k for k in range(15))
LAWS = {"basic": Basic(), "advanced": Advanced(), "renyi": Renyi(), "exact": Fourier()}
FROM = 64  # steps from which slopes are told


def descent(noise, steps):
    """So many gradients of all records, each with fresh Gaussian noise."""
    return SelfComposedDpEvent(GaussianDpEvent(noise), steps)


@cache
def needed(law, steps):
    """The least noise multiplier by which an accountant certifies the budget."""
    return privacy.calibrate(
        lambda noise: descent(noise, steps), BUDGET, accountant=LAWS[law], tolerance=1e-6
    )


def gaussian(steps):
    """``2 sqrt(T)/mu``, with ``mu`` the exact inverse of the Gaussian curve."""
    return 2.0 * math.sqrt(steps) / privacy.gaussian_mu(BUDGET.epsilon, BUDGET.delta)


def noises(profile):
    """One row a number of steps."""
    del profile
    for steps in STEPS:
        found = {law: needed(law, steps) for law in LAWS}
        mu = gaussian(steps)
        yield {"label": f"T = {steps}", "steps": steps, "mu": mu, **found} | {
            "agree": found["exact"] / mu,
            "one": 1.0,
            "times_basic": found["basic"] / mu,
            "times_advanced": found["advanced"] / mu,
            "times_renyi": found["renyi"] / mu,
        }


def many(profile):
    """From the steps at which advanced composition is of use."""
    return (row for row in noises(profile) if row["steps"] >= FROM)


def slopes(profile):
    """``d ln sigma / d ln T`` from 64 steps on, least squares."""
    rows = list(many(profile))
    x = np.log([row["steps"] for row in rows])
    for law in ("basic", "advanced", "renyi", "mu", "exact"):
        slope = np.polyfit(x, np.log([row[law] for row in rows]), 1)[0]
        yield {"label": law, "slope": float(slope), "wanted": 1.0 if law == "basic" else 0.5}


LINES = (
    Line("basic", "basic", "orange"),
    Line("advanced", "advanced", "green", "dashes"),
    Line("renyi", "Rényi", "purple", "dots"),
    Line("mu", "Gaussian DP", "grey"),
    Line("exact", "exact", "blue", "points"),
)

experiment = Study(
    name="composition_of_descent",
    title="How much noise do T steps of DP-GD need? It depends on who composes",
    description=(
        "The noise multiplier that T adaptive gradients of all records need for ε = 1, δ = 1e-6 "
        "under replace-one, where one record moves a sum by two clip norms: by basic and by "
        "advanced composition of (ε, δ) with the exact curve of one Gaussian release, δ split by "
        "the best of fixed shares; by Rényi differential privacy; by Gaussian DP, which is the "
        "closed form 2 sqrt(T)/μ; and by exact numerical composition, certified. Nothing is "
        "sampled or tuned. Excess risk of DP-GD moves in proportion to this noise."
    ),
    parts={part.__name__: part for part in (noises, many, slopes)},
    claims=(
        Claim("exact composition is Gaussian DP, to 1e-4", "noises", "agree = one ± 0.0001"),
        Claim("Rényi needs at least the noise of Gaussian DP", "noises", "mu <= renyi"),
        Claim("advanced needs more than Rényi from 64 steps", "many", "renyi < advanced"),
        Claim("basic needs more than advanced from 64 steps", "many", "advanced < basic"),
        Claim("slope 1 of basic, 1/2 of all others", "slopes", "slope = wanted ± 0.05"),
    ),
    plots=(
        Plot(
            "noise",
            "Noise for T steps at ε = 1, δ = 1e-6, replace-one",
            Panel(
                part="noises", x="steps", x_label="steps T", y_label="noise multiplier",
                lines=LINES, log="xy",
            ),
            Panel(
                part="noises", x="steps", x_label="steps T", y_label="times Gaussian DP",
                log="xy",
                lines=(
                    Line("times_basic", "basic", "orange"),
                    Line("times_advanced", "advanced", "green", "dashes"),
                    Line("times_renyi", "Rényi", "purple", "dots"),
                    Line("agree", "exact", "blue", "points"),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "noises",
            "Noise multipliers",
            Column("T", "{steps}"),
            Column("basic", "{basic:.1f}"),
            Column("advanced", "{advanced:.1f}"),
            Column("Rényi", "{renyi:.2f}"),
            Column("Gaussian DP", "{mu:.2f}"),
            Column("exact", "{exact:.2f}"),
        ),
        Listing(
            "slopes",
            "Slope in T, from 64 steps on",
            Column("by", "{label}"),
            Column("slope", "{slope:.3f}", "slope = wanted ± 0.05"),
        ),
    ),
    profiles=("full",),
)  # fmt: skip
