"""Output perturbation of strongly convex losses with a kink at the minimiser.

On the unit ball L = 1 + m, and the noise costs E|z| + (m/2) E|z|^2; E|z| stays below 0.5, where
the ball does not reach it, and is within 0.8 % of sigma sqrt(d) for d from 32.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="strongly_convex_output_perturbation",
    title="A test of code: strong convexity buys output perturbation the exponent one, not two",
    description=(
        "Every record's loss is the distance to the same point plus (m/2)|w|^2, m one of 0.1 and "
        "1: a regulariser that is part of the problem, so nothing is balanced and nothing is "
        "biased. The kink holds the minimiser in place, the noise costs its full norm, and its "
        "law is closed. Delta follows epsilon so that epsilon over the Gaussian parameter mu "
        "stays 5."
    ),
    algorithms={"output_perturbation": {}},
    families=("regularised_distance",),
    base=Setting(n=4000, dim=64, epsilon=2.0),
    axes=(
        Axis("n", (1000, 2000, 4000, 8000, 16000)),
        Axis("dim", (32, 64, 128, 256)),
        Axis("epsilon", (0.5, 1.0, 2.0, 4.0, 8.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    checks=("bound", "slope", "law"),
    replicates={"full": 400},
)
