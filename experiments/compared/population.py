"""Phased SGD, which reads each record at most once, and DP-SGD: population risk."""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="population",
    title="Phased SGD and DP-SGD on logistic regression: population risk against n",
    description=(
        "Every run samples its own n records from 8,192 equally likely ones, so the population "
        "risk and its minimiser are exact. Phased SGD reads each record at most once and has a "
        "bound on the population risk. DP-SGD reads records many times; its bound is on the "
        "empirical risk and does not apply here."
    ),
    algorithms={"phased_sgd": {}, "dp_sgd": {}},
    families=("sphere_logistic_population",),
    base=Setting(n=2000, dim=16, epsilon=1.0),
    axes=(Axis("n", (250, 500, 1000, 2000, 4000, 8000), quick=(250, 500, 1000, 2000)),),
    relation="replace_one",
    epsilon_over_mu=5.0,
    checks=("bound",),
    replicates={"quick": 50, "full": 100},
)
