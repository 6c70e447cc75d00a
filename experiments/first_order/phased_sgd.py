"""Phased SGD on samples of the linear losses for which its rate is tight.

Choice of sizes: of the terms under the root of the bound, 16 r^2 with r = sqrt(d)/(n mu) and
1/(6n), the first is at least 25 times the second (r at least 0.72/sqrt(n)), which changes a slope
by less than 0.02. The signal is u r, at most 1 if r is at most 0.06; with r up to 0.13 it reached
this limit, and the slope in epsilon was -0.88. Runs vary by a fifth.

Choice of the strength: of the risk of u = 4 and 8 up to a third is due to sampling, whose share
increases along n and epsilon. At u = 16 it is below 1 %. The risk with the steps of the theorem is
largest there.

At these sizes the share of the bound is not constant: with the best steps it decreases by 14 %
along d, and increases by 4 % along n and by 7 % along epsilon. Eight thousand runs resolve this, so
the exponent of epsilon is refuted here. The limit needs larger n and d, at which every run samples
ten times as many numbers.

Choice of the grid: a step 12 % longer has a risk up to 9 % larger; hence forty a decade.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Method, Setting, ladder
from privopt.problems import FAMILIES

experiment = Experiment(
    name="phased_sgd",
    title="Phased SGD on linear losses: population risk against n, d and epsilon",
    description=(
        "Excess population risk of linear losses with a mean gradient of 16 sqrt(d)/(n mu), "
        "about the worst multiple. Every run samples n records and uses each at most "
        "once, with the first step size of the theorem and with the best of a fixed grid. With the "
        "best, the share of the bound still changes with d and epsilon at these sizes, so that two "
        "slopes are flatter than those of the theorem. Epsilon over the Gaussian parameter mu is 5."
    ),
    algorithms=Method("phased_sgd", "phased_sgd").twice(
        step_size=ladder(0.002, 0.02, per_decade=40)
    ),
    families=(replace(FAMILIES["linear_population"], strengths=(16.0,)),),
    base=Setting(n=2200, dim=32, epsilon=0.5),
    axes=(
        Axis("n", (1400, 2200, 3500, 5600)),
        Axis("dim", (16, 25, 40, 64)),
        Axis("epsilon", (0.325, 0.44, 0.6, 0.8)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 8000},
)
