"""DP-GD on strongly convex losses, in the regime where their theorem speaks of noise.

Where the sizes come from. Steps 2/(m (t + 1)) from the minimiser of |w - x|^2/2, all records at 0:
whatever risk there is, is the noise's. The bound 2 G^2/(m (T + 2)) has a part of L^2, which falls
like 1/T and leads below T = n^2 mu^2/(4d). At 4.8 times as many, the default for any losses, both
parts move alike, and the bound is 9.7 L^2 d/(m (n mu)^2) at every size. Epsilon and n are such
that T is at most 4700. Without ``output`` the plan takes the theorem of smooth and strongly convex
losses, in far fewer steps, whose logarithm moves with all sizes.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="strongly_convex_dp_gd",
    title="Strong convexity squares the rate of DP-GD",
    description=(
        "Half the squared distance to coinciding records, over the unit ball, with the class "
        "allowing any records of that ball. Delta follows epsilon so that epsilon over the "
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
