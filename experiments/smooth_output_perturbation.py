"""Output perturbation of smooth, strongly convex losses: the square of the noise.

sigma sqrt(d) = 4 sqrt(d)/(n mu) stays below 0.12, where the unit ball does not reach the noise.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="smooth_output_perturbation",
    title="A test of code: where the risk is flat at its minimiser, noise costs its square",
    description=(
        "Every record's loss is half the squared distance to the same point. Its class, L = m D "
        "over the ball of diameter D, has stationary minimisers by public numbers alone, so the "
        "noise costs (H/2) E|z|^2. That is an equality here: no interval can lie below the bound, "
        "and its verdict must stay undecided at a ratio of one. Delta follows epsilon so that "
        "epsilon over the Gaussian parameter mu stays 5."
    ),
    algorithms={"output_perturbation": {"stationary": True}},
    families=("squared_distance",),
    base=Setting(n=2000, dim=32, epsilon=2.0),
    axes=(
        Axis("n", (500, 1000, 2000, 4000, 8000)),
        Axis("dim", (16, 32, 64, 128)),
        Axis("epsilon", (0.5, 1.0, 2.0, 4.0, 8.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    checks=("bound", "slope", "law"),
    replicates={"full": 1200},
)
