"""DP-SGD after theory's number of steps: what a plan does that is told nothing but the rate.

Where the sizes come from. Rate q = 1/4. The losses have no curvature: the default T is what the
variance of sampling asks for, and the bound is half above its limit at every size.
No slope is judged: runs of many steps scatter so that a first sweep of 200 had hardly a chance to
decide one, and ``dp_sgd`` measures the exponent at fixed steps.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="default_dp_sgd",
    title="DP-SGD after theory's number of steps stays below its bound",
    description=(
        "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
        "of five strengths of that pull the worst is taken at every point. Steps follow from the "
        "public facts, and so does the step size."
    ),
    algorithms={"dp_sgd": {"rate": 0.25}},
    families=("linear",),
    base=Setting(n=794, dim=16, epsilon=2.0),
    axes=(Axis("n", (500, 794, 1260, 2000)),),
    relation="zero_out",
    epsilon_over_mu=5.0,
    checks=("bound",),
    replicates={"full": 200},
)
