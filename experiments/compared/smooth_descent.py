"""What the theorem of smooth losses is worth on real data, beside the theorem for any loss."""

from privopt.lab import Axis, Experiment, Method, Setting

BATCHES = {"steps": 2000, "batch_size": 512}
ANY_LOSS = {**BATCHES, "output": "average"}  # of which the theorem for any loss speaks

experiment = Experiment(
    name="smooth_descent",
    title="Where losses are smooth, longer steps leave less risk and a smaller bound",
    description=(
        "Logistic regression over the ball of radius 10, one budget for all. DP-SGD stands twice: "
        "with the numbers of the theorem for smooth losses and the last iterate, the default, and "
        "with those of the theorem for any Lipschitz loss and the average, whose steps are far "
        "shorter. DP-SGD and NoisyAdam take 2000 steps on batches of 512; objective perturbation "
        "solves once. Nothing is tuned on the data."
    ),
    algorithms=(
        Method("dp_sgd", "dp_sgd", BATCHES),
        Method("dp_sgd_any_loss", "dp_sgd", ANY_LOSS),
        Method("noisy_adam", "noisy_adam", BATCHES),
        Method("objective_perturbation", "objective_perturbation"),
    ),
    families=("breast_cancer_logistic", "digits_logistic"),
    if_present=("a9a_logistic",),
    base=Setting(epsilon=1.0),
    axes=(Axis("epsilon", (0.25, 0.5, 1.0, 2.0, 4.0), quick=(0.5, 1.0, 2.0)),),
    relation="add_or_remove_one",
    delta=1e-9,
    checks=("bound",),
    replicates={"quick": 8, "full": 24},
)
