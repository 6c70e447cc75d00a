"""Output perturbation under pure differential privacy, on the distance losses.

The noise costs E|z| = d beta exactly; d / (n epsilon) stays below 0.01.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="pure_output_perturbation",
    title="Pure differential privacy costs output perturbation the square root of the dimension",
    description=(
        "Every record's loss is the distance to the same point, and the kink holds the minimiser "
        "in place whatever the regulariser. The noise has density exp(-|z|/beta): its norm grows "
        "like d where that of Gaussian noise grows like its square root, and the rate is the "
        "square root of either. The regulariser is the theory's."
    ),
    algorithms={"output_perturbation": {}},
    families=("distance",),
    base=Setting(n=16000, dim=16, epsilon=1.0),
    axes=(
        Axis("n", (4000, 8000, 16000, 32000, 64000)),
        Axis("dim", (8, 16, 32, 64, 128)),
        Axis("epsilon", (0.25, 0.5, 1.0, 2.0, 4.0)),
    ),
    relation="replace_one",
    delta=0.0,
    replicates={"quick": 2000, "full": 8000},
)
