"""Sufficient statistics on least squares as flat as the noise, and beside others on easy data.

Of the hard family r = sqrt(d)/(n mu) stays below .03 and d r below 1/6: no share of the records is
cut, and the whole problem scales with r. What is raised carries the exponents of theory's floor.
"""

import math

from privopt.lab import Axis, Experiment, Grid, Method, Setting
from privopt.problems import synthetic

UNRAISED = {"floor": -math.inf}
BATCHES = {"steps": 300}

sufficient_statistics = Experiment(
    name="sufficient_statistics",
    title="On least squares as flat as the noise, second moments cost up to a third of their bound",
    description=(
        "Squared losses whose curvature is the same in every direction and about as large as the "
        "noise of the matrix, the minimiser as far from the centre as the set allows; the "
        "curvature is swept around the worst. One method raises the least eigenvalue of the noisy "
        "matrix to the size of the noise, as theory sets it; one leaves the matrix as it is and "
        "minimises the quadratic, convex or not, over the ball. Delta follows epsilon so that "
        "epsilon over the Gaussian parameter mu stays 5."
    ),
    algorithms=(
        Method("raised", "sufficient_statistics"),
        Method("unraised", "sufficient_statistics", UNRAISED),
    ),
    families=("isotropic_squares",),
    base=Setting(n=64_000, dim=32, epsilon=0.5),
    axes=(
        Axis("n", (16_000, 32_000, 64_000, 256_000)),
        Axis("dim", (24, 36, 54, 80)),
        Axis("epsilon", (0.125, 0.25, 0.5, 2.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 400},
)

# Gradient descent takes 300 steps rather than its theorem's thousands, which changes its bound by
# little and what it measures by less.
least_squares = Experiment(
    name="least_squares",
    title="On least squares one noisy look at second moments leaves less risk than noisy gradients",
    description=(
        "Least squares on synthetic records with a planted parameter, |x| and |y| up to 1, |w| up "
        "to 2: sufficient statistics beside noisy gradients, phases, and perturbed minimisers, all "
        "at one budget with the numbers of their theorems, nothing tuned on the data. Gradient "
        "descent takes 300 steps. Where the zero predictor is best, at d = 100 and few records, "
        "no method learns; there the matrix that is left as it is does far worse than the raised."
    ),
    algorithms=(
        Method("sufficient_statistics", "sufficient_statistics"),
        Method("unraised", "sufficient_statistics", UNRAISED),
        Method("dp_gd", "dp_gd", BATCHES),
        Method("phased_sgd", "phased_sgd"),
        Method("objective_perturbation", "objective_perturbation"),
        Method("output_perturbation", "output_perturbation"),
    ),
    families=(synthetic("least_squares"),),
    base=Setting(n=20_000, dim=20, epsilon=1.0),
    axes=(Axis("epsilon", (0.3, 1.0, 8.0)),),
    grids=(
        Grid(Axis("n", (2000, 20_000)), Axis("dim", (5, 20, 100))),
        Grid(Axis("dim", (5, 100)), Axis("epsilon", (0.3, 8.0))),
    ),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"full": 24},
)
