"""Output perturbation where its law is closed: nothing but the noise, and a test of code.

The noise stays within the ball: where its norm costs the risk, E|z| is below 0.5, and where its
square does, below 0.13. Under approximate privacy E|z| is near sigma sqrt(d) for d from 16, within
0.8 % from 32; under pure privacy it is d beta exactly, and E|z|^2 = d (d + 1) beta^2 is within 3 %
of d^2 beta^2 for d from 32.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Setting

# The regulariser may cost lambda R^2/4 = .0005 and E|z| goes from .4, where the ball does not reach
# it, to .025: fifty times that. Both numbers set lambda.
fixed_output_perturbation = Experiment(
    name="fixed_output_perturbation",
    title="A test of code: with a fixed regulariser, output perturbation costs the noise's norm",
    description=(
        "Every record's loss is the distance to the same point. The kink holds the minimiser in "
        "place whatever the regulariser, so the risk is the norm of the noise, whose law is "
        "closed: calibration, solver and noise are what is tested here, and the exponents are "
        "those of the noise. Delta follows epsilon so that epsilon over the Gaussian parameter mu "
        "stays 5."
    ),
    algorithms={"output_perturbation": {"regularisation": 0.002}},
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
    title="A test of code: where the risk is flat at its minimiser, noise costs its square",
    description=(
        "Every record's loss is half the squared distance to the same point. Its class, L = m D "
        "over the ball of diameter D, has stationary minimisers by public numbers alone, so the "
        "noise costs (H/2) E|z|^2. That is an equality here: no interval can lie below the bound, "
        "and its verdict must stay undecided at a ratio of one. Delta follows epsilon so that "
        "epsilon over the Gaussian parameter mu stays 5."
    ),
    algorithms={"output_perturbation": {"stationary": True}},
    families=("squared_distance",),
    base=Setting(n=2000, dim=32, epsilon=2.0),
    axes=(Axis("n", (500, 1000, 2000, 4000, 8000)), *fixed_output_perturbation.axes[1:]),
    replicates={"full": 1200},
)

pure_smooth_output_perturbation = replace(
    smooth_output_perturbation,
    name="pure_smooth_output_perturbation",
    title="A test of code: pure differential privacy squares the dimension of a smooth minimiser",
    description=(
        "Every record's loss is half the squared distance to the same point, whose minimisers are "
        "stationary for all data by public numbers alone. The noise, of density exp(-|z|/beta), "
        "costs (H/2) E|z|^2 exactly, so the verdict on the bound must stay undecided at a ratio "
        "of one."
    ),
    base=Setting(n=16000, dim=64, epsilon=1.0),
    axes=(
        Axis("n", (4000, 8000, 16000, 32000, 64000)),
        Axis("dim", (32, 64, 128, 256)),
        Axis("epsilon", (0.25, 0.5, 1.0, 2.0, 4.0)),
    ),
    delta=0.0,
    epsilon_over_mu=None,
)

# On the unit ball L = 1 + m, and the noise costs E|z| + (m/2) E|z|^2.
strongly_convex_output_perturbation = replace(
    fixed_output_perturbation,
    name="strongly_convex_output_perturbation",
    title="A test of code: strong convexity buys output perturbation the exponent one, not two",
    description=(
        "Every record's loss is the distance to the same point plus (m/2)|w|^2, m one of 0.1 and "
        "1: a regulariser that is part of the problem, so nothing is balanced and nothing is "
        "biased. The kink holds the minimiser in place, the noise costs its full norm, and its "
        "law is closed. Delta follows epsilon so that epsilon over the Gaussian parameter mu "
        "stays 5."
    ),
    algorithms={"output_perturbation": {}},
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
    title="A test of code: pure output perturbation of strongly convex losses, linear in d",
    description=(
        "Every record's loss is the distance to the same point plus (m/2)|w|^2, m one of 0.1 and "
        "1. The kink holds the minimiser in place, and the noise, of density exp(-|z|/beta), "
        "costs its full norm, whose law is closed."
    ),
    base=Setting(n=4000, dim=32, epsilon=2.0),
    axes=(
        Axis("n", (1000, 2000, 4000, 8000, 16000)),
        Axis("dim", (16, 32, 64, 128)),
        Axis("epsilon", (0.5, 1.0, 2.0, 4.0, 8.0)),
    ),
    delta=0.0,
    epsilon_over_mu=None,
)
