"""Excess risk of DP-GD and output perturbation for r = sqrt(d)/(n mu) up to 1000.

Only the budget changes. With much noise the theory chooses no steps and infinite regularisers,
which give the risk L R without any noise. So both methods also run with fixed hyperparameters. The
experiment fails for these without noise (``with_noise(0.0)`` in place of the plan).
"""

import math
from functools import cache

import privopt
from privopt import lab, theory
from privopt.lab import Analysis, Claim, Listing, at_most, below, close, plotting
from privopt.problems import FAMILIES

N, DIM, RELATION = 256, 64, privopt.Relation.REPLACE_ONE
RATIOS = tuple(10.0 ** (k / 2.0) for k in range(-4, 7))  # r
OVER_MU = 5.0  # epsilon over mu, which determines delta
RUNS, ERRORS = 400, 4.0  # half width of an interval, in standard errors
FAMILY = {"dp_gd": "linear", "output_perturbation": "two_kinks"}
NOISE = {"dp_gd": {}, "output_perturbation": {"noise": "gaussian"}}
FIXED = {"dp_gd": {"steps": 64, "step_size": 0.25}, "output_perturbation": {"regularisation": 0.1}}
KINDS = ("theory", "fixed", "silent")  # hyperparameters; the last is without noise
PLATEAU = 100.0  # smallest r of the plateau


def mu(ratio):
    """Return the Gaussian parameter of a value of r."""
    return math.sqrt(DIM) / (N * ratio)


@cache
def measured(method, kind, ratio):
    """Return the mean risk of the worst strength, its interval, and the bound."""
    epsilon, family = OVER_MU * mu(ratio), FAMILIES[FAMILY[method]]
    delta = privopt.privacy.gaussian_delta(epsilon, mu=mu(ratio)).upper
    budget = privopt.Budget(epsilon=epsilon, delta=delta, relation=RELATION)
    choices = NOISE[method] | ({} if kind == "theory" else FIXED[method])
    results = []
    for strength in family.strengths:
        problem = family.build(n=N, dim=DIM, noise_ratio=ratio, strength=strength)
        plan = privopt.ALGORITHMS[method].plan(problem.problem_class, budget, **choices)
        run = plan.with_noise(0.0) if kind == "silent" else plan
        key = lab.stream(0, method=method, ratio=f"{ratio:.3g}", strength=strength)
        released = privopt.run_many([run], problem, lab.replicate_keys(key, RUNS)).released[0]
        risks = problem.excess_risk(released)
        error = ERRORS * float(risks.std(ddof=1)) / math.sqrt(RUNS)
        results.append((float(risks.mean()), error))
    mean, error = max(results)
    return mean, privopt.Interval(max(0.0, mean - error), mean + error), plan.rate.upper


def lower_bound(ratio):
    """Return the minimax lower bound of the problem class at this Gaussian parameter."""
    problem_class = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=1.0)
    return theory.lower_bound(problem_class, theory.GaussianAdvantage(mu(ratio), RELATION)).value


def ratios(profile):
    """Yield a row for every r, with columns for every method and kind."""
    for ratio in RATIOS:
        lower = lower_bound(ratio)
        row = {"label": f"r = {ratio:.3g}", "ratio": ratio, "centre": 1.0, "lower": lower}
        for method in FIXED:
            for kind in KINDS:
                mean, risk, bound = measured(method, kind, ratio)
                name = f"{method}_{kind}"
                row |= {name: mean, f"{name}_risk": risk, f"{name}_bound": bound}
        yield row


def bounds(profile):
    """Yield a row for every method, kind with noise, and r."""
    for method in FIXED:
        for kind in KINDS[:2]:
            for ratio in RATIOS:
                _, risk, bound = measured(method, kind, ratio)
                row = {"label": f"{method}, {kind}, r = {ratio:.3g}", "ratio": ratio, "risk": risk}
                yield row | {"upper": bound, "lower": lower_bound(ratio), "centre": 1.0}


