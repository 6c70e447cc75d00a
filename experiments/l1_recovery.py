"""l1 recovery beside the projection mechanism: d so large that a matrix of 90 rows is compressed.

The setting of n = 64 and 128 has 90 and 181 measurements; at 181 the condition d >= m ln^2 m is
just met at d = 2^13.
"""

from privopt.lab import Axis, Experiment, Method, Setting

experiment = Experiment(
    name="l1_recovery",
    title="Recovering a mean from few measurements costs more than projecting it",
    description=(
        "Squared distances to blocks of identical sparse records. The same budget pays for a noisy "
        "mean that is projected, or for noisy measurements of it from which the vector of least l1 "
        "norm is recovered and projected too; by the exact law of the matrix, by its Renyi "
        "divergences, by a part of delta, and with the published noise."
    ),
    algorithms=(
        Method("projection", "projection_mechanism"),
        Method("published_projection", "projection_mechanism", {"mode": "paper"}),
        Method("recovery", "l1_recovery"),
        Method("renyi_recovery", "l1_recovery", {"calibration": "renyi"}),
        Method("split_recovery", "l1_recovery", {"calibration": "split"}),
        Method("published_recovery", "l1_recovery", {"mode": "paper"}),
        Method("zero", "gradient_descent", {"steps": 1, "step_size": 1e-12}),
    ),
    families=("sparse_copies",),
    base=Setting(n=64, dim=2**13, sparsity=4, epsilon=1.0),
    axes=(Axis("n", (64, 128)),),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"full": 100},
)
