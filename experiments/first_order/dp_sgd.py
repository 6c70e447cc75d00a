"""DP-SGD and DP-SVRG on linear losses, for which their bounds are tight.

Choice of sizes: rate q = 1/4 and T = 32. The losses have no curvature, so the bound is that for
smooth losses, R sqrt(V/T) with V = L^2 (1 - q)/(q n) + d sigma^2. The sampling variance is below 2%
of the noise variance if n T times the squared bound is above 150. The smallest bounds, 0.07 at n =
2000 and 0.115 at n = 794, satisfy this.

Slopes are measured at one signal strength, whose risk was the largest of five in earlier runs, or
within 3 % of it at every value. The slope then does not depend on which of several nearly equal
strengths is the largest by chance, and all runs serve one strength.
"""

import math
from dataclasses import replace

from privopt.lab import Axis, Experiment, Method, Setting, ladder
from privopt.problems import FAMILIES


def linear(strength):
    """Return the linear losses at one signal strength."""
    return replace(FAMILIES["linear"], strengths=(strength,))


LINEAR = "Linear losses with minimisers on the sphere and a mean gradient "
WORST = f"{LINEAR}slightly above the noise, at the worst of five signal strengths. "
BATCHES = {"steps": 32, "rate": 0.25, "output": "average_after_step"}

dp_sgd = Experiment(
    name="dp_sgd",
    title="DP-SGD on linear losses: excess risk against n, d and epsilon",
    description=(
        f"{LINEAR}of 2 sqrt(d)/(n mu), about the worst multiple. 32 steps on Poisson batches of a "
        "quarter of the records, with the step size of the theorem and with the best of a fixed "
        "grid."
    ),
    algorithms=Method("dp_sgd", "dp_sgd", BATCHES).twice(step_size=ladder(0.063, 1.6)),
    families=(linear(2.0),),
    base=Setting(n=794, dim=32, epsilon=0.2),
    axes=(
        Axis("n", (500, 794, 1260, 2000)),
        Axis("dim", (16, 25, 40, 64)),
        Axis("epsilon", (0.08, 0.125, 0.2, 0.315)),
    ),
    relation="zero_out",
    epsilon_over_mu=5.0,
    replicates={"full": 1500},
)

# Rate q = 1/2 and T = 16. Batch gradients without replacement have second moment L^2 and variance
# L^2 (1 - q)/(q (n - 1)), below 2% of the noise variance. The relation is replace-one, so the bound
# is twice that of dp_sgd at the same r = sqrt(d)/(n mu).
FIXED = {"steps": 16, "rate": 0.5, "sampler": "without_replacement", "output": "average_after_step"}

fixed_size_dp_sgd = replace(
    dp_sgd,
    name="fixed_size_dp_sgd",
    title="DP-SGD with batches of fixed size: excess risk against n, d and epsilon",
    description=(
        f"{LINEAR}of 4 sqrt(d)/(n mu), about the worst multiple. 16 steps on half of the records, "
        "sampled without replacement, with the step size of the theorem and with the best of a "
        "fixed grid."
    ),
    algorithms=Method("dp_sgd", "dp_sgd", FIXED).twice(step_size=ladder(0.1, 1.6)),
    families=(linear(4.0),),
    base=Setting(n=204, dim=16, epsilon=0.63),
    axes=(Axis("n", (128, 204, 324, 512)), Axis("dim", (8, 13, 20, 32))),
    relation="replace_one",
    replicates={"full": 3000},
)

# The default T depends on the sampling variance; the bound is 1.5 times its limit at every size.
# The slope is measured by dp_sgd at fixed steps, since runs of many steps vary too much.
default_dp_sgd = replace(
    dp_sgd,
    name="default_dp_sgd",
    title="DP-SGD with default steps on linear losses: excess risk against n",
    description=f"{WORST}The problem class determines the number of steps and the step size.",
    algorithms={"dp_sgd": {"rate": 0.25}},
    families=("linear",),
    base=Setting(n=794, dim=16, epsilon=2.0),
    axes=(Axis("n", (500, 794, 1260, 2000)),),
    checks=("bound",),
    replicates={"full": 200},
)

# Anchors at every second step, batches of 16 in between. At the default T, 4.8/r^2 with r =
# sqrt(d)/(n mu), the terms of noise and of gradients in the bound R sqrt(A/(T + 1)) have one
# exponent, and the bound is 1.2 r. Gradients are constant, so all noise is that of the anchors.
# Epsilon and n are chosen so that T is at most 2000.
ANCHORS = {"anchor_every": 2, "batch_size": 16, "output": "average"}

dp_svrg = replace(
    dp_sgd,
    name="dp_svrg",
    title="DP-SVRG on linear losses: excess risk against n, d and epsilon",
    description=(
        f"{LINEAR}of norm 1, about the worst. A noisy gradient of all records at every second "
        "step, and its change on a Poisson batch in between. The default number of steps, with the "
        "step size of the theorem and with the best of a fixed grid."
    ),
    algorithms=Method("dp_svrg", "dp_svrg", ANCHORS).twice(step_size=ladder(0.005, 0.8)),
    families=(linear(math.inf),),
    base=Setting(n=397, dim=16, epsilon=0.4),
    axes=(
        Axis("n", (250, 397, 630, 1000)),
        Axis("dim", (8, 13, 20, 32)),
        Axis("epsilon", (0.16, 0.25, 0.4, 0.63)),
    ),
    replicates={"full": 600},
)
