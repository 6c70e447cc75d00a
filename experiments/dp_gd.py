"""DP-GD on the linear losses for which its bound for any Lipschitz loss is tight.

Where the sizes come from. At the default T = 1.2/r^2, r = sqrt(d)/(n mu), the bound is 2.2 r at
every size. What is measured is larger than its limit for many steps by a share of order
1/sqrt(T), hence r from 0.028 to 0.11, where T is from 93 to 1500. Step sizes are tried in factors
of 1.26, half of that by which n and epsilon move r.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

AVERAGE = {"output": "average"}

experiment = Experiment(
    name="dp_gd",
    title="DP-GD is as good as its theorem says, and no better",
    description=(
        "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
        "of five strengths of that pull the worst is taken at every point. Delta follows epsilon "
        "so that epsilon over the Gaussian parameter mu, the theorem's sqrt(log 1/delta), stays 5. "
        "The method stands twice: with the step size of the theorem, and with the best of a grid "
        "of absolute ones, both after the theorem's number of steps."
    ),
    algorithms=(
        Method("dp_gd", "dp_gd", AVERAGE),
        Method(
            "dp_gd_best",
            "dp_gd",
            AVERAGE,
            search={"step_size": ladder(0.01, 0.2)},
        ),
    ),
    families=("linear",),
    base=Setting(n=891, dim=16, epsilon=0.5),
    axes=(
        Axis("n", (354, 561, 891, 1414)),
        Axis("dim", (6, 16, 40, 100)),
        Axis("epsilon", (0.2, 0.315, 0.5, 0.8)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"quick": 150, "full": 500},
)
