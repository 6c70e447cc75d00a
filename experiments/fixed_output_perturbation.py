"""Output perturbation at one regulariser, on distances: the whole risk is the norm of the noise.

The regulariser may cost lambda R^2/4 = .0005 and E|z| goes from .4, where the ball does not reach
it, to .025: fifty times that. Both numbers set lambda, and d from 16 keeps E|z| near sigma sqrt(d).
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="fixed_output_perturbation",
    title="A test of code: with a fixed regulariser, output perturbation costs the noise's norm",
    description=(
        "Every record's loss is the distance to the same point. The kink holds the minimiser in "
        "place whatever the regulariser, so the risk is the norm of the noise, whose law is "
        "closed: calibration, solver and noise are what is tested here, and the exponents are "
        "those of the noise. Delta follows epsilon so that epsilon over the Gaussian parameter mu "
        "stays 5."
    ),
    algorithms={"output_perturbation": {"regularisation": 0.002}},
    families=("distance",),
    base=Setting(n=200_000, dim=64, epsilon=2.0),
    axes=(
        Axis("n", (50_000, 100_000, 200_000, 400_000, 800_000)),
        Axis("dim", (16, 32, 64, 128)),
        Axis("epsilon", (0.5, 1.0, 2.0, 4.0, 8.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    checks=("bound", "slope", "law"),
    replicates={"full": 400},
)
