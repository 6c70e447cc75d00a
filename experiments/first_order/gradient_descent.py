"""Gradient descent without noise or privacy: what a number of steps buys.

Where the sizes come from. Steps of R/(L sqrt(T + 1)) need sqrt(T + 1) of them to get to a
minimiser on the sphere, and the average pays half of that: L R/(2 sqrt T) (1 + 1/sqrt T). The
second factor bends the slope by 0.014 from T = 400 to 6400. Nothing is random.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="gradient_descent",
    title="Without privacy: the average of T subgradient steps is 1/sqrt(T) from the optimum",
    description=(
        "The distance to one point on the unit sphere, from the centre of the ball. The step size "
        "is the theorem's. Nothing is private and nothing is random: the loss is one on which the "
        "theorem's worst case is half attained."
    ),
    algorithms={"gradient_descent": {}},
    families=("far_distance",),
    base=Setting(n=16, dim=4, epsilon=1.0),
    axes=(Axis("steps", (400, 800, 1600, 3200, 6400)),),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 10},
)
