"""Approximate minima perturbation on rounded medians, at the theory's regulariser and the best one.

Sizes as for objective perturbation, of which it has more than twice the noise; r stays below .03.
Risks are flat in lambda from 0.7 r, below which plans are refused, to 4 r: the grid reaches beyond
both. The noise is of order sqrt(log 1/delta)/epsilon, and at a fixed ratio of epsilon to mu delta
moves with epsilon: the ratio is 6, so that the bound has the exponent within 0.02.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

experiment = Experiment(
    name="approximate_minima_perturbation",
    title="Approximate minima perturbation has the optimal exponents at more than twice the noise",
    description=(
        "The rounded medians of objective perturbation, under the noise of an older analysis and "
        "a coarser solver: at the theory's regulariser, and at the best of a grid that knows no "
        "theory, oracle-tuned at every setting. Delta follows epsilon so that epsilon over the "
        "Gaussian parameter mu stays 6."
    ),
    algorithms=(
        Method("approximate_minima_perturbation", "approximate_minima_perturbation"),
        Method(
            "approximate_minima_perturbation_best",
            "approximate_minima_perturbation",
            search={"regularisation": ladder(0.00025, 0.25)},
        ),
    ),
    families=("huber",),
    base=Setting(n=2**17, dim=16, epsilon=0.125),
    axes=(
        Axis("n", (2**13, 2**15, 2**17, 2**19)),
        Axis("dim", (16, 32, 64, 128)),
        Axis("epsilon", (1 / 128, 1 / 32, 1 / 8, 1 / 2)),
    ),
    relation="replace_one",
    epsilon_over_mu=6.0,
    replicates={"full": 600},
)
