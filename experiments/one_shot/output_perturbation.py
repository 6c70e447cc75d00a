"""Output perturbation on two kinks, at the theory's regulariser and at the best of a grid.

Noise costs E|z|, within 1.6 % of sigma sqrt(d) for d from 16. The best lambda is about 2.8 sqrt(r),
r = sqrt(d)/(n mu) from .0002 to .03 along every axis: the grid holds it between 0.01 and 1.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Method, Setting, ladder

output_perturbation = Experiment(
    name="output_perturbation",
    title="Output perturbation pays the square root: exponent one half, whatever the regulariser",
    description=(
        "Every record's loss has two kinks, one that the regulariser pulls the minimiser away "
        "from and one that noise does: a strong regulariser is paid for at the first, a weak one, "
        "by the noise, at the second. The slope of the first is swept around the worst. With the "
        "theory's regulariser the exponent could be the plan's. The best of a grid that knows no "
        "theory, oracle-tuned at every setting, has it too. Delta follows epsilon so that epsilon "
        "over the Gaussian parameter mu stays 5."
    ),
    algorithms=Method("output_perturbation", "output_perturbation").twice(
        regularisation=ladder(0.03, 1.2)
    ),
    families=("two_kinks",),
    base=Setting(n=4000, dim=32, epsilon=2.0),
    axes=(
        Axis("n", (1000, 4000, 16000, 64000)),
        Axis("dim", (16, 32, 64, 128)),
        Axis("epsilon", (0.125, 0.5, 2.0, 8.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"quick": 400, "full": 1000},
)

# Noise costs E|z| = d beta exactly; r = d/(n epsilon) from .0005 to .03 along every axis.
pure_output_perturbation = replace(
    output_perturbation,
    name="pure_output_perturbation",
    title="Pure differential privacy costs output perturbation the square root of the dimension",
    description=(
        "The losses of the other output perturbation, with two kinks and swept slopes. The noise "
        "has density exp(-|z|/beta): its norm grows like d where that of Gaussian noise grows "
        "like its square root, and the rate is the square root of either: at the theory's "
        "regulariser, and at the best of a grid that knows no theory, oracle-tuned at every "
        "setting."
    ),
    base=Setting(n=16000, dim=32, epsilon=1.0),
    axes=(*output_perturbation.axes[:2], Axis("epsilon", (0.0625, 0.25, 1.0, 4.0))),
    delta=0.0,
    epsilon_over_mu=None,
    replicates={"full": 1000},
)
