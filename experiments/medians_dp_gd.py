"""DP-GD on coordinate medians: harder than linear losses, as overshooting costs more than it gains.

Where the sizes come from. At the default T = 1/(4 r^2), r = sqrt(d)/(n mu), the bound is 2 sqrt(2)
r. The surplus of a coordinate is m = u r sqrt(d), worst between u = 8 and 16 where m is small. A
first sweep, with r sqrt(d) from 0.04 to 0.01, measured slopes 0.07 short of the theorem's; n times
the mean rose by 5% at its one end and by 2% at the other. Hence r sqrt(d) at most 0.01. Strengths
below 4 and above 16 were never the worst there.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Method, Setting, ladder
from privopt.problems import FAMILIES

experiment = Experiment(
    name="medians_dp_gd",
    title="Medians are harder for DP-GD than linear losses, and the exponents are the same",
    description=(
        "One median a coordinate, of records on either side of the start: a surplus of them pulls "
        "towards the minimiser on the sphere, all of them push back from beyond it. Of three "
        "strengths of the surplus the worst is taken at every point. The method stands twice: "
        "with the step size of the theorem, and with the best of a grid of absolute ones, both "
        "after the theorem's number of steps."
    ),
    algorithms=(
        Method("dp_gd", "dp_gd"),
        Method(
            "dp_gd_best",
            "dp_gd",
            search={"step_size": ladder(0.0016, 0.025)},
        ),
    ),
    families=(replace(FAMILIES["medians"], strengths=(4.0, 8.0, 16.0)),),
    base=Setting(n=12_000, dim=3, epsilon=0.5),
    axes=(
        Axis("n", (3000, 4760, 7560, 12_000)),
        Axis("dim", (3, 5, 8, 12)),
        Axis("epsilon", (0.125, 0.2, 0.315, 0.5)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 600},
)
