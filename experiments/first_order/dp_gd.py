"""DP-GD on the linear losses for which its bound for smooth losses is tight.

Where the sizes come from. The losses have no curvature, H = 0, so the bound is 2 r, r = sqrt(d)/(n
mu), after any number of steps; 64 are enough for the step size to matter. What is measured is
larger than its limit for small r by a share of order r, hence r from 0.014 to 0.057, where that
share changes by less than 4%. Step sizes are tried in factors of 1.26, half of that by which n and
epsilon move r.
"""

from dataclasses import replace

from privopt.convex import StepSizes
from privopt.lab import Axis, Experiment, Method, Setting, ladder

WORST = (
    "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
    "of five strengths of that pull the worst is taken at every point. "
)
STEPS = {"steps": 64, "output": "average_after_step"}

dp_gd = Experiment(
    name="dp_gd",
    title="DP-GD is as good as its theorem says, and no better",
    description=(
        f"{WORST}Delta follows epsilon "
        "so that epsilon over the Gaussian parameter mu, the theorem's sqrt(log 1/delta), stays 5. "
        "The method stands twice, after 64 steps: with the step size of the theorem, and with the "
        "best of a grid of absolute ones."
    ),
    algorithms=Method("dp_gd", "dp_gd", STEPS).twice(step_size=ladder(0.1, 2.0)),
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

# The bound is r here, half of that for a record replaced, and r is at most 0.06: the pull of the
# worst strength is far from its limit of 1.
add_or_remove_dp_gd = replace(
    dp_gd,
    name="add_or_remove_dp_gd",
    title="A record more or less: half the noise, the same exponents",
    description=(
        f"{WORST}64 steps everywhere. "
        "The method stands twice: with the step size of the theorem for smooth losses, and with "
        "the best of a grid of absolute ones."
    ),
    algorithms=Method("dp_gd", "dp_gd", STEPS).twice(step_size=ladder(0.2, 4.0)),
    relation="add_or_remove_one",
    replicates={"full": 600},
)

zero_out_dp_gd = replace(
    add_or_remove_dp_gd,
    name="zero_out_dp_gd",
    title="A record that is zeroed out: half the noise, the same exponents",
    relation="zero_out",
)

# The dimension is larger: below d = 16 what is left of order 1/d bends the slope in d by 0.03.
# The tuned twin returns the last iterate too, after steps in linear decay from the best of a grid
# of first ones: an average is not there to hide the noise of a step that is too long.
LAST = {"steps": 64, "output": "last"}
DECAYING = tuple(map(StepSizes.linear_decay, ladder(0.1, 2.0)))

last_dp_gd = replace(
    dp_gd,
    name="last_dp_gd",
    title="The last iterate of DP-GD needs no average, if steps decay",
    description=(
        f"{WORST}What is returned is "
        "the last iterate after 64 steps in linear decay: once from the theorem's first step, "
        "once from the best of a grid of absolute ones."
    ),
    algorithms=Method("dp_gd", "dp_gd", LAST).twice(step_size=DECAYING),
    base=Setting(n=2828, dim=40, epsilon=0.5),
    axes=(Axis("n", (1122, 1782, 2828, 4490)), Axis("dim", (16, 32, 64, 128))),
    replicates={"full": 700},
)
