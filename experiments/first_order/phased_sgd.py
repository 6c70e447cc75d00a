"""Phased SGD on draws of the linear losses for which its rate is tight.

Where the sizes come from. The theorem's exponents are those of noise: of the two terms under its
root, 16 r^2 with r = sqrt(d)/(n mu) and 1/(6n), the first is at least 25 times the second, which
bends a slope by less than 0.02: r is at least 0.72/sqrt(n). The pull of the data is u r with u up
to 24, and r is at most 0.04, where the largest pull is at its limit of 1. A first sweep, with r up
to 0.13, reached that limit, and measured a slope of -0.88 in epsilon at theory's numbers. Many
runs and dimensions, as single runs scatter by a fifth.

Where the grid comes from. The worst of five strengths has a kink at its best step: a step 12 %
beside it costs 9 % of the risk. Of ten steps a decade the best moved along epsilon by jumps of
that kind, and the slope read -0.88; hence forty a decade.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

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
    algorithms=Method("phased_sgd", "phased_sgd").twice(
        step_size=ladder(0.002, 0.02, per_decade=40)
    ),
    families=("linear_population",),
    base=Setting(n=2200, dim=32, epsilon=0.5),
    axes=(
        Axis("n", (1400, 2200, 3500, 5600)),
        Axis("dim", (16, 25, 40, 64)),
        Axis("epsilon", (0.325, 0.44, 0.6, 0.8)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 500},
)
