"""DP-SGD after theory's number of steps: what a plan does that is told nothing but the rate.

Where the sizes come from. Rate q = 1/4. The default T keeps the variance of sampling at a fifth of
the noise's, so both move alike and the bound is 1.1 times R sqrt(d) sigma/sqrt(T) at every size.
What the accountant charges above the limit of many small steps makes the bound itself a little
steeper; below a bound of 0.025 its slopes are within 0.02 of the exponents.
"""

from privopt.lab import Axis, Experiment, Method, Setting

RATE = {"rate": 0.25}

experiment = Experiment(
    name="default_dp_sgd",
    title="DP-SGD after theory's number of steps keeps the exponents",
    description=(
        "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
        "of five strengths of that pull the worst is taken at every point. Steps follow from the "
        "public facts. The method stands twice: with the step size of the theorem, and with the "
        "best of a grid of absolute ones."
    ),
    algorithms=(
        Method("dp_sgd", "dp_sgd", RATE),
        Method(
            "dp_sgd_best",
            "dp_sgd",
            RATE,
            search={"step_size": (0.315, 0.5, 0.8, 1.25, 2.0)},
        ),
    ),
    families=("linear",),
    base=Setting(n=794, dim=16, epsilon=2.0),
    axes=(Axis("n", (500, 794, 1260, 2000)),),
    relation="zero_out",
    epsilon_over_mu=5.0,
    replicates={"full": 200},
)
