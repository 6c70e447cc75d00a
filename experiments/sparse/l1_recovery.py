"""l1 recovery beside the projection mechanism: 90 measurements, which d >= m ln^2 m allows.

Of a mean that is sparse itself, as l1 recovery wants it: all records are one. Of the blocks of
records on which the projection mechanism's bound is tight neither method learns more than zero
does, since half the mass of their mean is below the noise. The bound of the recovery is the square
of the diameter: no theorem on it has constants.
"""

from privopt.lab import Axis, Experiment, Method, Setting

FEW = {"measurements": 90}

experiment = Experiment(
    name="l1_recovery",
    title="Recovering a sparse mean from few measurements costs more than projecting it",
    description=(
        "Squared distances to one sparse record, many times over. The same budget pays for a noisy "
        "mean that is projected, or for 90 noisy measurements of it from which the vector of least "
        "l1 norm is recovered and projected too. Both with the least noise, and with the published "
        "one. Both learn far more than the zero predictor here."
    ),
    algorithms=(
        Method("projection", "projection_mechanism", {"noise": "gaussian"}),
        Method("published_projection", "projection_mechanism", {"mode": "paper"}),
        Method("recovery", "l1_recovery", FEW),
        Method("published_recovery", "l1_recovery", {**FEW, "mode": "paper"}),
    ),
    families=("sparse_same_record",),
    base=Setting(n=256, dim=2**12, sparsity=4, epsilon=1.0),
    axes=(Axis("n", (128, 256, 512, 1024)),),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"full": 100},
)
