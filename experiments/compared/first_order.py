"""First-order methods on real data, at one budget and equal numbers of steps."""

from privopt.lab import Axis, Experiment, Setting

STEPS = {"steps": 500}

experiment = Experiment(
    name="first_order",
    title="First-order methods on logistic regression: excess risk against epsilon",
    description=(
        "Logistic regression on features scaled by public constants to norm at most 1, over the "
        "ball of radius 10. Each method takes 500 steps, with batches and step sizes from the "
        "problem class; nothing is tuned. DP-GD reads all records at every step, DP-SVRG at its "
        "anchors, and the others only batches. NoisyAdam has no known bound."
    ),
    algorithms={"dp_gd": STEPS, "dp_sgd": STEPS, "dp_svrg": STEPS, "noisy_adam": STEPS},
    families=("breast_cancer_logistic", "digits_logistic"),
    base=Setting(epsilon=1.0),
    axes=(Axis("epsilon", (0.25, 0.5, 1.0, 2.0, 4.0), quick=(0.5, 1.0, 2.0, 4.0)),),
    relation="add_or_remove_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"quick": 32, "full": 64},
)
