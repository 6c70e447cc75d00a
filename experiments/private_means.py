"""Means of sparse records under Gaussian noise, projected: where the bound has its sparse form.

At d = 2^13 and s = 4 the risk is the body's below n = 80 and the raw noise's from n = 2.5 10^4 on.
Near the lower end risks fall more slowly than the bound, so n starts at 384 and epsilon at 0.75.
The exponents are local, those of ln(d sigma/R): along an axis they differ by less than .05.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="private_means",
    title="Gaussian noise on a mean of sparse records costs the logarithm of the dimension",
    description=(
        "The projection mechanism, onto the vectors of bounded l1 and l2 norm, for squared "
        "distances to blocks of identical sparse records of swept size. The risk is half of the "
        "squared error, so exponents are twice those of errors. Delta follows epsilon so that "
        "epsilon over the Gaussian parameter mu stays what it is at epsilon = 1, delta = 1e-6."
    ),
    algorithms={"projection_mechanism": {"noise": "gaussian"}},
    families=("sparse_copies",),
    base=Setting(n=512, dim=2**13, sparsity=4, epsilon=1.0),
    axes=(
        Axis("n", (384, 768, 1536, 3072)),
        Axis("dim", (2**12, 2**13, 2**14, 2**15)),
        Axis("sparsity", (1, 2, 4, 8)),
        Axis("epsilon", (0.75, 1.5, 3.0, 6.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=4.2247,
    replicates={"full": 200},
)
