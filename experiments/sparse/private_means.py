"""Means of sparse records, projected, where the bound has its sparse form, and with dense noise.

At d = 2^13 and s = 4 the risk under Gaussian noise is the body's below n = 80 and the raw noise's
from n = 2.5 10^4 on; at d = 2^15 that under Laplace noise is the body's below n = 90 and the raw
noise's from n = 4 10^4 on.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Method, Setting

# Near the lower end risks fall more slowly than the bound, so n starts at 384 and epsilon at 0.75.
# The exponents are local, those of ln(d sigma/R): along an axis they differ by less than .05.
private_means = Experiment(
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

private_means_pure = replace(
    private_means,
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
    delta=0.0,
    epsilon_over_mu=None,
    replicates={"full": 100},
)

# Every cell is a factor of four or more beyond the place where the projection stops to matter, n =
# sqrt(2) d kappa / sqrt(s ln 2d) for Gaussian noise and n = 4 d/(epsilon H_d) for Laplace noise.
private_means_dense = replace(
    private_means,
    name="private_means_dense",
    title="A test of code: with enough records the mean costs the noise alone",
    description=(
        "Records are 0, and any others would do; no projection would move what is released. The "
        "bound is attained and is the law: half of d sigma^2 for Gaussian, d b^2 for Laplace "
        "noise, whose scale knows the sparsity and Gaussian noise's does not."
    ),
    algorithms=(
        Method("gaussian", "projection_mechanism", {"body": "none", "noise": "gaussian"}),
        Method("laplace", "projection_mechanism", {"body": "none", "noise": "laplace"}),
    ),
    families=("sparse_silence",),
    base=Setting(n=2**17, dim=256, sparsity=4, epsilon=1.0),
    axes=(
        Axis("n", (2**15, 2**16, 2**17, 2**18)),
        Axis("dim", (64, 128, 256, 512)),
        Axis("sparsity", (1, 2, 4, 8, 16)),
        Axis("epsilon", (0.25, 0.5, 1.0, 2.0)),
    ),
    checks=("slope", "law"),
    replicates={"full": 1000},
)
