"""DP-GD and DP-SGD on strongly convex losses, where the noise dominates their bounds.

Choice of sizes: steps 2/(m (t + 1)) from the minimiser of |w - x|^2/2, all records at 0, so all
risk is due to noise. The part of L^2 in the bound 2 G^2/(m (T + 2)) dominates below T = n^2
mu^2/(4d). The default for any losses is 4.8 times as many, where both parts have one exponent and
the bound is 9.7 L^2 d/(m (n mu)^2). T is at most 4700. Without ``output`` the plan uses the theorem
for smooth losses, with fewer steps and a logarithm that depends on all sizes.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Setting

LOSSES = (
    "Half the squared distance to coinciding records, for the class of any records of the unit "
    "ball, with steps, step sizes and weights of the theorem. "
)

strongly_convex_dp_gd = Experiment(
    name="strongly_convex_dp_gd",
    title="DP-GD on strongly convex losses: excess risk against n, d and epsilon",
    description=f"{LOSSES}Epsilon over the Gaussian parameter mu is 5.",
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

# At a rate of 1/8 sampling adds at most 2% to the part of L^2. At epsilon = 0.25 the risk is 4 %
# below its limit, so epsilon starts at 0.4; T is at most 6200 at 1.6.
strongly_convex_dp_sgd = replace(
    strongly_convex_dp_gd,
    name="strongly_convex_dp_sgd",
    title="DP-SGD on strongly convex losses: excess risk against n, d and epsilon",
    description=f"{LOSSES}Poisson batches of an eighth of the records.",
    algorithms={"dp_sgd": {"rate": 0.125, "output": "weighted_average"}},
    base=Setting(n=446, dim=16, epsilon=0.63),
    axes=(
        Axis("n", (177, 280, 446, 707)),
        Axis("dim", (8, 13, 20, 32)),
        Axis("epsilon", (0.4, 0.63, 1.0, 1.6)),
    ),
    relation="zero_out",
    replicates={"full": 1600},
)
