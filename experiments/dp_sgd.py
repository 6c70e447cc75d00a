"""DP-SGD on linear losses, for which its bound is tight.

Where the sizes come from. Rate q = 1/4 and T = 32 everywhere. The losses have no curvature, so the
bound is that for smooth losses, R sqrt(V/T) with V = L^2 (1 - q)/(q n) + d sigma^2. The variance
of sampling is below a fiftieth of the noise's while n T times the square of the bound is above
150. The smallest bounds, 0.07 at n = 2000 and 0.115 at n = 794, are beyond that.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

BATCHES = {"steps": 32, "rate": 0.25, "output": "average_after_step"}

experiment = Experiment(
    name="dp_sgd",
    title="DP-SGD on Poisson batches is as good as its theorem says, and no better",
    description=(
        "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
        "of five strengths of that pull the worst is taken at every point. 32 steps on a quarter "
        "of the records each. The method stands twice: with the step size of the theorem, and "
        "with the best of a grid of absolute ones."
    ),
    algorithms=(
        Method("dp_sgd", "dp_sgd", BATCHES),
        Method(
            "dp_sgd_best",
            "dp_sgd",
            BATCHES,
            search={"step_size": ladder(0.063, 1.6)},
        ),
    ),
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
