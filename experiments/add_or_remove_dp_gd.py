"""DP-GD under ``add_or_remove_one``, on the linear losses for which its bound is tight.

Where the sizes come from. The losses have no curvature, H = 0, so the bound for smooth losses is r
= sqrt(d)/(n mu) after any number of steps; 64 are enough for the step size to matter, and r is at
most 0.06, where the pull of the worst strength is far from its limit of 1.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

STEPS = {"steps": 64, "output": "average_after_step"}

experiment = Experiment(
    name="add_or_remove_dp_gd",
    title="A record more or less: half the noise, the same exponents",
    description=(
        "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
        "of five strengths of that pull the worst is taken at every point. 64 steps everywhere. "
        "The method stands twice: with the step size of the theorem for smooth losses, and with "
        "the best of a grid of absolute ones."
    ),
    algorithms=(
        Method("dp_gd", "dp_gd", STEPS),
        Method(
            "dp_gd_best",
            "dp_gd",
            STEPS,
            search={"step_size": ladder(0.2, 4.0)},
        ),
    ),
    families=("linear",),
    base=Setting(n=1782, dim=16, epsilon=0.5),
    axes=(
        Axis("n", (707, 1122, 1782, 2828)),
        Axis("dim", (6, 16, 40, 100)),
        Axis("epsilon", (0.2, 0.315, 0.5, 0.8)),
    ),
    relation="add_or_remove_one",
    epsilon_over_mu=5.0,
    replicates={"full": 600},
)
