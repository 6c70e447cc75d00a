"""The exponential mechanism under pure differential privacy, on the losses that attain its bound.

Excess risks are Gamma(d, 1/k) cut at R, which costs a relative exp(-k R): n epsilon is 40 d at
least. Sizes in d end at three, too few values for a slope.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="exponential_mechanism",
    title="The exponential mechanism attains d over k, constant included",
    description=(
        "Every record's loss is the distance to the same point: on a cone the density exp(-k F) "
        "has a mean excess of d/k: the bound is the truth, and its verdict has to stay open. "
        "Pure differential privacy, exact draws, three dimensions."
    ),
    algorithms={"exponential_mechanism": {}},
    families=("distance",),
    base=Setting(n=1000, dim=3, epsilon=1.0),
    axes=(
        Axis("n", (250, 500, 1000, 2000, 4000)),
        Axis("epsilon", (0.25, 0.5, 1.0, 2.0, 4.0)),
    ),
    relation="replace_one",
    delta=0.0,
    replicates={"quick": 2000, "full": 8000},
)