def silent(profile):
    """Yield the risk on the plateau with fixed hyperparameters and without noise."""
    for method in FIXED:
        for ratio in (ratio for ratio in RATIOS if ratio >= PLATEAU):
            risk = measured(method, "silent", ratio)[1]
            yield {"label": f"{method}, r = {ratio:.3g}", "risk": risk, "half": 0.5}


def saturation_figure(frames):
    """Excess risk over L R against r = sqrt(d)/(n mu), mean of 400 runs of the worst strength.

    Left: DP-GD on linear losses; right: output perturbation on losses with two kinks. Bands are 4
    standard errors. The risk grows with r to that of the public centre, L R, with any
    hyperparameters. The tick at the right margin is the last value of the lower bound for linear
    losses, which does not apply to losses with two kinks.
    """
    frame = frames["ratios"]
    names = "DP-GD, linear losses", "output perturbation, losses with two kinks"
    figure, panels = plotting.panels("Excess risk against r = sqrt(d)/(n mu)", *names)
    for axes, method in zip(panels, FIXED, strict=True):
        axes.set(xlabel="r", ylabel="excess risk over L R", xscale="log", yscale="log")
        for name, label, color, ls, band in (
            ("centre", "public centre, L R", plotting.GREY, ":", None),
            (f"{method}_theory_bound", "upper bound, theory", plotting.ORANGE, "--", None),
            (f"{method}_silent", "fixed, no noise", plotting.PURPLE, ":", None),
            (f"{method}_fixed", "fixed hyperparameters", plotting.PURPLE, "-", "_risk"),
            (f"{method}_theory", "theory's hyperparameters", plotting.BLUE, "-", "_risk"),
        ):
            style = {"label": label, "color": color, "ls": ls, "band": band and name + band}
            plotting.curve(axes, frame, "ratio", name, **style)
    style = {"label": "lower bound", "color": plotting.GREEN, "ls": "--"}
    plotting.curve(panels[0], frame, "ratio", "lower", **style)
    tick = frame["lower"].iloc[-1], "lower bound, linear losses", plotting.GREEN
    plotting.margin_tick(panels[1], *tick)
    return figure


UPPER = at_most("risk", "upper")

experiment = Analysis(
    name="saturation",
    title="DP-GD and output perturbation: excess risk at small budgets, against sqrt(d)/(n mu)",
    description=(
        f"Excess empirical risk for n ε far below sqrt(d): n = {N}, d = {DIM}, replace-one, "
        "Gaussian DP with μ from 3.1 down to 0.00003 and ε = 5 μ. With the hyperparameters of the "
        "theory risks follow their powers of r, 1 and 1/2, up to r = 0.1. For larger r no bound "
        "exceeds 2 L R, the largest risk in the ball, and the risk is L R, that of the public "
        "centre, where the steps and regularisers of the theory end without any noise. With fixed "
        "hyperparameters (64 steps of 0.25; a regulariser of 0.1) the noise is the cause. The "
        "lower bound for all methods with this μ holds on linear losses."
    ),
    parts={
        "ratios": ratios,
        "bounds": bounds,
        "plateau": lambda profile: [row for row in bounds(profile) if row["ratio"] >= PLATEAU],
        "silent": silent,
    },
    claims=(
        Claim("risk within the bound of the theorem", "bounds", UPPER),
        Claim("lower bound below upper bound", "bounds", at_most("lower", "upper")),
        Claim("risk is L R from r = 100", "plateau", close("risk", "centre", 0.05)),
        Claim("lower bound is L R from r = 100", "plateau", close("lower", "centre", 0.05)),
        Claim("without noise the risk is below L R/2", "silent", below("risk", "half")),
    ),
    figures={"saturation": saturation_figure},
    listings=(
        Listing(
            "bounds",
            "Excess risk over L R",
            {"method": "{label}", "measured": "{risk:.3f}", "upper bound": "{upper:.3f}"}
            | {"lower bound": "{lower:.3f}"},
            {"measured": UPPER},
        ),
    ),
    profiles=("full",),
)
