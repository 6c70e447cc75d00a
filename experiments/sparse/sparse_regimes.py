"""The regimes of private means of sparse records, predicted and measured: constant, sparse, dense.

With few records nothing is learnt and the error is constant; with many it is that of the noise,
dense; in between the projection keeps what noise does to the nonzeros. Where one regime ends is a
matter of ``n``, the dimension and the noise, and follows from the bounds alone.

Of five sets of records the one counts that hurts most: blocks of copies of four sizes, and all
records one. The mean is estimated with Gaussian noise at (epsilon, delta), and with Laplace noise
at epsilon; sizes are in steps of four. An estimate of zero, which looks at nothing, is drawn beside
the others.
"""

import math
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.stats import binomtest

import privopt
from privopt import theory
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, replicate_keys, stream
from privopt.problems import FAMILIES

SIZES = tuple(2**k for k in range(1, 22, 2))
DIMS = (256, 2048, 8192)
DRAWN = 8192
SPARSITY, EPSILON, DELTA = 4, 1.0, 1e-6
STRENGTHS = (1.0, 2.0, 4.0, 8.0)
RUNS = 24
ERRORS = 4.0  # standard errors of an interval, to either side
RESAMPLES = 400
MU = privopt.privacy.gaussian_mu(EPSILON, DELTA)
REGIMES = ("constant", "sparse", "dense")
HARD = {"gaussian": "sparse_copies", "laplace": "sparse_packing"}


def setting(noise, dim, n):
    """Where a law is evaluated."""
    facts = privopt.ProblemClass(
        n=n,
        dim=dim,
        lipschitz=2.0,
        radius=1.0,
        smoothness=1.0,
        strong_convexity=1.0,
        sparsity=min(SPARSITY, dim),
    )
    delta = DELTA if noise == "gaussian" else 0.0
    budget = privopt.Budget(epsilon=EPSILON, delta=delta, relation="replace_one")
    return theory.LawSetting(problem_class=facts, budget=budget, mu=MU)


def law(noise, body="projection_mechanism"):
    """The bound of a body, with constants."""
    return theory.SPARSE_LAWS[body if noise == "gaussian" else f"pure_{body}"]


def lower_bounds(noise, dim, n):
    """What no algorithm within the budget is below, and none that is Gaussian private."""
    here = setting(noise, dim, n)
    known = {"lower": theory.ApproximateAdvantage(here.budget)}
    if noise == "gaussian":
        known["lower_gaussian"] = theory.GaussianAdvantage(MU, here.budget.relation)
    return {
        name: theory.lower_bound(here.problem_class, each).value for name, each in known.items()
    }


def data(noise, dim, n):
    """Sets of records: all one, and blocks of every size of which there are enough."""
    ratio = math.sqrt(dim) / (n * MU) if noise == "gaussian" else dim / (n * EPSILON)
    sizes = {"n": n, "dim": dim, "sparsity": SPARSITY, "noise_ratio": ratio}
    yield FAMILIES["sparse_same_record"].build(**sizes, strength=1.0)
    for strength in STRENGTHS:
        try:
            yield FAMILIES[HARD[noise]].build(**sizes, strength=strength)
        except ValueError:  # a block has more records than there are
            return


def planned(noise, dim, n, body):
    """The mechanism there, projecting onto a body."""
    here = setting(noise, dim, n)
    plan = privopt.ALGORITHMS["projection_mechanism"].plan
    return plan(here.problem_class, here.budget, body=body, noise=noise)


def errors(plan, problem, keys):
    """Excess risks of all runs, and last that of an estimate of zero."""
    found = np.asarray(privopt.run_many([plan], problem, keys).released[0])
    return np.asarray(problem.excess_risk(np.concatenate([found, np.zeros_like(found[:1])])))


@cache
def measured(noise, dim):
    """``{n: (runs, zero, problem)}`` of the projection mechanism on the worst records."""
    found = {}
    for n in SIZES:
        plan = planned(noise, dim, n, "l1_l2")
        keys = replicate_keys(stream(0, noise=noise, dim=dim, n=n), RUNS)
        every = [(errors(plan, problem, keys), problem) for problem in data(noise, dim, n)]
        risks, problem = max(every, key=lambda each: each[0][:-1].mean())
        found[n] = risks[:-1], float(risks[-1]), problem
    return found


def interval(runs):
    """The mean, give or take standard errors."""
    error = ERRORS * runs.std(ddof=1) / math.sqrt(runs.size)
    return privopt.Interval(runs.mean() - error, runs.mean() + error)


