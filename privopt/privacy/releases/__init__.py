"""Kinds of release: one file states all that is proved of a kind, for every accountant.

A release is registered under the event that describes it (``Release``). Accountants, filters and
exports take a composition apart (``composition``) and ask each release; none of them knows a kind
by name. A new kind is a new file, listed here.
"""

# ruff: noqa: F401 (to import a file registers its kinds)

from __future__ import annotations

from privopt.privacy.releases import (
    bounded_range,
    compressed,
    fixed_size,
    gaussian,
    laplace,
    mixture,
    objective,
    poisson,
    public_mixture,
    pure,
    selected,
)
from privopt.privacy.releases.composition import (
    Priced,
    asked,
    composed_loss,
    gaussian_cost,
    grouped,
    renyi_curve,
    renyi_divergence,
    renyi_orders,
    zcdp_cost,
)
from privopt.privacy.releases.release import (
    Concentration,
    Cost,
    Curve,
    Loss,
    Release,
    Shift,
    release_of,
    round_up_cost,
)

__all__ = [
    "Concentration",
    "Cost",
    "Curve",
    "Loss",
    "Priced",
    "Release",
    "Shift",
    "asked",
    "composed_loss",
    "gaussian_cost",
    "grouped",
    "release_of",
    "renyi_curve",
    "renyi_divergence",
    "renyi_orders",
    "round_up_cost",
    "zcdp_cost",
]
