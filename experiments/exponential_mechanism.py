"""The exponential mechanism under pure differential privacy, on the losses that attain its bound.

Excess risks are Gamma(d, 1/k) cut at R, which costs a relative exp(-k R): n epsilon is 80 d at
least. Exact draws end at three dimensions, too few values for a slope: the law is tested in each.
"""

from privopt.lab import Axis, Experiment, Grid, Setting

experiment = Experiment(
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
    axes=(
        Axis("n", (250, 1000, 4000, 16000)),
        Axis("epsilon", (0.0625, 0.25, 1.0, 4.0)),
    ),
    grids=(Grid(Axis("n", (500, 4000)), Axis("dim", (1, 2, 3), quick=(3,))),),
    relation="replace_one",
    delta=0.0,
    checks=("bound", "slope", "law"),
    replicates={"quick": 1000, "full": 3000},
)
