"""One-shot methods side by side in three dimensions, where the exponential mechanism is exact."""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="one_shot_sphere",
    title="In three dimensions all one-shot methods learn, and the order of their costs is seen",
    description=(
        "Logistic regression on synthetic records with a planted direction, over the ball of "
        "radius 10: every one-shot method at the same budget with its theory's numbers, nothing "
        "tuned on the data. The exponential mechanism draws its parameter exactly."
    ),
    algorithms={
        "output_perturbation": {},
        "objective_perturbation": {},
        "approximate_minima_perturbation": {},
        "exponential_mechanism": {},
    },
    families=("sphere_logistic",),
    base=Setting(n=2000, dim=3, epsilon=1.0),
    axes=(Axis("n", (250, 1000, 4000)), Axis("epsilon", (0.25, 1.0, 4.0))),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"full": 100},
)
