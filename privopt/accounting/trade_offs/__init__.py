"""Trade-off functions of f-differential privacy, and their operators.

``f = T(P, Q)`` says how well neighbouring data sets can be told apart: for every type-I error of a
test the smallest possible type-II error. All that is computed here is a lower bound of ``f`` (an
upper bound of its profile), rounding included. Make one with ``gaussian``, ``laplace``,
``epsilon_delta``, ``identity``, ``piecewise`` or ``from_profile``; transform it with ``inverse``,
``symmetrise``, ``sample``, ``subsample``, ``group``, ``compose``, ``repeat`` or ``polygon``; read
it by calling it, or with ``profile``, ``epsilon``, ``minimum_total_error``, ``total_variation``.

Source: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383).
"""

from __future__ import annotations

from privopt.accounting.trade_offs.composition import compose, repeat
from privopt.accounting.trade_offs.duality import (
    epsilon,
    from_profile,
    minimum_total_error,
    profile,
    total_variation,
)
from privopt.accounting.trade_offs.groups import group
from privopt.accounting.trade_offs.polygons import epsilon_delta, identity, piecewise
from privopt.accounting.trade_offs.sampling import sample, subsample
from privopt.accounting.trade_offs.shifts import gaussian, laplace
from privopt.accounting.trade_offs.symmetry import inverse, symmetrise
from privopt.accounting.trade_offs.tangents import polygon
from privopt.accounting.trade_offs.trade_off import TradeOff

__all__ = [
    "TradeOff",
    "compose",
    "epsilon",
    "epsilon_delta",
    "from_profile",
    "gaussian",
    "group",
    "identity",
    "inverse",
    "laplace",
    "minimum_total_error",
    "piecewise",
    "polygon",
    "profile",
    "repeat",
    "sample",
    "subsample",
    "symmetrise",
    "total_variation",
]
