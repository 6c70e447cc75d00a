"""DP-FTRL with a binary tree: regret on the losses for which its rate is tight.

Choice of the sizes: the noise dominates the exponents if ``sigma sqrt(d) y >= 12``; here it is 20
to 160. The bound must also be well below the largest possible regret, 2 per step; here it is 0.2 to
0.6. The noise of a tree jumps at powers of two, so ``n`` doubles. The best regularisation is 0.6 to
1 times that of the theorem, which is 205 to 870.

The regret grows with the square root of the noise. The control therefore multiplies the noise by
``x^0.2``, and so the regret by ``x^0.1``. With the best regularisation the ratio of measured regret
to bound decreases from 0.82 to 0.75 as the bound decreases from 0.57 to 0.2 per step, so the slope
in epsilon is steeper by 0.03.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

experiment = Experiment(
    name="dp_ftrl",
    title="DP-FTRL on distances to a border point: regret against n, d and epsilon",
    description=(
        "All gradients have the same norm, and the losses are convex in all directions, so the "
        "effect of the noise on an iterate does not average out. One pass in order, one record per "
        "step, with the noise of a binary tree. The exponents of the noise are computed at the "
        "swept sizes, because logarithms have small exponents. Delta follows epsilon so that "
        "epsilon/mu is 5. The two variants have the regularisation of the theorem and the best one "
        "of a fixed grid."
    ),
    algorithms=Method("dp_ftrl", "dp_ftrl", {"quantity": "regret"}).twice(
        regularisation=ladder(100.0, 1000.0)
    ),
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
