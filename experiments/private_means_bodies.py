"""Four bodies for the same noisy mean, and the estimate that reads no records: the whole range.

No exponents: from n = 2^7 to 2^19 every method passes through two or three regimes.
"""

from privopt.lab import Axis, Experiment, Method, Setting

experiment = Experiment(
    name="private_means_bodies",
    title="What a projection takes off a noisy mean of sparse records, from few records to many",
    description=(
        "Raw noise costs d/n^2 from the start. The Euclidean ball caps that, and the l1 ball makes "
        "it the logarithm of d over n, until so many records are there that noise alone is less. "
        "Both balls together are never worse than one. Zero is the estimate that reads nothing: on "
        "the smallest blocks no private method beats it by more than a constant, which is the "
        "lower bound. Laplace noise keeps a promise that Gaussian noise cannot. A bound that "
        "is attained, as that of raw noise is, reads `undecided`: its interval holds the bound."
    ),
    algorithms=(
        Method("both_balls", "projection_mechanism"),
        Method("l1_ball", "projection_mechanism", {"body": "l1"}),
        Method("l2_ball", "projection_mechanism", {"body": "l2"}),
        Method("raw", "projection_mechanism", {"body": "none"}),
        Method("published_noise", "projection_mechanism", {"mode": "paper"}),
        Method("laplace", "projection_mechanism", {"noise": "laplace"}),
        Method("zero", "gradient_descent", {"steps": 1, "step_size": 1e-12}),
    ),
    families=("sparse_copies",),
    base=Setting(n=2048, dim=2**13, sparsity=4, epsilon=1.0),
    axes=(Axis("n", tuple(2**k for k in range(7, 20, 3))),),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"quick": 5, "full": 100},
)