def table(profile):
    """One row a noise, dimension and size: what is measured between its bounds."""
    del profile
    for noise in HARD:
        for dim in DIMS:
            for n, (runs, zero, _) in measured(noise, dim).items():
                rate = law(noise)(setting(noise, dim, n))
                yield {
                    "label": f"{noise}, d = {dim}, n = {n}",
                    "noise": noise,
                    "dim": dim,
                    "n": n,
                    "risk": interval(runs),
                    "least": interval(runs).lower,
                    "most": interval(runs).upper,
                    "bound": rate.upper,
                    **lower_bounds(noise, dim, n),
                    "zero": zero,
                    "regime": rate.leading.name,
                }


def curves(noise):
    """A part: the rows at one dimension, with the methods that know of no sparsity."""

    def part(profile):
        del profile
        for n, (runs, zero, problem) in measured(noise, DRAWN).items():
            rate = law(noise)(setting(noise, DRAWN, n))
            keys = replicate_keys(stream(0, noise=noise, dim=DRAWN, n=n, body="l2"), RUNS)
            ball = errors(planned(noise, DRAWN, n, "l2"), problem, keys)[:-1]
            yield {
                "label": f"n = {n}",
                "n": n,
                "mean": float(runs.mean()),
                "most": interval(runs).upper,
                "risk": interval(runs),
                "ball": float(ball.mean()),
                "noisy": law(noise, "noisy_mean")(setting(noise, DRAWN, n)).upper,
                "zero": zero,
                "bound": rate.upper,
                **lower_bounds(noise, DRAWN, n),
            }

    return part


def regime(slope):
    """By the slope of the risk in ``n``: 0, -1 and -2 are those of the three."""
    return REGIMES[(slope < -0.5) + (slope < -1.5)]


def slope(low, high, left, right):
    """Between two sizes."""
    return math.log(right / left) / math.log(high / low)


def regimes(noise):
    """A part: between neighbouring sizes, the regime of the bound and that of the runs."""

    def part(profile):
        del profile
        for dim in DIMS:
            found = measured(noise, dim)
            for low, high in pairwise(SIZES):
                bounds = [law(noise)(setting(noise, dim, n)).upper for n in (low, high)]
                means = [found[n][0].mean() for n in (low, high)]
                predicted = regime(slope(low, high, *bounds))
                seen = regime(slope(low, high, *means))
                row = {
                    "label": f"d = {dim}, n = {low} to {high}",
                    "dim": dim,
                    "n": math.sqrt(low * high),
                    "predicted": predicted,
                    "measured": seen,
                }
                for name in REGIMES:
                    row[f"{name}_predicted"] = float(dim) if name == predicted else None
                    row[f"{name}_measured"] = float(dim) if name == seen else None
                yield row

    return part


def agreement(profile):
    """How often the bound has the regime of the runs."""
    for noise in HARD:
        same = [row["predicted"] == row["measured"] for row in regimes(noise)(profile)]
        share = binomtest(sum(same), len(same)).proportion_ci(0.99)
        yield {
            "label": noise,
            "places": len(same),
            "agreeing": sum(same),
            "share": privopt.Interval(*share),
            "chance": 1.0 / len(REGIMES),
        }


def printed(noise, dim):
    """The crossover of the sparse and the dense closed form, constants included."""
    if noise == "gaussian":
        return math.sqrt(2.0) * dim / (MU * math.sqrt(SPARSITY * math.log(2.0 * dim)))
    return 4.0 * dim / (EPSILON * sum(1.0 / j for j in range(1, dim + 1)))


def meeting(values, knee):
    """Where the lines through the sizes well below and well above a knee meet, in logs."""
    sizes = np.array(list(values))
    logs = np.log(np.array(list(values.values())))
    below = (sizes >= 64) & (sizes <= knee / 2.0)
    above = sizes >= 4.0 * knee
    if below.sum() < 2 or above.sum() < 2:
        return None
    (one, start), (two, end) = (
        np.polyfit(np.log(sizes[where]), logs[where], 1) for where in (below, above)
    )
    return float(np.exp((start - end) / (two - one)))


def knees(profile):
    """The ``n`` at which sparse turns into dense: in closed form, by the bound and by runs."""
    del profile
    for noise in HARD:
        for dim in DIMS:
            knee, found = printed(noise, dim), measured(noise, dim)
            bounds = {n: law(noise)(setting(noise, dim, n)).upper for n in SIZES}
            by_bound = meeting(bounds, knee)
            if by_bound is None:
                continue
            rng = np.random.default_rng(dim)
            draws = [
                meeting({n: rng.choice(runs, RUNS).mean() for n, (runs, *_) in found.items()}, knee)
                for _ in range(RESAMPLES)
            ]
            low, high = np.quantile(draws, [0.005, 0.995])
            yield {
                "label": f"{noise}, d = {dim}",
                "noise": noise,
                "dim": dim,
                "printed": knee,
                "by_bound": by_bound,
                "by_runs": privopt.Interval(low, high),
                "octave_bound": math.log2(by_bound),
                "octave_runs": privopt.Interval(math.log2(low), math.log2(high)),
            }


