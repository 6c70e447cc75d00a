"""No regulariser saves output perturbation from its square root: the least risk over all of them.

The loss (|w_A| + s |w_B - 1|)/sqrt(2) has two kinks, d - 1 coordinates held at 0 by the first and
one that the second pulls to 1. The regularised minimiser is (0, min(1, s/(sqrt(2) lambda))), so a
large lambda is paid in B and a small one, by the noise, in A. Whoever sets lambda does not know s:
against s = lambda/sqrt(2) the bias is lambda/4 and the noise sigma sqrt(d)/sqrt(2), and their sum
has the minimum 2^(1/4) sqrt(r) at every r = sqrt(d)/(n mu).
"""

from functools import cache
from itertools import pairwise
from math import log, sqrt

import numpy as np
from scipy import stats

import privopt
from privopt import privacy
from privopt.lab import Check, Claim, Column, Line, Listing, Panel, Plot, Study

DIM = 20
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
PLAN = privopt.ALGORITHMS["output_perturbation"].plan
FIXED = (0.02, 0.2)
SIZES = {"quick": np.geomspace(1e3, 64e3, 7), "full": np.geomspace(1e3, 64e3, 25)}
SHARES = {"quick": 40, "full": 200}
LAWS = (np.arange(1000) + 0.5) / 1000
# Of |z_A| and z_B over sigma, a thousand equally likely values each.
ACROSS, ALONG = stats.chi(DIM - 1).ppf(LAWS), stats.norm.ppf(LAWS)


def plan(n, regularisation=None):
    """Over the unit ball, with nothing known but that the losses are convex and 1-Lipschitz."""
    facts = privopt.ProblemClass(n=n, dim=DIM, lipschitz=1.0, radius=1.0)
    return PLAN(facts, BUDGET, regularisation=regularisation)


def risk(n, regularisation, slope):
    """Expected excess risk of the perturbed minimiser, projected on the unit ball; ``F* = 0``."""
    scale = plan(n, regularisation).params.mechanism.scale
    along = min(1.0, slope / (sqrt(2.0) * regularisation)) + scale * ALONG
    across = scale * ACROSS[:, None]
    inside = np.maximum(1.0, np.sqrt(across**2 + along**2))
    return float(np.mean(across / inside + slope * np.abs(along / inside - 1.0)) / sqrt(2.0))


def worst(n, regularisation):
    """Of the slope that this ``lambda`` halves and the steepest one."""
    return max(risk(n, regularisation, s) for s in (min(1.0, regularisation / sqrt(2.0)), 1.0))


def noise_ratio(n):
    """``r``."""
    return sqrt(DIM) / (n * privacy.gaussian_mu(BUDGET.epsilon, BUDGET.delta))


@cache
def least(n, profile):
    """The least worst risk and the ``lambda`` that has it, over a range of nearly a thousand."""
    shares = np.geomspace(1.0 / 30.0, 30.0, SHARES[profile])
    return min((worst(n, r), r) for r in sqrt(noise_ratio(n)) * shares)


def sizes(profile):
    return np.round(SIZES[profile]).astype(int).tolist()


def tuning(profile):
    """One row a size."""
    for n in sizes(profile):
        found, regularisation = least(n, profile)
        root, theory = sqrt(noise_ratio(n)), plan(n)
        yield {
            "label": f"n = {n:,}",
            "n": n,
            "regularisation": regularisation,
            "risk": found,
            "root": root,
            "theorem": theory.rate.upper,
            "ratio": found / root,
            "theory_lambda": worst(n, theory.params.mechanism.query.regularisation),
            **{f"fixed_{i}": worst(n, fixed) for i, fixed in enumerate(FIXED)},
        }


def exponents(profile):
    """The exponents between one size and the next."""
    for n, larger in pairwise(sizes(profile)):
        shrunk = least(larger, profile)[0] / least(n, profile)[0]
        exponent = log(shrunk) / log(larger / n)
        yield {"label": f"n = {n:,} to {larger:,}", "exponent": exponent, "half": -0.5}


experiment = Study(
    name="output_perturbation_tuning",
    title="No regulariser saves output perturbation from the square root",
    description=(
        "The least expected excess risk over every lambda, each against the worse of two losses "
        "with two kinks: one of full slope, and one that lambda holds back half-way. A fixed "
        "lambda has the exponent one in n until it runs into its own bias; the best for every n "
        "gains a constant on the theorem, about 2^(1/4) for 2 times the square root of "
        "r = sqrt(d)/(n mu), and nothing in the exponent. Computed by quadrature, with the noise "
        "of the plan."
    ),
    parts={"tuning": tuning, "exponents": exponents},
    claims=(
        Claim(
            "the best λ leaves more than √r, at every size", "tuning", Check("root", "<", "risk")
        ),
        Claim(
            "the theory's λ keeps to its theorem",
            "tuning",
            Check("theory_lambda", "<=", "theorem"),
        ),
        Claim(
            "the best λ has the exponent −1/2 in n, within 0.02",
            "exponents",
            Check("exponent", "=", "half", 0.02),
        ),
    ),
    plots=(
        Plot(
            "tuning",
            "Output perturbation on two kinks, unit ball, d = 20, ε = 1",
            (
                Panel(
                    part="tuning",
                    x="n",
                    x_label="n",
                    y_label="excess risk",
                    title="worst of two losses",
                    log="xy",
                    lines=(
                        Line("theorem", "theorem, 2√r", "orange"),
                        Line("fixed_0", f"λ = {FIXED[0]:g}", "purple", "dots"),
                        Line("fixed_1", f"λ = {FIXED[1]:g}", "grey", "dots"),
                        Line("root", "√r", "green", "dashes"),
                        Line("risk", "best λ"),
                    ),
                ),
                Panel(
                    part="tuning",
                    x="n",
                    x_label="n",
                    y_label="λ",
                    title="the best λ",
                    log="xy",
                    lines=(Line("regularisation", "best λ"),),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "tuning",
            "The best λ",
            (
                Column("size", "{label}"),
                Column("λ", "{regularisation:.3g}"),
                Column("excess risk", "{risk:.4f}"),
                Column("over √r", "{ratio:.3f}"),
                Column("at the theory's λ", "{theory_lambda:.4f}"),
                Column("theorem", "{theorem:.4f}"),
            ),
        ),
    ),
)
