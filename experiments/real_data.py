"""Both algorithms on real data: do the bounds hold where nobody chose the instance?"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="real_data",
    title="On real data the bounds hold with room to spare",
    description=(
        "Logistic regression on features scaled by public constants to norm at most 1, over the "
        "ball of radius 10. Real problems are far from the worst case: slopes are not compared "
        "here, the bounds are. Steps of DP-GD are fixed at 300 to bound its cost; more would "
        "lower its bound and its risk."
    ),
    algorithms={"dp_gd": {"steps": 300}, "output_perturbation": {}},
    families=("breast_cancer_logistic", "digits_logistic"),
    if_present=("a9a_logistic",),
    base=Setting(epsilon=1.0),
    axes=(
        Axis("n", (250, 500, 1000, 2000, 8000, 32000), quick=(250, 500, 1500, 6000)),
        Axis("epsilon", (0.25, 0.5, 1.0, 2.0, 4.0), quick=(0.5, 1.0, 2.0, 4.0)),
    ),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"quick": 32, "full": 200},
)