COLOURS = {"constant": "grey", "sparse": "orange", "dense": "blue"}


def regime_map(noise, title):
    """The regimes by the bound and by runs, side by side."""

    def panel(which, head):
        lines = tuple(Line(f"{name}_{which}", name, COLOURS[name], "points") for name in REGIMES)
        return Panel(
            part=f"{noise}_regimes",
            x="n",
            x_label="n",
            y_label="d",
            lines=lines,
            title=head,
            log="xy",
        )

    panels = (panel("predicted", "slope of the bound"), panel("measured", "slope of the risk"))
    return Plot(f"regimes_{noise}", title, *panels)


LOWER = {
    "gaussian": (
        Line("lower", "no (ε, δ)-DP algorithm is below", "grey", "dashes"),
        Line("lower_gaussian", "no μ-Gaussian DP algorithm is below", "purple", "dashes"),
    ),
    "laplace": (Line("lower", "no ε-DP algorithm is below", "grey", "dashes"),),
}
LINES = (
    Line("zero", "estimate of zero", "grey", "dots"),
    Line("bound", "bound", "orange", "dashes"),
    Line("noisy", "noisy mean", "green", "dashes"),
    Line("ball", "projected onto the ball", "green"),
    Line("mean", "projection mechanism", "orange", band="risk"),
)


def error_plot(noise, title):
    """Risk against size."""
    panel = Panel(
        part=noise,
        x="n",
        x_label="n",
        y_label="excess risk",
        lines=(*LOWER[noise], *LINES),
        log="xy",
        title=title,
    )
    return Plot(f"risk_{noise}", f"Means of sparse records, d = {DRAWN:,}: {title}", panel)


experiment = Study(
    name="sparse_regimes",
    profiles=("full",),
    title="Regimes of private means of sparse records: constant, sparse, dense",
    description=(
        "Half the squared error of the projection mechanism on the worst of five sets of records, "
        "over n and d, beside its bound and what no algorithm can beat: none within the budget, "
        "and, under Gaussian noise, none that is Gaussian private, the stronger guarantee of this "
        "noise. Laplace noise has another guarantee, and may lie below that line. The bound is one "
        "formula in all three regimes; the same slopes name the regime of the bound and of the "
        "runs. The knee is where lines through the sparse and through the dense sizes meet.\n\n"
        "In the sparse regime slopes in n are steeper than -1 by about the inverse of a logarithm, "
        "for the bound and the runs alike: the noise that counts is what is above the level that "
        "the l1 radius pays for, and that level falls with n. An estimate of zero is about as "
        "good there, on the records that hurt most: that is why they do."
    ),
    parts={
        "table": table,
        **{noise: curves(noise) for noise in HARD},
        **{f"{noise}_regimes": regimes(noise) for noise in HARD},
        "agreement": agreement,
        "knees": knees,
    },
    claims=(
        Claim(
            "no risk is above the bound, four standard errors allowed", "table", "least <= bound"
        ),
        Claim(
            "no risk is below the lower bound for its budget, likewise", "table", "lower <= most"
        ),
        Claim(
            "no risk under Gaussian noise is below the lower bound for Gaussian privacy, likewise",
            "gaussian",
            "lower_gaussian <= most",
        ),
        Claim("the bound names the regime more often than chance", "agreement", "chance < share"),
        Claim(
            "the knee by runs is within a factor of two of the bound's",
            "knees",
            "octave_runs = octave_bound ± 1.0",
        ),
    ),
    plots=(
        error_plot("gaussian", "Gaussian noise"),
        error_plot("laplace", "Laplace noise"),
        regime_map("gaussian", "Regimes over n and d: Gaussian noise"),
        regime_map("laplace", "Regimes over n and d: Laplace noise"),
    ),
    listings=(
        Listing(
            "knees",
            "Where the sparse regime ends",
            Column("noise", "{noise}"),
            Column("d", "{dim}"),
            Column("closed form", "{printed:,.0f}"),
            Column("by the bound", "{by_bound:,.0f}"),
            Column("by runs", "{by_runs:.0f}"),
        ),
        Listing(
            "agreement",
            "The regime of the bound and that of the runs",
            Column("noise", "{label}"),
            Column("pairs of sizes", "{places}"),
            Column("of one regime", "{agreeing}"),
            Column("share", "{share:.2f}"),
        ),
    ),
)
