"""DP-GD on rounded medians, for which its bound for smooth losses is tight.

Where the sizes come from. T = 2500 everywhere: the bound is H R^2/(2T) + 2 r, r = sqrt(d)/(n mu),
and H = sqrt(d), so that the first term is below a fiftieth of the second from r = 0.014 on at d =
8. The surplus is m = u r sqrt(d), worst near u = 8 where m is small: hence r sqrt(d) at most 0.16.
"""

from privopt.lab import Axis, Experiment, Method, Setting

STEPS = {"steps": 2500}

experiment = Experiment(
    name="smooth_dp_gd",
    title="DP-GD on smooth losses: the exponents of noise, whatever the number of steps",
    description=(
        "Medians rounded off by parabolas, one a coordinate, with a surplus of records on one "
        "side: of five strengths of that surplus the worst is taken at every point. 2500 steps "
        "everywhere. The method stands twice: with the step size of the theorem for smooth "
        "losses, and with the best of a grid of absolute ones."
    ),
    algorithms=(
        Method("dp_gd", "dp_gd", STEPS),
        Method(
            "dp_gd_best",
            "dp_gd",
            STEPS,
            search={"step_size": (0.0028, 0.0045, 0.0071, 0.0113, 0.018, 0.0285, 0.045)},
        ),
    ),
    families=("rounded_medians",),
    base=Setting(n=2000, dim=8, epsilon=0.5),
    axes=(
        Axis("n", (500, 794, 1260, 2000)),
        Axis("dim", (8, 12, 18, 27)),
        Axis("epsilon", (0.125, 0.2, 0.315, 0.5)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 300},
)
