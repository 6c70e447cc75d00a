"""Figures 2, 3 and A.1 of Bu, Dong, Long and Su (2020), with certified curves."""

from functools import partial
from math import exp, log1p, sqrt

import numpy as np
import pandas as pd
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

from privopt import privacy
from privopt.accounting import CLT, Moments
from privopt.lab import Analysis, Claim, Listing, at_most, below, close, plotting
from privopt.privacy import Fourier, Interval
from privopt.spec import Budget, Relation

RELATION = Relation.ADD_OR_REMOVE_ONE
RATE = 256 / 60000
DELTA = 1e-5
# Noise multiplier and epochs, the six rows of Table 1.
RUNS = ((1.3, 15), (1.1, 60), (0.7, 45), (0.6, 62), (0.55, 68), (0.5, 100))

epsilon = partial(privacy.epsilon, relation=RELATION)
delta = partial(privacy.delta, relation=RELATION)
trade_off = partial(privacy.trade_off, relation=RELATION)


def training(noise, epochs):
    """Return Gaussian releases on Poisson samples, with a rounded number of steps."""
    step = PoissonSampledDpEvent(RATE, GaussianDpEvent(noise))
    return SelfComposedDpEvent(step, round(epochs / RATE))


# Section A.1 of the paper: 234 steps with the mu of RUNS[1], which is a function of rate^2 T.
FEW = SelfComposedDpEvent(
    PoissonSampledDpEvent(RATE * sqrt(60 / RATE / 234), GaussianDpEvent(1.1)), 234
)


def figure_2_delta(profile):
    """Yield ``delta`` at every ``epsilon`` after 45 epochs."""
    event = training(0.7, 45)
    for x in np.linspace(0.0, 12.0, 25 if profile == "quick" else 97):
        yield {
            "label": f"epsilon {x:g}",
            "epsilon": x,
            "clt": delta(event, x, accountant=CLT()).value,
            "moments": delta(event, x, accountant=Moments()).upper,
            "certified": delta(event, x, accountant=Fourier()),
        }


def figure_2_epochs(profile):
    """Yield ``epsilon`` for every number of epochs, and noise multipliers of equal ``epsilon``.

    The common ``epsilon`` is that of the moments accountant at noise multiplier 0.7. By the CLT its
    noise multiplier is the root ``z`` of ``mu(epsilon, delta)^2 = rate^2 T (e^(1/z^2) - 1)``.
    """
    for epochs in (1, 2, 5, *range(10, 101, 10)) if profile == "quick" else range(1, 101):
        event = training(0.7, epochs)
        claimed = epsilon(event, DELTA, accountant=Moments()).upper
        budget = Budget(epsilon=claimed, delta=DELTA, relation=RELATION)
        excess = (privacy.gaussian_mu(claimed, DELTA) / RATE) ** 2 / event.count
        clt_noise = 1.0 / sqrt(log1p(excess))
        yield {
            "label": f"{epochs} epochs",
            "epochs": epochs,
            "clt": epsilon(event, DELTA, accountant=CLT()).value,
            "moments": claimed,
            "certified": epsilon(event, DELTA, accountant=Fourier()),
            "clt_noise": clt_noise,
            "moments_noise": 0.7,
            "certified_noise": privacy.calibrate(lambda z, n=epochs: training(z, n), budget),
            "clt_spent": epsilon(training(clt_noise, epochs), DELTA, accountant=Fourier()),
        }


def figure_3(profile):
    """Yield type I and type II errors of tests for one record, with columns for every run.

    The paper draws the moments accountant by the pair ``(epsilon, delta)`` that it reports
    (``one``); ``all`` uses every pair that it proves.
    """
    alphas = np.linspace(0.0, 1.0, 101)
    curves = {"alpha": alphas}
    for noise, epochs in RUNS:
        event = training(noise, epochs)
        curves[f"clt_{epochs}"] = trade_off(event, alphas, accountant=CLT()).values
        curves[f"all_{epochs}"] = trade_off(event, alphas, accountant=Moments())
        claimed = epsilon(event, DELTA, accountant=Moments()).upper
        ends = 1.0 - DELTA - exp(claimed) * alphas, exp(-claimed) * (1.0 - DELTA - alphas)
        curves[f"one_{epochs}"] = np.maximum(np.maximum(*ends), 0.0)
        curves[f"certified_{epochs}"] = trade_off(event, alphas, accountant=Fourier())
    return pd.DataFrame(curves).to_dict("records")


