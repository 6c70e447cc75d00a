"""Means of sparse records under Laplace noise, projected: the sparse form of the bound.

At d = 2^15 and s = 4 the risk is the body's below n = 90 and the raw noise's from n = 4 10^4 on.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="private_means_pure",
    title="Under pure differential privacy a mean of sparse records costs the number of entries",
    description=(
        "The projection mechanism with Laplace noise, for squared distances to blocks of identical "
        "records on random places, of swept size. The risk is half of the squared error. The "
        "exponent of n is -1 - 1/(1 + ln(2 d/(n epsilon))), or near it, and not -1: the logarithm "
        "of the bound is that of the lower bound."
    ),
    algorithms={"projection_mechanism": {}},
    families=("sparse_packing",),
    base=Setting(n=512, dim=2**15, sparsity=4, epsilon=1.0),
    axes=(
        Axis("n", (192, 384, 768, 1536)),
        Axis("dim", (2**14, 2**15, 2**16, 2**17)),
        Axis("sparsity", (1, 2, 4, 8)),
        Axis("epsilon", (0.375, 0.75, 1.5, 3.0)),
    ),
    relation="replace_one",
    delta=0.0,
    replicates={"full": 100},
)
