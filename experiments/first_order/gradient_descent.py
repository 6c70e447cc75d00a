"""Gradient descent without privacy: excess risk against the number of steps.

Choice of sizes: sqrt(T + 1) steps of R/(L sqrt(T + 1)) reach a minimiser on the sphere. The risk of
the average is L R/(2 sqrt T) (1 + 1/sqrt T); its last factor changes the slope by 0.014.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="gradient_descent",
    title="Gradient descent on the distance to a point: excess risk against steps",
    description=(
        "The distance to a point on the unit sphere, from the centre of the ball, with the step "
        "size of the theorem. The risk is half of the worst case. There is no noise."
    ),
    algorithms={"gradient_descent": {}},
    families=("far_distance",),
    base=Setting(n=16, dim=4, epsilon=1.0),
    axes=(Axis("steps", (400, 800, 1600, 3200, 6400)),),
    relation="replace_one",
    epsilon_over_mu=5.0,
    replicates={"full": 10},
)
