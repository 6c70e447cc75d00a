"""The regret of DP-FTRL with a binary tree, on the losses for which its rate is tight.

Where the sizes come from. The exponents are those of the noise, which leads from sigma sqrt(d) y =
12 on: here it is 20 to 160. The bound must also stay well below the largest regret there is, which
is 2 a step: here it is 0.2 to 0.6. A tree has saw teeth between powers of two, so n doubles. The
best regularisation is 0.6 to 1 times the theorem's, 205 to 870.

What a first sweep showed. A regret takes the square root of the noise, so noise bent by x^0.1 moved
its exponent by the margin alone; now the control bends the noise by x^0.2, and the risk by x^0.1.
At the best of the grid measured over bound falls from 0.82 to 0.75 where the bound falls from 0.57
to 0.2 a step: the slope in epsilon is 0.03 steeper.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

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
    algorithms=Method("dp_ftrl", "dp_ftrl", REGRET).twice(regularisation=ladder(100.0, 1000.0)),
    families=("far_distance",),
    base=Setting(n=1024, dim=32, epsilon=5.0),
    axes=(
        Axis("n", (512, 1024, 2048, 4096)),
        Axis("dim", (16, 32, 64, 128)),
        Axis("epsilon", (2.5, 5.0, 10.0, 20.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 24},
)
