"""Output perturbation of sparse linear losses: nearest in the largest coordinate, or in Euclid's.

Blocks of identical records, of swept size: with 5/mu = 1/epsilon a block of strength c has 20 c
records at s = 4, and n = 2048 to 32,768 records make 100/c to 1640/c of them. All fit: 2^13
coordinates have room for 2048 blocks. n ln(2d) is far above 16 s/mu, where the set is no bound.
"""

from privopt.lab import Axis, Experiment, Method, Setting

GRID = (0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5, 0.8, 1.2)

experiment = Experiment(
    name="linf_output_perturbation",
    title="Noise on a sparse minimiser counts by its largest coordinate",
    description=(
        "Linear losses on the unit ball, whose records have four numbers: blocks of identical "
        "records, of swept size, and one record n times over. The noisy minimiser is replaced by a "
        "member of the ball that is nearest in the largest coordinate, and pays (s ln d)^(1/4) "
        "where the Euclidean projection pays d^(1/4). With the theory's regulariser the exponent "
        "could be the plan's; the best of a grid that knows no theory is oracle-tuned at every "
        "setting. Delta follows epsilon so that epsilon over the Gaussian parameter mu stays 5."
    ),
    algorithms=(
        Method("linf", "linf_output_perturbation"),
        Method("linf_best", "linf_output_perturbation", search={"regularisation": GRID}),
        Method("euclidean", "linf_output_perturbation", {"projection": "l2"}),
        Method(
            "euclidean_best",
            "linf_output_perturbation",
            {"projection": "l2"},
            search={"regularisation": GRID},
        ),
    ),
    families=("sparse_linear", "sparse_same_linear"),
    base=Setting(n=8192, dim=8192, sparsity=4, epsilon=1.0),
    axes=(
        Axis("n", (2048, 4096, 8192, 16_384, 32_768), quick=(2048, 8192, 32_768)),
        Axis("dim", (2048, 8192, 32_768, 131_072), quick=(2048, 8192, 32_768)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"quick": 40, "full": 400},
)
