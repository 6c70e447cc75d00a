"""Tables 1 to 4 and Figure 4 of Bu, Dong, Long and Su (2020), beside certified bounds.

Their conventions, which reproduce every printed digit: Poisson sampling with probability
``batch / records``, ``T = epochs * records / batch`` steps without rounding, a record added or
removed, the moments accountant with the orders of their code. A fraction of a step is no
mechanism, so certified bounds take ``T`` rounded.
"""

from math import ceil, floor, sqrt
from typing import NamedTuple

from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

from privopt.accounting import CLT, Moments
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study
from privopt.privacy import Fourier, epsilon, gaussian_epsilon
from privopt.spec import Relation

RELATION = Relation.ADD_OR_REMOVE_ONE
MNIST = 256 / 60000


class Run(NamedTuple):
    """A training run, and what is printed of it."""

    table: int
    data: str
    epochs: int
    noise: float
    rate: float
    delta: float
    mu: float
    clt: float
    moments: float

    @property
    def steps(self):
        """As they compute it, with its fraction."""
        return self.epochs / self.rate


RUNS = (
    Run(1, "MNIST", 15, 1.3, MNIST, 1e-5, 0.23, 0.83, 1.19),
    Run(1, "MNIST", 60, 1.1, MNIST, 1e-5, 0.57, 2.32, 3.01),
    Run(1, "MNIST", 45, 0.7, MNIST, 1e-5, 1.13, 5.07, 7.10),
    Run(1, "MNIST", 62, 0.6, MNIST, 1e-5, 2.00, 9.98, 13.27),
    Run(1, "MNIST", 68, 0.55, MNIST, 1e-5, 2.76, 14.98, 18.72),
    Run(1, "MNIST", 100, 0.5, MNIST, 1e-5, 4.78, 31.12, 32.40),
    Run(2, "Adult", 18, 0.55, 256 / 29305, 1e-5, 2.03, 10.20, 14.70),
    Run(3, "IMDb", 9, 0.56, 512 / 25000, 1e-5, 2.07, 10.43, 15.24),
    Run(4, "MovieLens", 20, 0.6, 1 / 80, 1e-6, 1.94, 10.61, 15.39),
)


def spent(noise, rate, steps, delta, accountant):
    """``epsilon`` of so many Gaussian releases on Poisson samples."""
    step = PoissonSampledDpEvent(rate, GaussianDpEvent(noise))
    event = SelfComposedDpEvent(step, steps)
    return epsilon(event, delta, relation=RELATION, accountant=accountant)


def certified(noise, rate, steps, delta):
    """An interval that contains the true ``epsilon``."""
    return spent(noise, rate, round(steps), delta, Fourier(accuracy=1e-4))


def moments(run):
    """At a fraction of a step, between its neighbours: exact where these have one best order."""
    low, high = (
        spent(run.noise, run.rate, steps, run.delta, Moments()).upper
        for steps in (floor(run.steps), ceil(run.steps))
    )
    return low + (run.steps - floor(run.steps)) * (high - low)


def tables(profile):
    """One row a run."""
    for run in RUNS:
        step = PoissonSampledDpEvent(run.rate, GaussianDpEvent(run.noise))
        mu = sqrt(run.steps) * CLT().mu(step, RELATION).value
        clt = gaussian_epsilon(run.delta, mu=mu).upper
        proved = certified(run.noise, run.rate, run.steps, run.delta)
        nearest = proved.lower if clt < proved.lower else proved.upper
        short = run.clt < proved.lower
        yield {
            "label": f"{run.data}\n{run.epochs} ep.",
            "run": f"Table {run.table}: {run.data}, {run.epochs} epochs",
            "noise": run.noise,
            "rate": run.rate,
            "steps": run.steps,
            "delta": run.delta,
            "mu_printed": run.mu,
            "mu": mu,
            "clt_printed": run.clt,
            "clt": clt,
            "moments_printed": run.moments,
            "moments": moments(run),
            "certified": proved,
            "clt_excess": clt - nearest,
            "clt_percent": 100.0 * (clt / nearest - 1.0),
            # for the figure: printed over certified
            "one": 1.0,
            "clt_short": run.clt / proved.lower if short else None,
            "clt_long": None if short else run.clt / proved.upper,
            "moments_ratio": run.moments / proved.upper,
        }