def figure_3_errors(profile):
    """Yield the smallest sum of both errors, which is ``1 - delta`` at ``epsilon = 0``."""
    alphas = np.linspace(0.0, 1.0, 1001)
    for noise, epochs in RUNS:
        event = training(noise, epochs)
        certified = delta(event, 0.0, accountant=Fourier(accuracy=1e-4))
        claimed = epsilon(event, DELTA, accountant=Moments()).upper
        yield {
            "label": f"noise {noise}, {epochs} epochs",
            "one": 2.0 * (1.0 - DELTA) / (1.0 + exp(claimed)),
            "all": float(np.min(alphas + trade_off(event, alphas, accountant=Moments()))),
            "clt": 1.0 - delta(event, 0.0, accountant=CLT()).value,
            "certified": Interval(1.0 - certified.upper, 1.0 - certified.lower),
        }


def figure_a1(profile):
    """Yield the trade-off curve of 234 steps and its limit."""
    alphas = np.linspace(0.0, 1.0, 101)
    clt = trade_off(FEW, alphas, accountant=CLT()).values
    certified = trade_off(FEW, alphas, accountant=Fourier())
    frame = pd.DataFrame({"alpha": alphas, "clt": clt, "certified": certified})
    return frame.to_dict("records")


def figure_a1_delta(profile):
    """Yield ``delta`` of 234 steps and of the limit at every ``epsilon``."""
    for x in np.linspace(0.0, 5.0, 26 if profile == "quick" else 101):
        yield {
            "epsilon": x,
            "clt": delta(FEW, x, accountant=CLT()).value,
            "certified": delta(FEW, x, accountant=Fourier()),
        }


def figure_a1_epsilon(profile):
    """Yield ``epsilon`` of 234 steps and of the limit."""
    yield {
        "label": "noise 1.1, 234 steps, δ = 0.00001",
        "clt": epsilon(FEW, DELTA, accountant=CLT()).value,
        "certified": epsilon(FEW, DELTA, accountant=Fourier(accuracy=1e-4)),
    }


STYLES = {
    "certified": {"label": "certified"},
    "clt": {"label": "CLT", "color": plotting.ORANGE, "ls": "--"},
    "moments": {"label": "moments accountant", "color": plotting.PURPLE, "ls": ":"},
    "all": {"label": "moments, all (ε, δ)", "color": plotting.PURPLE, "ls": ":"},
    "one": {"label": "moments, one (ε, δ)", "color": plotting.GREY, "ls": ":"},
}
PRIVACY = {"xlabel": "ε", "ylabel": "δ", "yscale": "log"}
ERRORS = {"xlabel": "type I error", "ylabel": "type II error"}


def draw(axes, frame, x, names, suffix="", **labels):
    """Draw the columns of several accountants."""
    axes.set(**labels)
    for name in names:
        plotting.curve(axes, frame, x, f"{name}{suffix}", **STYLES[name])


def figure_2(frames):
    """Privacy and noise of DP-SGD on MNIST (noise multiplier 0.7, rate 256/60,000).

    δ against ε, ε against epochs, and the noise multiplier that keeps the ε of the moments
    accountant. Certified values are between the CLT, which is too small, and that accountant.
    """
    names = ("45 epochs", "δ = 1e-5", "noise for the ε of moments")
    figure, (first, second, third) = plotting.panels("DP-SGD on MNIST: ε, δ and noise", *names)
    kinds, epochs = ("clt", "moments", "certified"), frames["figure_2_epochs"]
    draw(first, frames["figure_2_delta"], "epsilon", kinds, **PRIVACY)
    draw(second, epochs, "epochs", kinds, xlabel="epochs", ylabel="ε")
    draw(third, epochs, "epochs", kinds, "_noise", xlabel="epochs", ylabel="noise multiplier")
    return figure


