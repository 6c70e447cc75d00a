"""Objective perturbation on the rounded medians for which its rate is tight.

The surplus of a coordinate is a whole number of records, of order ``1/mu``: epsilon up to 1, where
it is ten or more. Sizes are multiples of every dimension, so that all coordinates are alike.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="objective_perturbation",
    title="Objective perturbation has the optimal exponents, without iterations to account for",
    description=(
        "Every coordinate is a rounded median that a small surplus of records pulls to one side, "
        "against the tilt that pulls to any side. The surplus is swept around the noise, and the "
        "worst of it taken: the pull that a tilt overcomes now and then costs most. The "
        "regulariser is the theory's. Delta follows epsilon so that epsilon over the Gaussian "
        "parameter mu stays 5."
    ),
    algorithms={"objective_perturbation": {}},
    families=("huber",),
    base=Setting(n=8192, dim=16, epsilon=0.5),
    axes=(
        Axis("n", (2048, 4096, 8192, 16384, 32768)),
        Axis("dim", (8, 16, 32, 64, 128)),
        Axis("epsilon", (0.0625, 0.125, 0.25, 0.5, 1.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"quick": 2000, "full": 8000},
)
