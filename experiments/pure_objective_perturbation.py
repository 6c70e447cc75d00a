"""Pure objective perturbation on rounded medians, at the theory's regulariser and at the best one.

As under approximate privacy, with r = d/(n epsilon) up to .04: no surplus is cut, and each is 11
records or more. There is no axis of d: the losses' curvature costs H/(lambda n epsilon), of order
1/sqrt(d) here, and keeps the bound from its exponent for every d that runs in reasonable time.
"""

from privopt.lab import Axis, Experiment, Method, Setting, ladder

experiment = Experiment(
    name="pure_objective_perturbation",
    title="Pure objective perturbation has the optimal exponents, whatever the regulariser",
    description=(
        "Rounded medians, each pulled to one side by a small surplus of records that is swept "
        "around the noise. The tilt has density exp(-|t|/beta), and its norm is of order d: at the "
        "theory's regulariser, and at the best of a grid that knows no theory, oracle-tuned at "
        "every setting."
    ),
    algorithms=(
        Method("objective_perturbation", "objective_perturbation"),
        Method(
            "objective_perturbation_best",
            "objective_perturbation",
            search={"regularisation": ladder(0.0008, 0.2)},
        ),
    ),
    families=("huber",),
    base=Setting(n=20_736, dim=16, epsilon=0.18),
    axes=(
        Axis("n", (2_304, 6_912, 20_736, 62_208)),
        Axis("epsilon", (0.02, 0.06, 0.18, 0.54)),
    ),
    relation="replace_one",
    delta=0.0,
    replicates={"full": 800},
)
