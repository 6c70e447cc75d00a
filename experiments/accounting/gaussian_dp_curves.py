"""Figures 2, 3 and A.1 of Bu, Dong, Long and Su (2020), beside certified curves."""

from functools import partial
from math import exp, log1p, sqrt

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

from privopt import privacy
from privopt.accounting import CLT, Moments
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study
from privopt.privacy import Fourier, Interval
from privopt.spec import Budget, Relation

RELATION = Relation.ADD_OR_REMOVE_ONE
RATE = 256 / 60000
DELTA = 1e-5
RUNS = ((1.3, 15), (1.1, 60), (0.7, 45))  # noise and epochs, the first three of Table 1

epsilon = partial(privacy.epsilon, relation=RELATION)
delta = partial(privacy.delta, relation=RELATION)
trade_off = partial(privacy.trade_off, relation=RELATION)


def training(noise, epochs, rate=RATE):
    """Gaussian releases on Poisson samples, as many as an epoch has, rounded."""
    step = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    return SelfComposedDpEvent(step, round(epochs / rate))


# Of Section A.1: 234 steps at the rate that leaves mu, a function of rate^2 T, as for RUNS[1].
FEW = SelfComposedDpEvent(
    PoissonSampledDpEvent(RATE * sqrt(60 / RATE / 234), GaussianDpEvent(1.1)), 234
)


