"""One-shot methods side by side on real data: one solve each, the same budget."""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="one_shot",
    title="One solve, one release: noise inside the objective beats noise on its minimiser",
    description=(
        "Logistic regression over the ball of radius 10, every method at the same budget with its "
        "theory's numbers, nothing tuned on the data. Output perturbation pays the square root of "
        "what objective perturbation pays; approximate minima perturbation has the older analysis "
        "and a coarse solver's noise. All that can be gained lies between the zero predictor and "
        "the non-private optimum."
    ),
    algorithms={
        "output_perturbation": {},
        "objective_perturbation": {},
        "approximate_minima_perturbation": {},
    },
    families=("breast_cancer_logistic", "digits_logistic"),
    if_present=("a9a_logistic",),
    base=Setting(epsilon=1.0),
    axes=(
        Axis("n", (250, 500, 1000, 2000, 8000, 32000), quick=(250, 500, 1500, 6000)),
        Axis("epsilon", (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), quick=(0.5, 1.0, 2.0, 4.0)),
    ),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"quick": 32, "full": 200},
)
