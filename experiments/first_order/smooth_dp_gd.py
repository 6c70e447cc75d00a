"""DP-GD on rounded medians, for which its bound for smooth losses is tight.

Where the sizes come from. T = 2500 everywhere: the bound is H R^2/(2T) + 2 r, r = sqrt(d)/(n mu),
and H = sqrt(d), so that the first term is below a fiftieth of the second from r = 0.014 on at d =
8. The surplus is m = u r sqrt(d), worst near u = 8 where m is small: hence r sqrt(d) at most 0.16.
In a first sweep the risks of u = 4 to 32 were within 4% of each other, and which of them was the
largest was chance. So u = 8 stands for all: a fixed pull in units of the noise.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Method, Setting, ladder
from privopt.problems import FAMILIES

STEPS = {"steps": 2500, "output": "average_after_step"}

experiment = Experiment(
    name="smooth_dp_gd",
    title="DP-GD on smooth losses: the exponents of noise, whatever the number of steps",
    description=(
        "Medians rounded off by parabolas, one a coordinate, with a surplus of records on one "
        "side, eight times the noise at every point, which is about the worst. 2500 steps "
        "everywhere. The method stands twice: with the step size of the theorem for smooth "
        "losses, and with the best of a grid of absolute ones."
    ),
    algorithms=Method("dp_gd", "dp_gd", STEPS).twice(step_size=ladder(0.0025, 0.04)),
    families=(replace(FAMILIES["rounded_medians"], strengths=(8.0,)),),
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
