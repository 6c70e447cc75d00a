"""Strongly convex losses, in the regime where the theorems of DP-GD and DP-SGD speak of noise.

Where the sizes come from. Steps 2/(m (t + 1)) from the minimiser of |w - x|^2/2, all records at 0:
whatever risk there is, is the noise's. The bound 2 G^2/(m (T + 2)) has a part of L^2, which falls
like 1/T and leads below T = n^2 mu^2/(4d). At 4.8 times as many, the default for any losses, both
parts move alike, and the bound is 9.7 L^2 d/(m (n mu)^2) at every size. Epsilon and n are such
that T is at most 4700. Without ``output`` the plan takes the theorem of smooth and strongly convex
losses, in far fewer steps, whose logarithm moves with all sizes.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Setting

LOSSES = (
    "Half the squared distance to coinciding records, over the unit ball, with the class "
    "allowing any records of that ball. "
)

strongly_convex_dp_gd = Experiment(
    name="strongly_convex_dp_gd",
    title="Strong convexity squares the rate of DP-GD",
    description=(
        f"{LOSSES}Delta follows epsilon so that epsilon over the "
        "Gaussian parameter mu stays 5. Steps, step sizes and weights are set by the theory."
    ),
    algorithms={"dp_gd": {"output": "weighted_average"}},
    families=("squared_distance",),
    base=Setting(n=630, dim=16, epsilon=1.25),
    axes=(
        Axis("n", (250, 400, 630, 1000)),
        Axis("dim", (8, 13, 20, 32)),
        Axis("epsilon", (0.5, 0.8, 1.25, 2.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 2000},
)

# At a rate of 1/8 sampling adds at most a fiftieth to the part of L^2.
strongly_convex_dp_sgd = replace(
    strongly_convex_dp_gd,
    name="strongly_convex_dp_sgd",
    title="Strong convexity squares the rate of DP-SGD",
    description=(
        f"{LOSSES}Poisson batches of an eighth of the records; steps, "
        "step sizes and weights are set by the theory."
    ),
    algorithms={"dp_sgd": {"rate": 0.125, "output": "weighted_average"}},
    base=Setting(n=446, dim=16, epsilon=0.63),
    axes=(
        Axis("n", (177, 280, 446, 707)),
        Axis("dim", (8, 13, 20, 32)),
        Axis("epsilon", (0.25, 0.4, 0.63, 1.0)),
    ),
    relation="zero_out",
    replicates={"full": 1600},
)
