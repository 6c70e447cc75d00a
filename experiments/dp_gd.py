"""DP-GD on the linear losses for which its rate is tight."""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="dp_gd",
    title="DP-GD is as good as its theorem says, and no better",
    description=(
        "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
        "of five strengths of that pull the worst is taken at every point. Delta follows epsilon "
        "so that epsilon over the Gaussian parameter mu, the theorem's sqrt(log 1/delta), stays 5. "
        "Steps and step size are set by the theory, nothing is tuned."
    ),
    algorithms={"dp_gd": {}},
    families=("linear",),
    base=Setting(n=1000, dim=40, epsilon=2.0),
    axes=(
        Axis("n", (250, 500, 1000, 2000, 4000), quick=(250, 500, 1000, 2000)),
        Axis("dim", (20, 40, 80, 160, 320)),
        Axis("epsilon", (0.5, 1.0, 2.0, 4.0, 8.0), quick=(0.5, 1.0, 2.0, 4.0)),
    ),
    epsilon_over_mu=5.0,
    replicates={"quick": 100, "full": 1000},
)
