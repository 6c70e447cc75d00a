"""Output perturbation under pure differential privacy, on two kinks; the grid as in the other.

Noise costs E|z| = d beta exactly; r = d/(n epsilon) from .0005 to .03 along every axis.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

experiment = Experiment(
    name="pure_output_perturbation",
    title="Pure differential privacy costs output perturbation the square root of the dimension",
    description=(
        "The losses of the other output perturbation, with two kinks and swept slopes. The noise "
        "has density exp(-|z|/beta): its norm grows like d where that of Gaussian noise grows "
        "like its square root, and the rate is the square root of either: at the theory's "
        "regulariser, and at the best of a grid that knows no theory, oracle-tuned at every "
        "setting."
    ),
    algorithms=(
        Method("output_perturbation", "output_perturbation"),
        Method(
            "output_perturbation_best",
            "output_perturbation",
            search={"regularisation": ladder(0.03, 1.2)},
        ),
    ),
    families=("two_kinks",),
    base=Setting(n=16000, dim=32, epsilon=1.0),
    axes=(
        Axis("n", (1000, 4000, 16000, 64000)),
        Axis("dim", (16, 32, 64, 128)),
        Axis("epsilon", (0.0625, 0.25, 1.0, 4.0)),
    ),
    relation="replace_one",
    delta=0.0,
    replicates={"full": 1000},
)
