"""DP-SVRG on linear losses, for which its bound is tight.

Choice of sizes: anchors at every second step, batches of 16 in between. At the default T, 4.8/r^2
with r = sqrt(d)/(n mu), the terms of noise and of gradients in the bound R sqrt(A/(T + 1)) have one
exponent, and the bound is 1.2 r. Gradients are constant, so all noise is that of the anchors.
Epsilon and n are chosen so that T is at most 2000.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

ANCHORS = {"anchor_every": 2, "batch_size": 16, "output": "average"}

experiment = Experiment(
    name="dp_svrg",
    title="DP-SVRG on linear losses: excess risk against n, d and epsilon",
    description=(
        "Linear losses with a mean gradient slightly above the noise, at the worst of five signal "
        "strengths. A noisy gradient of all records at every second step, and its change on a "
        "Poisson batch in between. The default number of steps, with the step size of the theorem "
        "and with the best of a fixed grid."
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
