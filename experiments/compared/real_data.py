"""Methods on real data: excess risk at one privacy budget.

The slopes are not compared with theorems, because real problems are far from the worst case.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Method, Setting

REAL = ("breast_cancer_logistic", "digits_logistic")
STEPS = {"steps": 500}
BATCHES = {"steps": 2000, "batch_size": 512}
COMMON = (
    "Logistic regression on features scaled by public constants to norm at most 1, over the ball "
    "of radius 10. All methods have the same budget, and nothing is tuned on the data. "
)

real_data = Experiment(
    name="real_data",
    title="DP-GD, output and objective perturbation on real data: excess risk against n and ε",
    description=COMMON
    + "Hyperparameters are those of the theorems; DP-GD takes 300 steps to limit its cost, and "
    "more steps would reduce its bound and its risk. Only the bounds are checked. The excess risk "
    "of output perturbation is about the square root of that of objective perturbation.",
    algorithms={"dp_gd": {"steps": 300}, "output_perturbation": {}, "objective_perturbation": {}},
    families=REAL,
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
    title="DP-GD, output and objective perturbation on census data: excess risk against n and ε",
    description=COMMON
    + "The data are the 32,561 census records of a9a. DP-GD takes 300 steps to limit its cost.",
    families=(),
    if_present=("a9a_logistic",),
    axes=(Axis("n", (500, 2000, 8000)), Axis("epsilon", (1.0, 4.0))),
    replicates={"full": 16},
)

first_order = Experiment(
    name="first_order",
    title="First-order methods on logistic regression: excess risk against epsilon",
    description=COMMON
    + "Each method takes 500 steps, with default batches and step sizes. DP-GD reads all records "
    "in every step, DP-SVRG at its anchors, and the others read batches. NoisyAdam has no known "
    "bound.",
    algorithms={"dp_gd": STEPS, "dp_sgd": STEPS, "dp_svrg": STEPS, "noisy_adam": STEPS},
    families=REAL,
    base=Setting(epsilon=1.0),
    axes=(Axis("epsilon", (0.25, 0.5, 1.0, 2.0, 4.0), quick=(0.5, 1.0, 2.0, 4.0)),),
    relation="add_or_remove_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"quick": 32, "full": 64},
)

smooth_descent = Experiment(
    name="smooth_descent",
    title="DP-SGD with the step sizes of two theorems on real data: excess risk against epsilon",
    description=COMMON
    + "DP-SGD has two variants: the default, with the step sizes of the theorem for smooth losses "
    "and the last iterate, and a variant with the much smaller step sizes of the theorem for all "
    "Lipschitz losses and the average iterate. DP-SGD and NoisyAdam take 2,000 steps on batches "
    "of 512 records.",
    algorithms=(
        Method("dp_sgd", "dp_sgd", BATCHES),
        Method("dp_sgd_any_loss", "dp_sgd", {**BATCHES, "output": "average"}),
        Method("noisy_adam", "noisy_adam", BATCHES),
        Method("objective_perturbation", "objective_perturbation"),
    ),
    families=REAL,
    if_present=("a9a_logistic",),
    base=Setting(epsilon=1.0),
    axes=(Axis("epsilon", (0.25, 0.5, 1.0, 2.0, 4.0), quick=(0.5, 1.0, 2.0)),),
    relation="add_or_remove_one",
    delta=1e-9,
    checks=("bound",),
    replicates={"quick": 8, "full": 24},
)
