"""DP-FTRL on a population: all noises, and two of them compared with phased SGD.

No slopes are claimed, because no family is known for which the bound on the population risk is
tight: correlated noise partly cancels in the average iterate. With the regularisation of the
theorem half of the bound is the regularisation term, which linear losses attain for every noise.
"""

from dataclasses import replace

from privopt.factorisations import FACTORISATIONS
from privopt.lab import Axis, Experiment, Method, Setting

COMMON = (
    "One pass, one record per step. Every run samples its own n records from 8,192 equally likely "
    "ones, so the population risk and its minimiser are exact. "
)


def method(label, noise, **options):
    """Return DP-FTRL with one record per step."""
    choices = {"noise": noise, "batch_size": 1, "quantity": "population risk"}
    return Method(label, "dp_ftrl", choices, **options)


noises = Experiment(
    name="dp_ftrl_noises",
    title="DP-FTRL with eight noises on logistic regression: population risk against epsilon",
    description=COMMON
    + "The methods differ only in the noise and its regularisation, which is that of the theorem: "
    "a smaller error of the running sums allows larger steps, and gives a smaller risk. With 256 "
    "records the optimal factorisation takes about a second.",
    algorithms=tuple(method(noise, noise) for noise in FACTORISATIONS),
    families=("sphere_logistic_population",),
    base=Setting(n=256, dim=8, epsilon=8.0),
    axes=(Axis("epsilon", (2.0, 4.0, 8.0, 16.0, 32.0)),),
    relation="replace_one",
    epsilon_over_mu=5.0,
    checks=("bound",),
    replicates={"full": 200},
)

population = replace(
    noises,
    name="dp_ftrl_population",
    title="DP-FTRL and phased SGD on logistic regression: population risk against n and epsilon",
    description=COMMON
    + "DP-FTRL has the noise of a tree or of five buffers with the regularisation of the theorem, "
    "or the noise of a tree with the best regularisation of a grid. Phased SGD has independent "
    "noise and requires smooth losses.",
    algorithms=(
        method("tree", "tree"),
        method("buffered", "buffered"),
        method("tree_best", "tree", search={"regularisation": tuple(2.0**k for k in range(1, 9))}),
        Method("phased_sgd", "phased_sgd"),
    ),
    base=Setting(n=1000, dim=16, epsilon=5.0),
    axes=(Axis("n", (250, 500, 1000, 2000, 4000)), Axis("epsilon", (1.25, 2.5, 5.0, 10.0))),
    replicates={"full": 64},
)
