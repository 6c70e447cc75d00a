"""Noise in every gradient, on the minimiser, and inside the objective: real data, one budget."""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Setting

real_data = Experiment(
    name="real_data",
    title="On real data the bounds hold with room to spare",
    description=(
        "Logistic regression on features scaled by public constants to norm at most 1, over the "
        "ball of radius 10, every method at the same budget with its theory's numbers, nothing "
        "tuned on the data. Real problems are far from the worst case: slopes are not compared "
        "here, the bounds are. Output perturbation pays the square root of what objective "
        "perturbation pays. Steps of DP-GD are fixed at 300 to bound its cost; more would lower "
        "its bound and its risk. All that can be gained lies between the zero predictor and the "
        "non-private optimum."
    ),
    algorithms={"dp_gd": {"steps": 300}, "output_perturbation": {}, "objective_perturbation": {}},
    families=("breast_cancer_logistic", "digits_logistic"),
    base=Setting(epsilon=1.0),
    axes=(
        Axis("n", (250, 500, 1000, 1500), quick=(500, 1500)),
        Axis("epsilon", (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), quick=(1.0, 4.0)),
    ),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"quick": 32, "full": 200},
)

census_data = replace(
    real_data,
    name="census_data",
    title="On a census the bounds hold, and thousands of records are enough to learn from",
    description=(
        "Logistic regression on the 32,561 census records of a9a, scaled by public constants to "
        "norm at most 1, over the ball of radius 10, every method at the same budget with its "
        "theory's numbers, nothing tuned on the data. Bounds are checked, slopes are not: real "
        "problems are far from the worst case. Steps of DP-GD are fixed at 300 to bound its cost."
    ),
    families=(),
    if_present=("a9a_logistic",),
    axes=(Axis("n", (500, 2000, 8000)), Axis("epsilon", (1.0, 4.0))),
    replicates={"full": 16},
)
