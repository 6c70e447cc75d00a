"""Objective perturbation on rounded medians, at the theory's regulariser and at the best of a grid.

The surplus of a coordinate is a whole number of records, of order 1/mu: epsilon up to 1/2, where
it is 15 or more. r = sqrt(d)/(n mu) stays below .04, where no surplus is cut, and the best lambda
lies between r and 3 r: the grid holds it. Sizes are multiples of every dimension, so that all
coordinates are alike.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

experiment = Experiment(
    name="objective_perturbation",
    title="Objective perturbation has the optimal exponents, whatever the regulariser",
    description=(
        "Every coordinate is a rounded median that a small surplus of records pulls to one side, "
        "against the tilt that pulls to any side. The surplus is swept around the noise, and the "
        "worst of it taken: the pull that a tilt overcomes now and then costs most. At the "
        "theory's regulariser the exponents could be the plan's; the best of a grid that knows no "
        "theory, oracle-tuned at every setting, has them too. Delta follows epsilon so that "
        "epsilon over the Gaussian parameter mu stays 5."
    ),
    algorithms=(
        Method("objective_perturbation", "objective_perturbation"),
        Method(
            "objective_perturbation_best",
            "objective_perturbation",
            search={"regularisation": ladder(0.0005, 0.2)},
        ),
    ),
    families=("huber",),
    base=Setting(n=2**16, dim=16, epsilon=0.125),
    axes=(
        Axis("n", (2**12, 2**14, 2**16, 2**18)),
        Axis("dim", (16, 32, 64, 128)),
        Axis("epsilon", (1 / 128, 1 / 32, 1 / 8, 1 / 2)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 500},
)
