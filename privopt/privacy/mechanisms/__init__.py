"""The mechanisms: each file states the theorems on a kind of release, for every accountant.

A release is registered under the event that describes it (``Release``). Accountants, filters and
exports flatten a composition and evaluate each release. They do not depend on the kinds. A new kind
is a new file, listed here.
"""

# ruff: noqa: F401 (to import a file registers its kinds)

from __future__ import annotations

from privopt.privacy.mechanisms import (
    compressed,
    gaussian,
    laplace,
    mixtures,
    objective,
    pure,
    sampling,
    selected,
)
from privopt.privacy.mechanisms.base import (
    Concentration,
    Cost,
    Curve,
    Loss,
    Priced,
    Release,
    Shift,
    collect,
    compose_losses,
    gaussian_cost,
    group_event,
    release_of,
    renyi_curve,
    renyi_divergence,
    renyi_orders,
    round_up_cost,
    unsampled_mu,
    zcdp_cost,
)

__all__ = [
    "Concentration",
    "Cost",
    "Curve",
    "Loss",
    "Priced",
    "Release",
    "Shift",
    "collect",
    "compose_losses",
    "gaussian_cost",
    "group_event",
    "release_of",
    "renyi_curve",
    "renyi_divergence",
    "renyi_orders",
    "round_up_cost",
    "unsampled_mu",
    "zcdp_cost",
]
