"""One pass and many passes on a population: what is lost by seeing each record once.

The sizes are small ones, at which many passes are affordable in every one of the runs.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="population",
    title="One pass beside many: the risk of the population, at the same budget",
    description=(
        "Every run draws its own n records. Phased SGD sees each at most once and has a bound on "
        "the population's risk; DP-SGD sees them many times, and its bound, being one on the risk "
        "of the records, says nothing here. The population consists of 8192 records, all equally "
        "likely, so that its risk and its optimum are exact."
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
