"""Output perturbation of sparse linear losses at the theory's regulariser, and at the best one.

Blocks of identical records, of swept size: with 1/mu = 5 a block of strength c has 10 c records at
s = 4, so that n = 512 to 4096 records are 6 to 410 of them. The crossover to dense noise is at n =
sqrt(2) d/(mu sqrt(s ln 2d)), 35,000 for d = 2^15: all sizes are a factor of 8 below it.
"""

from privopt.lab import Axis, Experiment, Method, Setting

GRID = (0.1, 0.14, 0.2, 0.28, 0.4, 0.56)

experiment = Experiment(
    name="linf_output_perturbation",
    title="Noise on a sparse minimiser counts by its largest coordinate",
    description=(
        "Linear losses on the unit ball, whose records have four numbers: blocks of identical "
        "records, of swept size. The noisy minimiser is replaced by the member of the ball that is "
        "nearest in the largest coordinate. With the theory's regulariser the exponent could be "
        "the plan's; the best of a grid that knows no theory is oracle-tuned at every setting. "
        "There the logarithm is that of d over the number of coordinates in use, which grows with "
        "n: slopes are steeper than one half by 1/(4 ln(d/(K s))), for K blocks. Delta follows "
        "epsilon so that epsilon over the Gaussian parameter mu stays 5."
    ),
    algorithms=(
        Method("linf", "linf_output_perturbation"),
        Method("linf_best", "linf_output_perturbation", search={"regularisation": GRID}),
    ),
    families=("sparse_linear",),
    base=Setting(n=1024, dim=32_768, sparsity=4, epsilon=1.0),
    axes=(Axis("n", (512, 1024, 2048, 4096)),),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 100},
)
