"""The last iterate of DP-GD: steps in linear decay spare the average.

Where the sizes come from. Those of ``zero_out_dp_gd``: the bound is 2 r, r = sqrt(d)/(n mu), after
any number of steps, here 64, and r is from 0.014 to 0.057. The dimension is larger: below d = 16
what is left of order 1/d bends the slope in d by 0.03.
The tuned twin returns the last iterate too, after steps in linear decay from the best of a grid of
first ones: an average is not there to hide the noise of a step that is too long.
"""

from privopt.convex import StepSizes
from privopt.lab import Axis, Experiment, Method, Setting, ladder

LAST = {"steps": 64, "output": "last"}
DECAYING = tuple(map(StepSizes.linear_decay, ladder(0.1, 2.0)))

experiment = Experiment(
    name="last_dp_gd",
    title="The last iterate of DP-GD needs no average, if steps decay",
    description=(
        "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
        "of five strengths of that pull the worst is taken at every point. What is returned is "
        "the last iterate after 64 steps in linear decay: once from the theorem's first step, "
        "once from the best of a grid of absolute ones."
    ),
    algorithms=(
        Method("dp_gd", "dp_gd", LAST),
        Method(
            "dp_gd_best",
            "dp_gd",
            LAST,
            search={"step_size": DECAYING},
        ),
    ),
    families=("linear",),
    base=Setting(n=2828, dim=40, epsilon=0.5),
    axes=(
        Axis("n", (1122, 1782, 2828, 4490)),
        Axis("dim", (16, 32, 64, 128)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 700},
)
