"""DP-GD on coordinate medians: harder than linear losses, as overshooting costs more than it gains.

Where the sizes come from. At the default T = 1/(4 r^2), r = sqrt(d)/(n mu), the bound is 2 sqrt(2)
r. The surplus of a coordinate is m = u r sqrt(d), worst between u = 8 and 16 where m is small:
hence r sqrt(d) at most 0.04 along n and epsilon, and 0.03 along d.
"""

from privopt.lab import Axis, Experiment, Method, Setting

experiment = Experiment(
    name="medians_dp_gd",
    title="Medians are harder for DP-GD than linear losses, and the exponents are the same",
    description=(
        "One median a coordinate, of records on either side of the start: a surplus of them pulls "
        "towards the minimiser on the sphere, all of them push back from beyond it. Of five "
        "strengths of the surplus the worst is taken at every point. The method stands twice: "
        "with the step size of the theorem, and with the best of a grid of absolute ones, both "
        "after the theorem's number of steps."
    ),
    algorithms=(
        Method("dp_gd", "dp_gd"),
        Method(
            "dp_gd_best",
            "dp_gd",
            search={"step_size": (0.005, 0.008, 0.0125, 0.02, 0.0315, 0.05, 0.08)},
        ),
    ),
    families=("medians",),
    base=Setting(n=4000, dim=4, epsilon=0.5),
    axes=(
        Axis("n", (1000, 1587, 2520, 4000)),
        Axis("dim", (3, 5, 8, 12)),
        Axis("epsilon", (0.125, 0.2, 0.315, 0.5)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 300},
)
