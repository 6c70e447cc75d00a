"""DP-SGD where noise leads: on linear losses it is as good as its theorem says, and no better.

Where the sizes come from. Rate q = 0.05, T = 2000 steps and epsilon are the same everywhere, so the
noise multiplier z (about 16) is, and the noise of a gradient is sigma = z/(q n). The bound is
R G/sqrt(T) with G^2 = L^2 (1 + (1 - q)/(q n)) + d sigma^2, of order sqrt(d)/n where its last term
leads. A first sweep, at sqrt(d) sigma/L from 2 to 8, measured -0.91 and 0.46 and so refuted both
exponents: there L^2 still counts, the bound's own slopes are -0.92 and 0.46, and the start-up of
the run attains half of it. From sqrt(d) sigma/L = 5 on L^2 is below a twentieth of G^2.
"""

from privopt.lab import Axis, Experiment, Setting

experiment = Experiment(
    name="dp_sgd",
    title="DP-SGD on Poisson batches is as good as its theorem says, and no better",
    description=(
        "Linear losses whose data pull towards the minimiser with a mean just above the noise: "
        "of five strengths of that pull the worst is taken at every point. Sampling rate 0.05, "
        "2000 steps, one budget, hence one noise multiplier everywhere, large enough for noise to "
        "lead; step sizes are set by the theory."
    ),
    algorithms={"dp_sgd": {"steps": 2000, "rate": 0.05}},
    families=("linear",),
    base=Setting(n=560, dim=160, epsilon=0.5),
    axes=(
        Axis("n", (280, 400, 560, 800)),
        Axis("dim", (80, 160, 320, 640)),
    ),
    relation="zero_out",
    delta=1e-6,
    replicates={"quick": 100, "full": 1000},
)
