"""Means of many records of few coordinates: the noise is smaller than what a body could take off.

Every cell is a factor of four or more beyond the place where the projection stops to matter,
n = sqrt(2) d kappa / sqrt(s ln 2d) for Gaussian noise and n = 4 d/(epsilon H_d) for Laplace noise.
"""

from privopt.lab import Axis, Experiment, Method, Setting

experiment = Experiment(
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
    relation="replace_one",
    epsilon_over_mu=4.2247,
    checks=("slope", "law"),
    replicates={"full": 1000},
)
