"""DP-GD on the linear losses for which its bound for smooth losses is tight.

Where the sizes come from. The losses have no curvature, H = 0, so the bound is 2 r, r = sqrt(d)/(n
mu), after any number of steps; 64 are enough for the step size to matter. What is measured is
larger than its limit for small r by a share of order r, hence r from 0.014 to 0.057, where that
share changes by less than 4%. Step sizes are tried in factors of 1.26, half of that by which n and
epsilon move r.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

STEPS = {"steps": 64, "output": "average_after_step"}

experiment = Experiment(
    name="dp_gd",
    title="DP-GD is as good as its theorem says, and no better",
    description=(
        "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
        "of five strengths of that pull the worst is taken at every point. Delta follows epsilon "
        "so that epsilon over the Gaussian parameter mu, the theorem's sqrt(log 1/delta), stays 5. "
        "The method stands twice, after 64 steps: with the step size of the theorem, and with the "
        "best of a grid of absolute ones."
    ),
    algorithms=(
        Method("dp_gd", "dp_gd", STEPS),
        Method("dp_gd_best", "dp_gd", STEPS, search={"step_size": ladder(0.1, 2.0)}),
    ),
    families=("linear",),
    base=Setting(n=1782, dim=16, epsilon=0.5),
    axes=(
        Axis("n", (707, 1122, 1782, 2828)),
        Axis("dim", (6, 16, 40, 100)),
        Axis("epsilon", (0.2, 0.315, 0.5, 0.8)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"quick": 600, "full": 600},
)
