"""DP-FTRL with every noise there is, on one population, beside the same without memory.

Few records, for which the optimal factorisation is a matter of a second.
"""

from privopt.factorisations import FACTORISATIONS
from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="dp_ftrl_noises",
    title="DP-FTRL with eight noises",
    description=(
        "One pass, a record a step, and all that differs is the noise. Each regularises as its own "
        "theorem says, nothing is tuned: less error in the running sums allows longer steps, "
        "and less risk. The population consists of 8192 records, all equally likely, so that its "
        "risk and its optimum are exact."
    ),
    algorithms={noise: ("dp_ftrl", {"noise": noise, "batch_size": 1}) for noise in FACTORISATIONS},
    families=("sphere_logistic_population",),
    base=Setting(n=256, dim=8, epsilon=8.0),
    axes=(Axis("epsilon", (2.0, 4.0, 8.0, 16.0, 32.0)),),
    relation="replace_one",
    epsilon_over_mu=5.0,
    checks=("bound",),
    replicates={"full": 200},
)
