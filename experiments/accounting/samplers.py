"""Epsilon of DP-SGD against the sampling rate, by the batch sampler, at one noise and T.

The experiment fails for ``add_or_remove_one`` in place of ``replace_one`` (Poisson batches then
differ from the others at q = 1). With the event of Poisson batches in place of
``FixedSizeBatches`` the claim that compares the two is undecided in every row.
"""

from functools import cache

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

from privopt import privacy
from privopt.lab import Analysis, Claim, Listing, below, close, plotting
from privopt.mechanisms import AllRecords, FixedSizeBatches, ShuffledBatches
from privopt.spec import Relation

N, STEPS, NOISE, DELTA = 10_000, 1000, 4.0, 1e-5
SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)
SMALL = 0.05  # largest sampling rate of the slopes
NAMES = {
    "all": "all records",
    "shuffled": "shuffled passes",
    "fixed": "fixed size",
    "poisson": "Poisson, replace-one",
    "poisson_add": "Poisson, add-or-remove",
}


@cache
def spent(size):
    """Return an interval of ``epsilon`` at ``DELTA`` for every sampler."""
    add, replace = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
    step = PoissonSampledDpEvent(size / N, GaussianDpEvent(NOISE))
    poisson = SelfComposedDpEvent(step, STEPS)
    fixed, shuffled, full = (
        batches.composed(NOISE, STEPS, replace)
        for batches in (FixedSizeBatches.of(size, N), ShuffledBatches.of(size, N), AllRecords())
    )
    events = {"poisson": poisson, "fixed": fixed, "shuffled": shuffled, "all": full}
    return {"poisson_add": privacy.epsilon(poisson, DELTA, relation=add)} | {
        name: privacy.epsilon(event, DELTA, relation=replace) for name, event in events.items()
    }


def rates(profile):
    """Yield a row for every batch size."""
    for size in SIZES:
        values = spent(size)
        base = values["poisson"]
        times = {
            f"{name}_times": privacy.Interval(each.lower / base.upper, each.upper / base.lower)
            for name, each in values.items()
        }
        row = {"label": f"q = {size / N:g}", "rate": size / N, "one": 1.0}
        yield row | values | times | {"poisson_times": 1.0}


def sampled(profile):
    """Yield the rows with batches smaller than the data set."""
    return (row for row in rates(profile) if row["rate"] < 1.0)


def whole(profile):
    """Yield ``epsilon`` of every sampler at q = 1, where each batch contains all records."""
    *_, last = rates(profile)
    for name in ("poisson", "fixed", "shuffled"):
        yield {"label": name, "epsilon": last[name], "all": last["all"]}


def slopes(profile):
    """Yield ``d ln mu / d ln q`` at small rates, ``mu`` of the Gaussian with that ``epsilon``.

    The slope of ``epsilon`` would be larger, because it is not linear in ``mu``.
    """
    sizes = [size for size in SIZES if size <= SMALL * N]
    for name in ("poisson_add", "poisson", "fixed", "shuffled"):
        mus = [privacy.gaussian_mu(spent(size)[name].upper, DELTA) for size in sizes]
        slope = float(np.polyfit(np.log(sizes), np.log(mus), 1)[0])
        expected = 0.5 if name == "shuffled" else 1.0
        yield {"label": NAMES[name], "slope": slope, "wanted": expected}


def samplers_figure(frames):
    """Epsilon of DP-SGD against the sampling rate, and divided by the ε of Poisson batches.

    Bands are between lower and certified upper bounds. Under replace-one Poisson batches have the
    smallest ε, batches of a fixed size 10 to 30 % more, and shuffled passes up to 44 times as much.
    """
    title = f"DP-SGD: ε against the sampling rate ({STEPS:,} steps, noise multiplier {NOISE:g})"
    figure, panels = plotting.panels(title, "", "")
    styles = (plotting.GREY, "-"), (plotting.PURPLE, ":"), (plotting.ORANGE, "-")
    styles += (plotting.BLUE, "-"), (plotting.GREEN, "--")
    units = ("", "ε at δ = 1e-5"), ("_times", "ε over Poisson, replace-one")
    for axes, (suffix, unit) in zip(panels, units, strict=True):
        axes.set(xlabel="sampling rate q", ylabel=unit, xscale="log", yscale="log")
        for (name, label), (color, ls) in zip(NAMES.items(), styles, strict=True):
            style = {"label": label, "color": color, "ls": ls}
            plotting.curve(axes, frames["rates"], "rate", f"{name}{suffix}", **style)
    return figure


SLOPE = close("slope", "wanted", 0.05)

experiment = Analysis(
    name="samplers",
    title="DP-SGD: ε against the sampling rate, by batch sampler",
    description=(
        f"ε at δ = 1e-5 of {STEPS} noisy gradients of batches of q n of n = {N:,} records, noise "
        f"multiplier {NOISE:g}: intervals between lower and certified upper bounds. The relation "
        "is replace-one; for Poisson batches also add-or-remove-one, a weaker guarantee. Batches "
        "of a fixed size have a larger ε than Poisson batches, since a sampled record excludes "
        "another one. No amplification theorem applies to shuffled passes: a record is in q T "
        "batches, and μ is 2 sqrt(q T) divided by the noise multiplier. Noise is in units of the "
        "largest norm of a clipped gradient."
    ),
    parts={part.__name__: part for part in (rates, sampled, whole, slopes)},
    claims=(
        Claim(
            "add-or-remove spends less than replace-one", "sampled", below("poisson_add", "poisson")
        ),
        Claim("fixed size spends more than Poisson", "sampled", below("poisson", "fixed")),
        Claim("shuffled passes spend more than fixed size", "sampled", below("fixed", "shuffled")),
        Claim("every sampler spends less than all records", "sampled", below("shuffled", "all")),
        Claim("all samplers agree at q = 1", "whole", close("epsilon", "all", 0.05)),
        Claim(f"slope of μ in q up to {SMALL:g}: 1, shuffled passes 1/2", "slopes", SLOPE),
    ),
    figures={"samplers": samplers_figure},
    listings=(
        Listing(
            "rates",
            "ε, certified",
            {"q": "{rate:g}"} | {NAMES[name]: f"{{{name}:.3f}}" for name in reversed(NAMES)},
        ),
        Listing(
            "slopes",
            f"Slope of μ in q up to {SMALL:g}",
            {"sampler": "{label}", "slope": "{slope:.3f}"},
            {"slope": SLOPE},
        ),
    ),
)