def figure_2_delta(profile):
    """``delta`` against ``epsilon`` after the 45 epochs of Table 1."""
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
    """``epsilon`` against epochs, and the noise for which each accountant says the same of them.

    They are to meet what the moments accountant proves of noise 0.7. By the CLT that is the root
    ``z`` of ``mu(epsilon, delta)^2 = rate^2 T (e^(1/z^2) - 1)``.
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
    """Type II against type I error of tests for one record, one group of columns a run.

    They drew the moments accountant by the one pair ``(epsilon, delta)`` that it reports; ``all``
    is the best of every such pair that it proves.
    """
    alphas = np.linspace(0.0, 1.0, 101)
    curves = {"alpha": alphas}
    for noise, epochs in RUNS:
        event = training(noise, epochs)
        curves[f"clt_{epochs}"] = trade_off(event, alphas, accountant=CLT()).values
        curves[f"all_{epochs}"] = trade_off(event, alphas, accountant=Moments())
        curves[f"one_{epochs}"] = one_pair(
            alphas, epsilon(event, DELTA, accountant=Moments()).upper
        )
        curves[f"certified_{epochs}"] = trade_off(event, alphas, accountant=Fourier())
    for values in zip(*curves.values(), strict=True):
        yield dict(zip(curves, values, strict=True))


def one_pair(alphas, claimed):
    """What being ``(claimed, DELTA)``-private alone says of the trade-off."""
    line = 1.0 - DELTA - exp(claimed) * alphas
    return np.maximum(np.maximum(line, exp(-claimed) * (1.0 - DELTA - alphas)), 0.0)


def figure_3_errors(profile):
    """The smallest sum of both errors: one minus ``delta`` at ``epsilon = 0``."""
    alphas = np.linspace(0.0, 1.0, 1001)
    for noise, epochs in RUNS:
        event = training(noise, epochs)
        proved = delta(event, 0.0, accountant=Fourier(accuracy=1e-4))
        claimed = epsilon(event, DELTA, accountant=Moments()).upper
        yield {
            "label": f"noise {noise}, {epochs} epochs",
            "one": 2.0 * (1.0 - DELTA) / (1.0 + exp(claimed)),
            "all": float(np.min(alphas + trade_off(event, alphas, accountant=Moments()))),
            "clt": 1.0 - delta(event, 0.0, accountant=CLT()).value,
            "certified": Interval(1.0 - proved.upper, 1.0 - proved.lower),
        }


def figure_a1(profile):
    """The trade-off of few steps, and its limit."""
    alphas = np.linspace(0.0, 1.0, 101)
    clt = trade_off(FEW, alphas, accountant=CLT()).values
    certified = trade_off(FEW, alphas, accountant=Fourier())
    for values in zip(alphas, clt, certified, strict=True):
        yield dict(zip(("alpha", "clt", "certified"), values, strict=True))


def figure_a1_delta(profile):
    """The same two as ``delta`` against ``epsilon``."""
    for x in np.linspace(0.0, 5.0, 26 if profile == "quick" else 101):
        yield {
            "epsilon": x,
            "clt": delta(FEW, x, accountant=CLT()).value,
            "certified": delta(FEW, x, accountant=Fourier()),
        }


def figure_a1_epsilon(profile):
    """The same two at one ``delta``."""
    yield {
        "label": "noise 1.1, 234 steps, δ = 0.00001",
        "clt": epsilon(FEW, DELTA, accountant=CLT()).value,
        "certified": epsilon(FEW, DELTA, accountant=Fourier(accuracy=1e-4)),
    }


CLT_LINE = Line("clt", "CLT", "orange", "dashes")
MOMENTS_LINE = Line("moments", "moments accountant", "purple", "dots")
CERTIFIED_LINE = Line("certified", "certified")
ERRORS = {"x": "alpha", "x_label": "type I error", "y_label": "type II error"}
PRIVACY = {"x": "epsilon", "x_label": "ε", "y_label": "δ", "log": "y"}
OVER_EPOCHS = {"part": "figure_2_epochs", "x": "epochs", "x_label": "epochs"}
AT_MOST_MOMENTS = "certified <= moments"

experiment = Study(
    name="gaussian_dp_curves",
    title="Close trade-off curves, wrong epsilons: what a limit theorem does not see",
    description=(
        "Figures 2, 3 and A.1 of Bu, Dong, Long and Su (2020, arXiv:1911.11607), each beside "
        "certified curves. Figure 2: by the central limit theorem (CLT) training spends less, and "
        "needs less noise, than by the moments accountant; but it is less than the truth, too. "
        "Figure 3: the moments accountant seems to protect a record hardly at all against tests, "
        "but it is drawn by one pair (ε, δ) beside a whole curve. All its pairs say more, and the "
        "certified curve says what the CLT says.\n\n"
        "Figure A.1 shows that the limit is accurate after 234 steps, and as a trade-off curve "
        "it is. At δ = 1e-5, however, ε is decided in a corner of that curve where nothing "
        "can be seen: there the tails have not converged, and δ is eight times what the limit says."
    ),
    parts={
        part.__name__: part
        for part in (
            *(figure_2_delta, figure_2_epochs, figure_3, figure_3_errors),
            *(figure_a1, figure_a1_delta, figure_a1_epsilon),
        )
    },
    claims=(
        Claim("Figure 2: certified δ at most moments δ", "figure_2_delta", AT_MOST_MOMENTS),
        Claim("Figure 2: certified ε at most moments ε", "figure_2_epochs", AT_MOST_MOMENTS),
        Claim(
            "Figure 2: CLT ε below all that the true ε can be", "figure_2_epochs", "clt < certified"
        ),
        Claim(
            "Figure 2: noise set by the CLT spends more than it is set for",
            "figure_2_epochs",
            "moments < clt_spent",
        ),
        Claim(
            "Figure 3: the CLT's smallest sum of errors is at most the true one",
            "figure_3_errors",
            "clt <= certified",
        ),
        Claim(
            "Figure A.1: limit and certified lower trade-off within 0.01",
            "figure_a1",
            "clt = certified ± 0.01",
        ),
        Claim(
            "Figure A.1: CLT ε below all that the true ε can be",
            "figure_a1_epsilon",
            "clt < certified",
        ),
    ),
    plots=(
        Plot(
            "figure_2",
            "Figure 2: MNIST, noise 0.7, rate 256/60,000",
            Panel(
                **PRIVACY,
                part="figure_2_delta",
                title="45 epochs",
                lines=(CLT_LINE, MOMENTS_LINE, CERTIFIED_LINE),
            ),
            Panel(
                **OVER_EPOCHS,
                y_label="ε",
                title="δ = 0.00001",
                lines=(CLT_LINE, MOMENTS_LINE, CERTIFIED_LINE),
            ),
            Panel(
                **OVER_EPOCHS,
                y_label="noise",
                title="noise that keeps the moments ε",
                lines=(
                    Line("clt_noise", "CLT", "orange", "dashes"),
                    Line("moments_noise", "moments accountant", "purple", "dots"),
                    Line("certified_noise", "certified"),
                ),
            ),
        ),
        Plot(
            "figure_3",
            "Figure 3: errors of tests for one record",
            *(
                Panel(
                    **ERRORS,
                    part="figure_3",
                    title=f"noise {noise}, {epochs} epochs",
                    lines=(
                        Line(f"certified_{epochs}", "certified"),
                        Line(f"clt_{epochs}", "CLT", "orange", "dashes"),
                        Line(f"all_{epochs}", "moments, all (ε, δ)", "purple", "dots"),
                        Line(f"one_{epochs}", "moments, one (ε, δ)", "grey", "dots"),
                    ),
                )
                for noise, epochs in RUNS
            ),
        ),
        Plot(
            "figure_a1",
            "Figure A.1: 234 steps and their limit",
            Panel(**ERRORS, part="figure_a1", lines=(CERTIFIED_LINE, CLT_LINE)),
            Panel(**PRIVACY, part="figure_a1_delta", lines=(CERTIFIED_LINE, CLT_LINE)),
        ),
    ),
    listings=(
        Listing(
            "figure_3_errors",
            "Figure 3: smallest sum of both errors",
            Column("run", "{label}"),
            Column("moments, one (ε, δ)", "{one:.3f}"),
            Column("moments, all (ε, δ)", "{all:.3f}"),
            Column("CLT", "{clt:.4f}"),
            Column("certified", "{certified:.4f}"),
        ),
        Listing(
            "figure_a1_epsilon",
            "Figure A.1: ε",
            Column("run", "{label}"),
            Column("CLT", "{clt:.4f}"),
            Column("certified", "{certified:.4f}"),
        ),
    ),
)
