"""Phased SGD on draws of the linear losses for which its rate is tight.

Where the sizes come from. The theorem's exponents are those of noise: of the two terms under its
root, 16 r^2 with r = sqrt(d)/(n mu) and 1/(6n), the first is at least 50 times the second, which
bends a slope by less than 0.02. The pull of the data is u r with u up to 24, worst at u = 12 or 16,
and r is at most 0.08, where that pull reaches its limit of 1.
"""

from privopt.lab import Axis, Experiment, Method, Setting

experiment = Experiment(
    name="phased_sgd",
    title="One pass is enough: phased SGD meets its bound on population risk",
    description=(
        "Every run draws its own n records, and what is measured is the excess risk of the "
        "population they come from. Linear losses whose data pull towards the minimiser with a "
        "mean just above the noise: of five strengths of that pull the worst is taken at every "
        "point. Each record is seen at most once. Delta follows epsilon so that epsilon over the "
        "Gaussian parameter mu stays 5. The method stands twice: with the first step size of the "
        "theorem, and with the best of a grid of absolute ones."
    ),
    algorithms=(
        Method("phased_sgd", "phased_sgd"),
        Method(
            "phased_sgd_best",
            "phased_sgd",
            search={
                "step_size": (
                    0.0004,
                    0.00063,
                    0.001,
                    0.0016,
                    0.0025,
                    0.004,
                    0.0063,
                    0.01,
                    0.016,
                    0.025,
                )
            },
        ),
    ),
    families=("linear_population",),
    base=Setting(n=794, dim=16, epsilon=0.5),
    axes=(
        Axis("n", (500, 794, 1260, 2000)),
        Axis("dim", (8, 13, 20, 32)),
        Axis("epsilon", (0.2, 0.315, 0.5, 0.8)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"quick": 400, "full": 2000},
)
