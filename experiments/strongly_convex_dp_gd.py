"""DP-GD on strongly convex losses: squared in everything, and the number of steps does not matter.

Steps 2/(m (t + 1)) from the minimiser of |w - x|^2/2, all records at 0: whatever risk there is, is
the noise's. The bound 2 G^2/(m (T + 2)) has a part of L^2, of 1/T, which this family does not
attain: the ratio to the bound says how small it is, the slopes are the noise's.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="strongly_convex_dp_gd",
    title="Strong convexity squares the rate of DP-GD",
    description=(
        "Half the squared distance to coinciding records, over the unit ball, with the class "
        "allowing any records of that ball. Delta follows epsilon so that epsilon over the "
        "Gaussian parameter mu stays 5. Step sizes and weights are set by the theory."
    ),
    algorithms={"dp_gd": {"steps": 1000}},
    families=("squared_distance",),
    base=Setting(n=2000, dim=80, epsilon=2.0),
    axes=(
        Axis("n", (1000, 2000, 4000, 8000)),
        Axis("dim", (20, 40, 80, 160, 320)),
        Axis("epsilon", (0.5, 1.0, 2.0, 4.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"quick": 400, "full": 2000},
)