def figure_4(profile):
    """Two pairs of runs said to spend the same: noise by the moments accountant, and by the CLT."""
    for noise, clt_noise, epochs, claimed in ((1.3, 1.06, 20, 1.34), (0.7, 0.638, 70, 8.68)):
        yield {
            "label": f"MNIST, {epochs} epochs",
            "claimed": claimed,
            "noise": noise,
            "spent": certified(noise, MNIST, epochs / MNIST, 1e-5),
            "clt_noise": clt_noise,
            "clt_spent": certified(clt_noise, MNIST, epochs / MNIST, 1e-5),
        }


experiment = Study(
    name="gaussian_dp_accounting",
    title="A limit theorem is no guarantee: accounting of deep learning with Gaussian DP",
    description=(
        "Bu, Dong, Long and Su, *Deep learning with Gaussian differential privacy* (Harvard Data "
        "Science Review 2020, arXiv:1911.11607), account for noisy training by a central limit "
        "theorem (CLT) and compare it with the moments accountant. Here are the μ and ε columns "
        "of their Tables 1 to 4 and the noises of their Figure 4, beside an interval that contains "
        "the true ε.\n\n"
        "Every printed number is reproduced. Eight of the nine CLT values are no guarantees: the "
        "run spends more than is printed. The advantage over the moments accountant is real, but "
        "smaller than the limit promises, and it needs no limit: exact composition has it.\n\n"
        "All this is for Poisson samples and a record added or removed. The training itself "
        "divides by the realised size of a batch, which none of these accountants covers."
    ),
    parts={"tables": tables, "figure_4": figure_4},
    claims=(
        Claim("μ as printed", "tables", "mu = mu_printed ± 0.01"),
        Claim("CLT ε as printed", "tables", "clt = clt_printed ± 0.01"),
        Claim("moments ε as printed", "tables", "moments = moments_printed ± 0.01"),
        Claim("certified ε at most moments ε", "tables", "certified <= moments"),
        Claim(
            "printed CLT ε below all that the true ε can be",
            "tables",
            "clt_printed < certified",
            rows=8,
        ),
        Claim("noise set by the CLT spends more than printed", "figure_4", "claimed < clt_spent"),
    ),
    plots=(
        Plot(
            "tables",
            "Tables 1 to 4: printed ε over certified ε",
            Panel(
                part="tables",
                x="label",
                x_label="",
                y_label="printed / certified",
                lines=(
                    Line("one", "certified", "blue"),
                    Line("moments_ratio", "moments accountant", "purple", "points"),
                    Line("clt_long", "CLT, above", "green", "points"),
                    Line("clt_short", "CLT, below: under-reported", "orange", "points"),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "tables",
            "Tables 1 to 4: printed / recomputed, and certified",
            Column("run", "{run}"),
            Column("noise", "{noise:g}"),
            Column("steps", "{steps:.1f}"),
            Column("μ", "{mu_printed:.2f} / {mu:.4f}"),
            Column("CLT ε", "{clt_printed:.2f} / {clt:.4f}"),
            Column("moments ε", "{moments_printed:.2f} / {moments:.4f}"),
            Column("certified ε", "{certified:.4f}"),
            Column(
                "CLT a bound?",
                "{clt_excess:+.3f} ({clt_percent:+.0f} %)",
                "certified <= clt_printed",
            ),
        ),
        Listing(
            "figure_4",
            "Figure 4: pairs of noises said to spend the same",
            Column("run", "{label}"),
            Column("ε printed", "{claimed:.2f}"),
            Column("noise by moments", "{noise:g}"),
            Column("certified ε of it", "{spent:.4f}", "spent <= claimed"),
            Column("noise by CLT", "{clt_noise:g}"),
            Column("certified ε of this", "{clt_spent:.4f}", "clt_spent <= claimed"),
        ),
    ),
)
