"""One-shot methods in three dimensions, in which the exponential mechanism is sampled exactly."""

from privopt.lab import Axis, Experiment, Setting

METHODS = (
    "output_perturbation", "objective_perturbation", "approximate_minima_perturbation",
    "exponential_mechanism",
)  # fmt: skip
experiment = Experiment(
    name="one_shot_sphere",
    title="One-shot methods on logistic regression in 3 dimensions: excess risk against n and ε",
    description=(
        "Synthetic records with a planted direction, over the ball of radius 10. All methods have "
        "the same budget and the hyperparameters of their theorems."
    ),
    algorithms={method: {} for method in METHODS},
    families=("sphere_logistic",),
    base=Setting(n=2000, dim=3, epsilon=1.0),
    axes=(Axis("n", (250, 1000, 4000)), Axis("epsilon", (0.25, 1.0, 4.0))),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"full": 100},
)
