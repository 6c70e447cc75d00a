"""DP-GD on rounded medians, for which its bound for smooth losses is tight.

Choice of sizes: the bound is H R^2/(2T) + 2 r with T = 2500, r = sqrt(d)/(n mu) and H = sqrt(d), so
the first term is below 2% of the second from r = 0.014 at d = 8. The surplus m = u r sqrt(d) is
worst near u = 8 if m is small, hence r sqrt(d) is at most 0.16. The risks of u = 4 to 32 were
within 4% of each other, so only u = 8 is run.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Method, Setting, ladder
from privopt.problems import FAMILIES

STEPS = {"steps": 2500, "output": "average_after_step"}

experiment = Experiment(
    name="smooth_dp_gd",
    title="DP-GD on rounded medians: excess risk against n, d and epsilon",
    description=(
        "Medians rounded by parabolas, one for each coordinate, with a surplus of eight times the "
        "noise, about the worst. 2500 steps, with the step size of the theorem and with the best "
        "of a fixed grid."
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
