"""Output perturbation on two kinks, with the regulariser of the theory and the best one.

The noise adds E|z|, within 1.6 % of sigma sqrt(d) from d = 16. r = sqrt(d)/(n mu) is from 0.0002 to
0.03 along every axis, so the best lambda, about 2.8 sqrt(r), is inside the grid.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Method, Setting, ladder

output_perturbation = Experiment(
    name="output_perturbation",
    title="Output perturbation on two kinks: excess risk against n, d and epsilon",
    description=(
        "The loss of every record has two kinks. A strong regulariser moves the minimiser away "
        "from the first; noise, which is large for a weak one, moves it away from the second. The "
        "risk is the worst of several slopes of the first. The regulariser is that of the theory, "
        "or the best of a fixed grid. Epsilon over the Gaussian parameter mu is 5."
    ),
    algorithms=Method("output_perturbation", "output_perturbation", {"noise": "gaussian"}).twice(
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

# The noise adds E|z| = d beta; r = d/(n epsilon) is from 0.0005 to 0.03 along every axis.
pure_output_perturbation = replace(
    output_perturbation,
    name="pure_output_perturbation",
    title="Pure output perturbation on two kinks: excess risk against n, d and epsilon",
    description=(
        "The losses of output_perturbation. The noise has density exp(-|z|/beta) and a norm of "
        "order d, that of Gaussian noise is of order sqrt(d). The rate is the square root of both. "
        "The regulariser is that of the theory, or the best of a fixed grid."
    ),
    algorithms=Method("output_perturbation", "output_perturbation").twice(
        regularisation=ladder(0.03, 1.2)
    ),
    base=Setting(n=16000, dim=32, epsilon=1.0),
    axes=(*output_perturbation.axes[:2], Axis("epsilon", (0.0625, 0.25, 1.0, 4.0))),
    delta=0.0,
    epsilon_over_mu=None,
    replicates={"full": 1000},
)

# r = 1/(n mu) is from 0.00004 to 0.02 along every axis; the best lambda is about 4 r^(2/3).
unprojected_output_perturbation = replace(
    output_perturbation,
    name="unprojected_output_perturbation",
    title="Output perturbation without projection on squares: excess risk against n, d and epsilon",
    description=(
        "Least squares with features of norm 1, of which a swept share points along the minimiser. "
        "The noisy minimiser is not projected. Its noise has mean zero and costs only curvature, "
        "which is that of one direction for each record: the risk does not depend on d. With a "
        "projection the bound is of order (sqrt(d)/(n mu))^(2/3). Epsilon over the Gaussian "
        "parameter mu is 5."
    ),
    algorithms=Method(
        "output_perturbation", "output_perturbation", {"noise": "gaussian", "constraint": "none"}
    ).twice(regularisation=ladder(0.003, 0.9)),
    families=("steep_squares",),
    axes=(*output_perturbation.axes[:2], Axis("epsilon", (0.0625, 0.25, 1.0, 4.0))),
    replicates={"full": 1000},
)
