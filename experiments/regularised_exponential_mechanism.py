"""The regularised exponential mechanism on the distance losses, in three dimensions.

The draw and the regulariser are balanced, and only the first can be attained: half of the bound.
Its radius has density r^2 exp(-k r - k m r^2/2), and the last term is of order (d/(n mu))^2: below
one in a hundred.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="regularised_exponential_mechanism",
    title="Regularised, the exponential mechanism is Gaussian private at the optimal exponent",
    description=(
        "Every record's loss is the distance to the same point, which holds the mode in place: "
        "the regulariser costs nothing there and the draw d/k, half of the bound. Delta follows "
        "epsilon so that epsilon over the Gaussian parameter mu stays 5. Exact draws, three "
        "dimensions."
    ),
    algorithms={"exponential_mechanism": {}},
    families=("distance",),
    base=Setting(n=1600, dim=3, epsilon=2.5),
    axes=(
        Axis("n", (100, 400, 1600, 6400, 25600)),
        Axis("epsilon", (0.15625, 0.625, 2.5, 10.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 2000},
)
