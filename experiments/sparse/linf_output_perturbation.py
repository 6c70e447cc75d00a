"""Output perturbation of sparse linear losses at the theory's regulariser, and at the best one.

Blocks of identical records, of swept size: with 1/mu = 5 a block of strength c has 10 c records at
s = 4, so that n = 512 to 4096 records are 6 to 410 of them. The crossover to dense noise is at n =
sqrt(2) d/(mu sqrt(s ln 2d)), 35,000 for d = 2^15 and 9,400 for d = 2^13: all cells are well below.
The bound is that of a declared ball, whose logarithm is that of d over coordinates in use.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

experiment = Experiment(
    name="linf_output_perturbation",
    title="Noise on a sparse minimiser counts by its largest coordinate",
    description=(
        "Linear losses on the unit ball, whose records have four numbers: blocks of identical "
        "records, of swept size. The noisy minimiser is replaced by the member of the ball that is "
        "nearest in the largest coordinate. With the theory's regulariser exponents could be the "
        "plan's; the best of a grid that knows no theory is oracle-tuned at every setting. The "
        "bound has its logarithm, so that its exponents are local ones. Tuned, the exponent of s "
        "is the theorem's. Those of n, epsilon and d are not: the risk falls as (n epsilon)^-0.60 "
        "and grows as d^0.10, where the bound has -0.51 and 0.04. Both differ by one thing: where "
        "d grows with n epsilon the exponents add up to -0.49, beside -0.47 of the bound. So the "
        "risk is a root of 1/(n epsilon) times a function of d/(n epsilon), as a logarithm of d "
        "over the coordinates in use is, which grows faster than the bound's own. No risk "
        "exceeds the bound, which is 1.8 times the risk or more. Delta follows epsilon so that "
        "epsilon over the Gaussian parameter mu stays 5."
    ),
    algorithms=Method("linf", "linf_output_perturbation", {"projection": "ball"}).twice(
        regularisation=ladder(0.04, 1.6)
    ),
    families=("sparse_linear",),
    base=Setting(n=1024, dim=32_768, sparsity=4, epsilon=1.0),
    axes=(
        Axis("n", (512, 1024, 2048, 4096)),
        Axis("dim", (2**13, 2**14, 2**15, 2**16)),
        Axis("sparsity", (1, 2, 4, 8)),
        Axis("epsilon", (0.5, 1.0, 2.0, 4.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 100},
)
