"""Output perturbation on losses for which the risk is a known function of the noise z.

The noise stays in the ball: E|z| is below 0.5 if the risk is |z|, and below 0.13 if it is |z|^2.
Gaussian noise has E|z| within 0.8 % of sigma sqrt(d) from d = 32. Under pure privacy E|z| = d beta,
and E|z|^2 = d (d + 1) beta^2 is within 3 % of d^2 beta^2 from d = 32.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Setting

# The regulariser adds at most lambda R^2/4 = 0.0005, a fiftieth of the smallest E|z|, 0.025.
fixed_output_perturbation = Experiment(
    name="fixed_output_perturbation",
    title="Output perturbation at a fixed regulariser: excess risk against n, d and epsilon",
    description=(
        "The loss of every record is the distance to one point. The kink keeps the minimiser "
        "there for any regulariser, so the risk is the norm of the noise, whose law is known. "
        "This tests calibration, solver and noise. Epsilon over the Gaussian parameter mu is 5."
    ),
    algorithms={"output_perturbation": {"noise": "gaussian", "regularisation": 0.002}},
    families=("distance",),
    base=Setting(n=200_000, dim=64, epsilon=2.0),
    axes=(
        Axis("n", (50_000, 100_000, 200_000, 400_000, 800_000)),
        Axis("dim", (16, 32, 64, 128)),
        Axis("epsilon", (0.5, 1.0, 2.0, 4.0, 8.0)),
    ),
    relation="replace_one",
    epsilon_over_mu=5.0,
    checks=("bound", "slope", "law"),
    replicates={"full": 400},
)

smooth_output_perturbation = replace(
    fixed_output_perturbation,
    name="smooth_output_perturbation",
    title="Output perturbation of smooth losses: excess risk against n, d and epsilon",
    description=(
        "The loss of every record is half the squared distance to one point. By public parameters "
        "(L = m D over the ball of diameter D) the minimisers are stationary, so the risk is "
        "(H/2) E|z|^2, which equals the bound. The verdict on the bound is therefore undecided, at "
        "a ratio of one. Epsilon over the Gaussian parameter mu is 5."
    ),
    algorithms={"output_perturbation": {"noise": "gaussian", "stationary": True}},
    families=("squared_distance",),
    base=Setting(n=2000, dim=32, epsilon=2.0),
    axes=(Axis("n", (500, 1000, 2000, 4000, 8000)), *fixed_output_perturbation.axes[1:]),
    replicates={"full": 1200},
)

pure_smooth_output_perturbation = replace(
    smooth_output_perturbation,
    name="pure_smooth_output_perturbation",
    title="Pure output perturbation of smooth losses: excess risk against n, d and epsilon",
    description=(
        "The loss of every record is half the squared distance to one point, with stationary "
        "minimisers. The risk for noise of density exp(-|z|/beta) is (H/2) E|z|^2, which equals "
        "the bound, so the verdict on the bound is undecided at a ratio of one."
    ),
    algorithms={"output_perturbation": {"stationary": True}},
    base=Setting(n=16000, dim=64, epsilon=1.0),
    axes=(
        Axis("n", (4000, 8000, 16000, 32000, 64000)),
        Axis("dim", (32, 64, 128, 256)),
        Axis("epsilon", (0.25, 0.5, 1.0, 2.0, 4.0)),
    ),
    delta=0.0,
    epsilon_over_mu=None,
)

# On the unit ball L = 1 + m, and the risk is E|z| + (m/2) E|z|^2.
strongly_convex_output_perturbation = replace(
    fixed_output_perturbation,
    name="strongly_convex_output_perturbation",
    title="Output perturbation of strongly convex losses: excess risk against n, d and epsilon",
    description=(
        "The loss of every record is the distance to one point plus (m/2)|w|^2, with m = 0.1 or 1. "
        "The regulariser is part of the problem. The kink keeps the minimiser at the point, so the "
        "law of the risk is known. Epsilon over the Gaussian parameter mu is 5."
    ),
    algorithms={"output_perturbation": {"noise": "gaussian"}},
    families=("regularised_distance",),
    base=Setting(n=4000, dim=64, epsilon=2.0),
    axes=(
        Axis("n", (1000, 2000, 4000, 8000, 16000)),
        Axis("dim", (32, 64, 128, 256)),
        Axis("epsilon", (0.5, 1.0, 2.0, 4.0, 8.0)),
    ),
)

pure_strongly_convex_output_perturbation = replace(
    strongly_convex_output_perturbation,
    name="pure_strongly_convex_output_perturbation",
    title="Pure output perturbation of strongly convex losses: risk against n, d and epsilon",
    description=(
        "The loss of every record is the distance to one point plus (m/2)|w|^2, with m = 0.1 or 1. "
        "The kink keeps the minimiser at the point; the noise has density exp(-|z|/beta)."
    ),
    algorithms={"output_perturbation": {}},
    base=Setting(n=4000, dim=32, epsilon=2.0),
    axes=(strongly_convex_output_perturbation.axes[0], *fixed_output_perturbation.axes[1:]),
    delta=0.0,
    epsilon_over_mu=None,
)
