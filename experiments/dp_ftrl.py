"""The regret of DP-FTRL with a binary tree, on the losses for which its rate is tight.

Where the sizes come from. The exponents of the noise lead from sigma sqrt(d) y = 12 on; here it is
60 to 700. The bound must also stay well below the largest regret there is, 2 a step: it is 0.2 to
0.5 a step. A tree has saw teeth between powers of two, so n doubles.
"""

from privopt.lab import Axis, Experiment, Method, Setting

REGRET = {"quantity": "regret"}

experiment = Experiment(
    name="dp_ftrl",
    title="DP-FTRL: the price of a private running sum",
    description=(
        "Distances to a point at the border: every record pulls with the same strength, and what "
        "noise does to a leader is never averaged away, since a loss is convex there in all "
        "directions. One pass in order, a record a step, noise of a binary tree. The exponents of "
        "the noise are those at the sizes measured: logarithms have small ones. Delta follows "
        "epsilon so that epsilon over the Gaussian parameter mu stays 5. The method stands twice: "
        "with the regularisation of the theorem, and with the best of a grid of absolute ones."
    ),
    algorithms=(
        Method("dp_ftrl", "dp_ftrl", REGRET),
        Method(
            "dp_ftrl_best",
            "dp_ftrl",
            REGRET,
            search={"regularisation": (450.0, 600, 800, 1060, 1400, 1900, 2500, 3300, 4400)},
        ),
    ),
    families=("far_distance",),
    base=Setting(n=4096, dim=32, epsilon=2.0),
    axes=(
        Axis("n", (2048, 4096, 8192, 16384)),
        Axis("dim", (16, 32, 64, 128)),
        Axis("epsilon", (1.0, 2.0, 4.0, 8.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 48},
)
