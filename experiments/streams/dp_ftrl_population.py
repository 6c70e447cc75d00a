"""What DP-FTRL says of the population after one pass, beside its bound and phased SGD.

No slopes are claimed. The bound follows the leader in every step, but the average that is released
cancels noise that remembers, and no family is known on which the bound is met. At the theorem's
regularisation half of it is paid at the start, on linear losses exactly so, whatever the noise.
"""

from privopt.lab import Axis, Experiment, Method, Setting

TREE = {"noise": "tree", "batch_size": 1}

experiment = Experiment(
    name="dp_ftrl_population",
    title="One pass of DP-FTRL: the risk of the population",
    description=(
        "Every run draws its own n records and sees each once, one a step. DP-FTRL with a tree and "
        "with five buffers at the regularisation of the theorem, with a tree at the best of a "
        "grid, and phased SGD, which needs no memory of its noise but smooth losses. The "
        "population consists of 8192 records, all equally likely, so that its risk and its optimum "
        "are exact."
    ),
    algorithms=(
        Method("tree", "dp_ftrl", TREE),
        Method("buffered", "dp_ftrl", {"noise": "buffered", "batch_size": 1}),
        Method(
            "tree_best",
            "dp_ftrl",
            TREE,
            search={"regularisation": (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)},
        ),
        Method("phased_sgd", "phased_sgd"),
    ),
    families=("sphere_logistic_population",),
    base=Setting(n=1000, dim=16, epsilon=5.0),
    axes=(Axis("n", (250, 500, 1000, 2000, 4000)), Axis("epsilon", (1.25, 2.5, 5.0, 10.0))),
    relation="replace_one",
    epsilon_over_mu=5.0,
    checks=("bound",),
    replicates={"full": 64},
)