def figure_3_plot(frames):
    """Type II error against type I error of the best test for one record, for six runs.

    The CLT agrees with the certified curve for noise of 0.7 or more. For less noise its errors are
    too small. The moments accountant is far below both, less so if all the pairs (ε, δ) that it
    proves are used.
    """
    names = [f"noise {noise}, {epochs} epochs" for noise, epochs in RUNS]
    figure, panels = plotting.panels("DP-SGD on MNIST: errors of tests for one record", *names)
    for axes, (_, epochs) in zip(panels, RUNS, strict=True):
        kinds = ("certified", "clt", "all", "one")
        draw(axes, frames["figure_3"], "alpha", kinds, f"_{epochs}", **ERRORS)
    return figure


def figure_a1_plot(frames):
    """Trade-off curve (left) and δ against ε (right) after 234 steps, and their limit by the CLT.

    The trade-off curves agree within 0.01. For small δ the limit is too small, by a factor of eight
    at the ε for which it is 1e-5.
    """
    figure, (first, second) = plotting.panels("DP-SGD: 234 steps and their limit", "", "")
    draw(first, frames["figure_a1"], "alpha", ("certified", "clt"), **ERRORS)
    draw(second, frames["figure_a1_delta"], "epsilon", ("certified", "clt"), **PRIVACY)
    return figure


PARTS = (figure_2_delta, figure_2_epochs, figure_3, figure_3_errors)
PARTS += (figure_a1, figure_a1_delta, figure_a1_epsilon)
AT_MOST_MOMENTS, CLT_AT_MOST = at_most("certified", "moments"), at_most("clt", "certified")
CLT_BELOW, CLT_CLOSE = below("clt", "certified"), close("clt", "certified", 0.01)
OVERSPENT = below("moments", "clt_spent")

experiment = Analysis(
    name="gaussian_dp_curves",
    title="DP-SGD on MNIST: trade-off curves and ε by the CLT, by moments, and certified",
    description=(
        "Figures 2, 3 and A.1 of Bu, Dong, Long and Su (2020, arXiv:1911.11607), with certified "
        "curves. Figure 2: the ε of the central limit theorem (CLT) is smaller than that of the "
        "moments accountant, but below the true one. Figure 3: a single pair (ε, δ) of the moments "
        "accountant gives little protection against tests; all its pairs give more. The certified "
        "curve agrees with the CLT for noise of 0.7 or more; for less noise the errors by the CLT "
        "are too small. Figure A.1: the trade-off curve of 234 steps is close to its limit. At δ = "
        "1e-5, however, ε depends on the tails, which have not converged: the true δ is eight "
        "times the limit."
    ),
    parts={part.__name__: part for part in PARTS},
    claims=(
        Claim("Figure 2: certified δ at most moments δ", "figure_2_delta", AT_MOST_MOMENTS),
        Claim("Figure 2: certified ε at most moments ε", "figure_2_epochs", AT_MOST_MOMENTS),
        Claim("Figure 2: CLT ε below the true ε", "figure_2_epochs", CLT_BELOW),
        Claim("Figure 2: noise by the CLT spends more than its ε", "figure_2_epochs", OVERSPENT),
        Claim("Figure 3: CLT sum of errors at most the true sum", "figure_3_errors", CLT_AT_MOST),
        Claim("Figure A.1: limit and certified curve within 0.01", "figure_a1", CLT_CLOSE),
        Claim("Figure A.1: CLT ε below the true ε", "figure_a1_epsilon", CLT_BELOW),
    ),
    figures={"figure_2": figure_2, "figure_3": figure_3_plot, "figure_a1": figure_a1_plot},
    listings=(
        Listing(
            "figure_3_errors",
            "Figure 3: smallest sum of both errors",
            {"run": "{label}", "moments, one (ε, δ)": "{one:.3f}"}
            | {"moments, all (ε, δ)": "{all:.3f}", "CLT": "{clt:.4f}"}
            | {"certified": "{certified:.4f}"},
        ),
        Listing(
            "figure_a1_epsilon",
            "Figure A.1: ε",
            {"run": "{label}", "CLT": "{clt:.4f}", "certified": "{certified:.4f}"},
        ),
    ),
)
