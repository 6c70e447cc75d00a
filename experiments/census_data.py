"""Noise in every gradient, on the minimiser, and inside the objective, on many real records."""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="census_data",
    title="On a census the bounds hold, and thousands of records are enough to learn from",
    description=(
        "Logistic regression on the 32,561 census records of a9a, scaled by public constants to "
        "norm at most 1, over the ball of radius 10, every method at the same budget with its "
        "theory's numbers, nothing tuned on the data. Bounds are checked, slopes are not: real "
        "problems are far from the worst case. Steps of DP-GD are fixed at 300 to bound its cost."
    ),
    algorithms={
        "dp_gd": {"steps": 300},
        "output_perturbation": {},
        "objective_perturbation": {},
    },
    families=(),
    if_present=("a9a_logistic",),
    base=Setting(epsilon=1.0),
    axes=(
        Axis("n", (500, 2000, 8000)),
        Axis("epsilon", (1.0, 4.0)),
    ),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"full": 16},
)
