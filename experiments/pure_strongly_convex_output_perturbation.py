"""Pure output perturbation of strongly convex losses with a kink at the minimiser.

The noise costs E|z| = d beta exactly, and (m/2) E|z|^2; E|z| stays below 0.36, where
the ball does not reach it.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="pure_strongly_convex_output_perturbation",
    title="A test of code: pure output perturbation of strongly convex losses, linear in d",
    description=(
        "Every record's loss is the distance to the same point plus (m/2)|w|^2, m one of 0.1 and "
        "1. The kink holds the minimiser in place, and the noise, of density exp(-|z|/beta), "
        "costs its full norm, whose law is closed."
    ),
    algorithms={"output_perturbation": {}},
    families=("regularised_distance",),
    base=Setting(n=4000, dim=32, epsilon=2.0),
    axes=(
        Axis("n", (1000, 2000, 4000, 8000, 16000)),
        Axis("dim", (16, 32, 64, 128)),
        Axis("epsilon", (0.5, 1.0, 2.0, 4.0, 8.0)),
    ),
    relation="replace_one",
    delta=0.0,
    checks=("bound", "slope", "law"),
    replicates={"full": 400},
)
