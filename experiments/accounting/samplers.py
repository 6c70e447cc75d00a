"""What a batch of q n records spends, by the sampler that drew it, at one noise and T.

What does not hold then: with ``add_or_remove_one`` in the place of ``replace_one`` Poisson batches
miss the others at q = 1, which is refuted; with the event of Poisson batches in the place of
``FixedSizeBatches`` the claim that tells the two apart stays undecided in every row.
"""

from functools import cache

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

from privopt import privacy
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study
from privopt.mechanisms import AllRecords, FixedSizeBatches, ShuffledBatches
from privopt.spec import Relation

N, STEPS, NOISE, DELTA = 10_000, 1000, 4.0, 1e-5
SIZES = (10, 30, 100, 300, 1000, 3000, 10_000)
SMALL = 0.05  # rates up to which amplification is linear


def poisson(size):
    """Each record takes part with probability ``size/n``, on its own."""
    one = PoissonSampledDpEvent(size / N, GaussianDpEvent(NOISE))
    return SelfComposedDpEvent(one, STEPS)


def batches(sampler, size, relation):
    """What privopt's own batches say of themselves."""
    made = AllRecords() if sampler is AllRecords else sampler.of(size, N)
    return made.composed(NOISE, STEPS, relation)


@cache
def spent(size):
    """``epsilon`` at ``DELTA``, one interval a sampler."""
    add, replace = Relation.ADD_OR_REMOVE_ONE, Relation.REPLACE_ONE
    events = {
        "poisson_add": (poisson(size), add),
        "poisson": (poisson(size), replace),
        "fixed": (batches(FixedSizeBatches, size, replace), replace),
        "shuffled": (batches(ShuffledBatches, size, replace), replace),
        "all": (batches(AllRecords, size, replace), replace),
    }
    return {
        name: privacy.epsilon(event, DELTA, relation=relation)
        for name, (event, relation) in events.items()
    }


def rates(profile):
    """One row a size of the batch."""
    del profile
    for size in SIZES:
        found = spent(size)
        told = {"label": f"q = {size / N:g}", "rate": size / N, "one": 1.0}
        yield told | found | {f"{name}_times": times(found, name) for name in found}


def times(found, name):
    """Over what Poisson batches of that size spend under ``replace_one``."""
    base = found["poisson"]
    if name == "poisson":
        return 1.0
    return privacy.Interval(found[name].lower / base.upper, found[name].upper / base.lower)


def sampled(profile):
    """Where a batch is not everything."""
    return (row for row in rates(profile) if row["rate"] < 1.0)


def whole(profile):
    """Where it is: every sampler takes all records in every step."""
    *_, last = rates(profile)
    for name in ("poisson", "fixed", "shuffled"):
        yield {"label": name, "epsilon": last[name], "all": last["all"]}


def slopes(profile):
    """``d ln mu/d ln q`` at small rates, ``mu`` of the Gaussian that spends the same there.

    Not of ``epsilon``, which grows faster than ``mu`` as both grow.
    """
    del profile
    sizes = [size for size in SIZES if size <= SMALL * N]
    for name in ("poisson_add", "poisson", "fixed", "shuffled"):
        mus = [privacy.gaussian_mu(spent(size)[name].upper, DELTA) for size in sizes]
        slope = float(np.polyfit(np.log(sizes), np.log(mus), 1)[0])
        yield {
            "label": NAMES[name][0],
            "slope": slope,
            "wanted": 0.5 if name == "shuffled" else 1.0,
        }


NAMES = {
    "all": ("all records", "grey", "line"),
    "shuffled": ("shuffled passes", "purple", "dots"),
    "fixed": ("fixed size", "orange", "line"),
    "poisson": ("Poisson, replace-one", "blue", "line"),
    "poisson_add": ("Poisson, add-or-remove", "green", "dashes"),
}


def lines(suffix=""):
    """One a sampler, from the largest ``epsilon`` down."""
    return tuple(Line(f"{name}{suffix}", *shown) for name, shown in NAMES.items())


experiment = Study(
    name="samplers",
    title="What does a batch spend? Poisson least, shuffled passes most",
    description=(
        f"ε at δ = 1e-5 of {STEPS} noisy gradients of batches with q n of n = {N:,} records, noise "
        f"multiplier {NOISE:g}: the numbers that the accountants prove, as bands between what is "
        "attained and what is certified. One record is replaced; for Poisson batches also added "
        "or removed, an easier promise. Batches of a fixed size need more than Poisson ones, since "
        "the record that is in keeps another out. For shuffled passes no theorem amplifies: a "
        "record is in q T batches, and μ is 2 sqrt(q T) over the noise multiplier. Nothing is "
        "sampled or tuned; noise is in units of the largest share of one record."
    ),
    parts={part.__name__: part for part in (rates, sampled, whole, slopes)},
    claims=(
        Claim("add-or-remove spends less than replace-one", "sampled", "poisson_add < poisson"),
        Claim("fixed size spends more than Poisson", "sampled", "poisson < fixed"),
        Claim("shuffled passes spend more than fixed size", "sampled", "fixed < shuffled"),
        Claim("every sampler spends less than all records", "sampled", "shuffled < all"),
        Claim("all samplers meet at q = 1", "whole", "epsilon = all ± 0.05"),
        Claim(
            f"μ has slope 1 in q up to {SMALL:g}, that of shuffled passes 1/2",
            "slopes",
            "slope = wanted ± 0.05",
        ),
    ),
    plots=(
        Plot(
            "samplers",
            f"ε of {STEPS:,} batches at noise multiplier {NOISE:g}, δ = 1e-5",
            Panel(
                part="rates", x="rate", x_label="share q of the records in a batch", y_label="ε",
                lines=lines(), log="xy",
            ),
            Panel(
                part="rates", x="rate", x_label="share q of the records in a batch",
                y_label="times Poisson, replace-one", lines=lines("_times"), log="xy",
            ),
        ),
    ),
    listings=(
        Listing(
            "rates",
            "ε certified",
            Column("q", "{rate:g}"),
            *(Column(NAMES[name][0], f"{{{name}:.3f}}") for name in reversed(NAMES)),
        ),
        Listing(
            "slopes",
            f"Slope of μ in q up to {SMALL:g}",
            Column("of", "{label}"),
            Column("slope", "{slope:.3f}", "slope = wanted ± 0.05"),
        ),
    ),
)  # fmt: skip
