"""Pure output perturbation of smooth, strongly convex losses: the square of the noise.

E|z|^2 = d (d + 1) beta^2 is within 3 % of d^2 beta^2 for d from 32, and E|z| = 4 d/(n epsilon)
stays below 0.13, where the unit ball does not reach the noise.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="pure_smooth_output_perturbation",
    title="A test of code: pure differential privacy squares the dimension of a smooth minimiser",
    description=(
        "Every record's loss is half the squared distance to the same point, whose minimisers are "
        "stationary for all data by public numbers alone. The noise, of density exp(-|z|/beta), "
        "costs (H/2) E|z|^2 exactly, so the verdict on the bound must stay undecided at a ratio "
        "of one."
    ),
    algorithms={"output_perturbation": {"stationary": True}},
    families=("squared_distance",),
    base=Setting(n=16000, dim=64, epsilon=1.0),
    axes=(
        Axis("n", (4000, 8000, 16000, 32000, 64000)),
        Axis("dim", (32, 64, 128, 256)),
        Axis("epsilon", (0.25, 0.5, 1.0, 2.0, 4.0)),
    ),
    relation="replace_one",
    delta=0.0,
    checks=("bound", "slope", "law"),
    replicates={"full": 1200},
)
