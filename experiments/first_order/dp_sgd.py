"""DP-SGD on linear losses, for which its bound is tight: Poisson batches, and batches of one size.

Where the sizes come from. Rate q = 1/4 and T = 32 everywhere. The losses have no curvature, so the
bound is that for smooth losses, R sqrt(V/T) with V = L^2 (1 - q)/(q n) + d sigma^2. The variance
of sampling is below a fiftieth of the noise's while n T times the square of the bound is above
150. The smallest bounds, 0.07 at n = 2000 and 0.115 at n = 794, are beyond that.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Method, Setting, ladder

WORST = (
    "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
    "of five strengths of that pull the worst is taken at every point. "
)
BATCHES = {"steps": 32, "rate": 0.25, "output": "average_after_step"}

dp_sgd = Experiment(
    name="dp_sgd",
    title="DP-SGD on Poisson batches is as good as its theorem says, and no better",
    description=(
        f"{WORST}32 steps on a quarter "
        "of the records each. The method stands twice: with the step size of the theorem, and "
        "with the best of a grid of absolute ones."
    ),
    algorithms=Method("dp_sgd", "dp_sgd", BATCHES).twice(step_size=ladder(0.063, 1.6)),
    families=("linear",),
    base=Setting(n=794, dim=32, epsilon=0.2),
    axes=(
        Axis("n", (500, 794, 1260, 2000)),
        Axis("dim", (16, 25, 40, 64)),
        Axis("epsilon", (0.08, 0.125, 0.2, 0.315)),
    ),
    relation="zero_out",
    epsilon_over_mu=5.0,
    replicates={"full": 300},
)

# Rate q = 1/2 and T = 16 everywhere. Gradients of a batch without replacement have second moment
# L^2, and its variance, L^2 (1 - q)/(q (n - 1)), is below a fiftieth of the noise's. The relation
# replaces a record, so the bound is twice that of dp_sgd at the same r = sqrt(d)/(n mu).
FIXED = {"steps": 16, "rate": 0.5, "sampler": "without_replacement", "output": "average_after_step"}

fixed_size_dp_sgd = replace(
    dp_sgd,
    name="fixed_size_dp_sgd",
    title="DP-SGD on batches of fixed size keeps the exponents",
    description=(
        f"{WORST}16 steps on half "
        "of the records, drawn without replacement. The method stands twice: with the step size "
        "of the theorem, and with the best of a grid of absolute ones."
    ),
    algorithms=Method("dp_sgd", "dp_sgd", FIXED).twice(step_size=ladder(0.1, 1.6)),
    base=Setting(n=204, dim=16, epsilon=0.63),
    axes=(Axis("n", (128, 204, 324, 512)), Axis("dim", (8, 13, 20, 32))),
    relation="replace_one",
    replicates={"full": 600},
)

# What a plan does that is told nothing but the rate: the default T is what the variance of sampling
# asks for, and the bound is half above its limit at every size. No slope is judged: runs of many
# steps scatter so that a first sweep of 200 had hardly a chance to decide one, and dp_sgd measures
# the exponent at fixed steps.
default_dp_sgd = replace(
    dp_sgd,
    name="default_dp_sgd",
    title="DP-SGD after theory's number of steps stays below its bound",
    description=f"{WORST}Steps follow from the public facts, and so does the step size.",
    algorithms={"dp_sgd": {"rate": 0.25}},
    base=Setting(n=794, dim=16, epsilon=2.0),
    axes=(Axis("n", (500, 794, 1260, 2000)),),
    checks=("bound",),
    replicates={"full": 200},
)
