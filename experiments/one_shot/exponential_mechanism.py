"""The exponential mechanism on the distance losses, where what it draws has a closed law.

Exact draws end at three dimensions, too few values for a slope: the law is tested in each.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Grid, Setting

# Excess risks are Gamma(d, 1/k) cut at R, which costs a relative exp(-k R): n epsilon is 80 d at
# least.
exponential_mechanism = Experiment(
    name="exponential_mechanism",
    title="A test of code: the exponential mechanism attains d over k, constant included",
    description=(
        "Every record's loss is the distance to the same point: on a cone the density exp(-k F) "
        "has a mean excess of d/k, up to the edge of the ball. The bound is the truth, and its "
        "verdict has to stay open; the sampler is what is tested. Pure differential privacy, "
        "exact draws, one to three dimensions."
    ),
    algorithms={"exponential_mechanism": {}},
    families=("distance",),
    base=Setting(n=4000, dim=3, epsilon=1.0),
    axes=(Axis("n", (250, 1000, 4000, 16000)), Axis("epsilon", (0.0625, 0.25, 1.0, 4.0))),
    grids=(Grid(Axis("n", (500, 4000)), Axis("dim", (1, 2, 3), quick=(3,))),),
    relation="replace_one",
    delta=0.0,
    checks=("bound", "slope", "law"),
    replicates={"quick": 1000, "full": 3000},
)

# The draw and the regulariser are balanced, and only the first can be attained: half of the bound.
# Its radius has density r^2 exp(-k r - k m r^2/2), and the last term is of order (d/(n mu))^2:
# below one in a hundred.
regularised_exponential_mechanism = replace(
    exponential_mechanism,
    name="regularised_exponential_mechanism",
    title="Regularised, the exponential mechanism is Gaussian private at the optimal exponent",
    description=(
        "Every record's loss is the distance to the same point, which holds the mode in place: "
        "the regulariser costs nothing there and the draw d/k, half of the bound. Delta follows "
        "epsilon so that epsilon over the Gaussian parameter mu stays 5. Exact draws, three "
        "dimensions."
    ),
    base=Setting(n=1600, dim=3, epsilon=2.5),
    axes=(Axis("n", (100, 400, 1600, 6400, 25600)), Axis("epsilon", (0.15625, 0.625, 2.5, 10.0))),
    grids=(),
    delta=None,
    epsilon_over_mu=5.0,
    checks=("bound", "slope"),
    replicates={"full": 2000},
)
