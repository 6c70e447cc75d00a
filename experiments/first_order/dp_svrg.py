"""DP-SVRG on linear losses, for which its bound is tight.

Where the sizes come from. Anchors every second step, batches of 16 in between. At the default T,
4.8/r^2 with r = sqrt(d)/(n mu), noise and gradients move alike in the bound R sqrt(A/(T + 1)), and
it is 1.2 r at every size. Linear losses have equal gradients everywhere, so that all noise is that
of anchors: this is the term that the theorem adds. Epsilon and n are such that T is at most 2000.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

ANCHORS = {"anchor_every": 2, "batch_size": 16, "output": "average"}

experiment = Experiment(
    name="dp_svrg",
    title="DP-SVRG where the noise of its anchors leads",
    description=(
        "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
        "of five strengths of that pull the worst is taken at every point. A noisy gradient of "
        "all records at every second step, and its change on a Poisson batch in between. The "
        "method stands twice: with the step size of the theorem, and with the best of a grid of "
        "absolute ones, both after the theorem's number of steps."
    ),
    algorithms=Method("dp_svrg", "dp_svrg", ANCHORS).twice(step_size=ladder(0.02, 0.8)),
    families=("linear",),
    base=Setting(n=397, dim=16, epsilon=0.4),
    axes=(
        Axis("n", (250, 397, 630, 1000)),
        Axis("dim", (8, 13, 20, 32)),
        Axis("epsilon", (0.16, 0.25, 0.4, 0.63)),
    ),
    relation="zero_out",
    epsilon_over_mu=5.0,
    replicates={"full": 100},
)
