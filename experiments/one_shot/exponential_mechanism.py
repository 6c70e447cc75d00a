"""Exponential mechanism on distance losses, for which the law of the risk is known.

Exact samples need at most three dimensions, too few for a slope in d, so the law is tested in each.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Grid, Setting

# Excess risks are Gamma(d, 1/k) truncated at R, a relative error of exp(-k R): n epsilon >= 80 d.
exponential_mechanism = Experiment(
    name="exponential_mechanism",
    title="Exponential mechanism on distances: excess risk against n and epsilon",
    description=(
        "The loss of every record is the distance to one point, so the density exp(-k F) has mean "
        "risk d/k, up to the edge of the ball. It equals the bound, so the verdict on the bound is "
        "undecided. This tests the sampler. Pure differential privacy, exact samples."
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

# The bound has equal terms for the sample and for the regulariser; only the first is attained.
# The radius has density r^2 exp(-k r - k m r^2/2); the last term is of order (d/(n mu))^2 < 1 %.
regularised_exponential_mechanism = replace(
    exponential_mechanism,
    name="regularised_exponential_mechanism",
    title="Regularised exponential mechanism on distances: excess risk against n and epsilon",
    description=(
        "The loss of every record is the distance to one point, which is the mode with any "
        "regulariser, so the risk is d/k, half of the bound. Gaussian differential privacy with "
        "epsilon over mu 5. Exact samples in three dimensions."
    ),
    algorithms={"exponential_mechanism": {"pure": False}},
    base=Setting(n=1600, dim=3, epsilon=2.5),
    axes=(Axis("n", (100, 400, 1600, 6400, 25600)), Axis("epsilon", (0.15625, 0.625, 2.5, 10.0))),
    grids=(),
    delta=None,
    epsilon_over_mu=5.0,
    checks=("bound", "slope"),
    replicates={"full": 2000},
)
