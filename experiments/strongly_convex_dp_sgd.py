"""DP-SGD on strongly convex losses, in the regime where their theorem speaks of noise.

Where the sizes come from. As for ``strongly_convex_dp_gd``: from the minimiser all risk is the
noise's, and at the default T the part of L^2 in the bound 2 G^2/(m (T + 2)) moves like the noise's.
At a rate of 1/8 sampling adds at most a fiftieth to that part.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="strongly_convex_dp_sgd",
    title="Strong convexity squares the rate of DP-SGD",
    description=(
        "Half the squared distance to coinciding records, over the unit ball, with the class "
        "allowing any records of that ball. Poisson batches of an eighth of the records; steps, "
        "step sizes and weights are set by the theory."
    ),
    algorithms={"dp_sgd": {"rate": 0.125, "output": "weighted_average"}},
    families=("squared_distance",),
    base=Setting(n=446, dim=16, epsilon=0.63),
    axes=(
        Axis("n", (177, 280, 446, 707)),
        Axis("dim", (8, 13, 20, 32)),
        Axis("epsilon", (0.25, 0.4, 0.63, 1.0)),
    ),
    relation="zero_out",
    epsilon_over_mu=5.0,
    replicates={"full": 1600},
)
