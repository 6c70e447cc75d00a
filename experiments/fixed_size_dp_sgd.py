"""DP-SGD on batches of one size, without replacement: whose gradients have second moment L^2.

Where the sizes come from. Rate q = 1/2 and T = 16 everywhere. The variance of a batch, L^2 (1 -
q)/(q (n - 1)), is below a fiftieth of the noise's. The relation replaces a record, so the bound is
twice that of ``dp_sgd`` at the same r = sqrt(d)/(n mu).
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

BATCHES = {
    "steps": 16,
    "rate": 0.5,
    "sampler": "without_replacement",
    "output": "average_after_step",
}

experiment = Experiment(
    name="fixed_size_dp_sgd",
    title="DP-SGD on batches of fixed size keeps the exponents",
    description=(
        "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
        "of five strengths of that pull the worst is taken at every point. 16 steps on half "
        "of the records, drawn without replacement. The method stands twice: with the step size "
        "of the theorem, and with the best of a grid of absolute ones."
    ),
    algorithms=(
        Method("dp_sgd", "dp_sgd", BATCHES),
        Method(
            "dp_sgd_best",
            "dp_sgd",
            BATCHES,
            search={"step_size": ladder(0.1, 1.6)},
        ),
    ),
    families=("linear",),
    base=Setting(n=204, dim=16, epsilon=0.63),
    axes=(
        Axis("n", (128, 204, 324, 512)),
        Axis("dim", (8, 13, 20, 32)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 600},
)
