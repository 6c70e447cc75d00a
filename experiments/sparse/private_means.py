"""Projection mechanism on means of sparse records, and without projection at large n.

The regime is sparse at d = 2^13 and s = 4 with Gaussian noise for n between 80 and 25,000, and at
d = 2^15 with Laplace noise for n between 90 and 40,000.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Method, Setting
from privopt.problems import FAMILIES

# Near the lower end risks decrease more slowly than the bound, so n starts at 384 and epsilon at
# 0.75. The exponents are local, those of ln(d sigma/R): along n and epsilon they differ by 0.07, so
# the ratio of mean to bound is compared with a constant.
private_means = Experiment(
    name="private_means",
    title="Projection mechanism with Gaussian noise on sparse means: excess risk",
    description=(
        "The projection mechanism, onto the vectors of bounded l1 and l2 norm, for squared "
        "distances to blocks of identical sparse records of swept size. The risk is half of the "
        "squared error, so its exponents are twice those of the error. Its order in d is a "
        "logarithm. Delta follows epsilon, so that the quotient of epsilon and the Gaussian "
        "parameter mu is constant, equal to its value at epsilon = 1 and delta = 1e-6."
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

# Below d = 32,768 the share of the bound increases along d. Strengths are in factors of 1.4: at
# fixed blocks the risk reaches that of the zero predictor, so that more noise in the control
# increases it less than a larger block does.
private_means_pure = replace(
    private_means,
    name="private_means_pure",
    title="Projection mechanism with Laplace noise on sparse means: excess risk",
    description=(
        "The projection mechanism with Laplace noise, for squared distances to blocks of identical "
        "records with random supports, of swept size. The risk is half of the squared error. Its "
        "exponent in n is about -1 - 1/(1 + ln(2 d/(n epsilon))) instead of -1, because the bound "
        "has the logarithm of the lower bound."
    ),
    algorithms={"projection_mechanism": {}},
    families=(replace(FAMILIES["sparse_packing"], strengths=(1.4, 2.0, 2.8, 4.0)),),
    base=Setting(n=512, dim=2**15, sparsity=4, epsilon=1.0),
    axes=(
        Axis("n", (192, 384, 768, 1536)),
        Axis("dim", (2**15, 2**16, 2**17, 2**18)),
        Axis("sparsity", (1, 2, 4, 8)),
        Axis("epsilon", (0.375, 0.75, 1.5, 3.0)),
    ),
    delta=0.0,
    epsilon_over_mu=None,
    replicates={"full": 100},
)

# Every cell is a factor of at least four above the n from which the projection has no effect:
# sqrt(2) d kappa/sqrt(s ln 2d) for Gaussian noise, 4 d/(epsilon H_d) for Laplace noise.
private_means_dense = replace(
    private_means,
    name="private_means_dense",
    title="Noisy means of sparse records without projection: excess risk against its exact law",
    description=(
        "A test of code. All records are 0; the law is the same for any records, because a "
        "projection would have no effect at these n. The bound is exact: half of d sigma^2 for "
        "Gaussian noise, d b^2 for Laplace noise. The scale of Laplace noise depends on the "
        "sparsity; that of Gaussian noise does not."
    ),
    algorithms=[
        Method(noise, "projection_mechanism", {"body": "none", "noise": noise})
        for noise in ("gaussian", "laplace")
    ],
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
