"""Output perturbation on the distance losses for which its rate is tight.

The noise costs E|z| = sigma sqrt(d) (1 - 1/(4d) + ...): d from 64, where that is within 0.4 %.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="output_perturbation",
    title="Output perturbation pays the square root: exponent one half, not one",
    description=(
        "Every record's loss is the distance to the same point. The kink holds the minimiser in "
        "place whatever the regulariser, so noise costs its full norm, which a linear loss would "
        "hide. The regulariser is the theory's. Delta follows epsilon so that epsilon over the "
        "Gaussian parameter mu stays 5."
    ),
    algorithms={"output_perturbation": {}},
    families=("distance",),
    base=Setting(n=4000, dim=64, epsilon=2.0),
    axes=(
        Axis("n", (1000, 2000, 4000, 8000, 16000)),
        Axis("dim", (64, 128, 256, 512, 1024)),
        Axis("epsilon", (0.5, 1.0, 2.0, 4.0, 8.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"quick": 2000, "full": 8000},
)
