"""l1 recovery beside the projection mechanism: 45 and 90 measurements, which d >= m ln^2 m allows.

The risk is near what the body allows, as it is wherever a matrix has few rows: m grows like n.
"""

from privopt.lab import Axis, Experiment, Method, Setting

experiment = Experiment(
    name="l1_recovery",
    title="Recovering a mean from few measurements costs more than projecting it",
    description=(
        "Squared distances to blocks of identical sparse records. The same budget pays for a noisy "
        "mean that is projected, or for noisy measurements of it from which the vector of least l1 "
        "norm is recovered and projected too. Both with the least noise, and with the published "
        "one. Zero is the estimate that reads nothing."
    ),
    algorithms=(
        Method("projection", "projection_mechanism", {"noise": "gaussian"}),
        Method("published_projection", "projection_mechanism", {"mode": "paper"}),
        Method("recovery", "l1_recovery"),
        Method("published_recovery", "l1_recovery", {"mode": "paper"}),
        Method("zero", "gradient_descent", {"steps": 1, "step_size": 1e-12}),
    ),
    families=("sparse_copies",),
    base=Setting(n=64, dim=2**12, sparsity=4, epsilon=1.0),
    axes=(Axis("n", (32, 64)),),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"full": 100},
)
