"""Accounting for comparison: what the literature answers beside what a plan is certified with.

``ACCOUNTANTS`` prove; ``ESTIMATORS`` prove nothing and answer in a type of their own. The
questions of ``privopt.privacy`` (``epsilon``, ``delta``, ``trade_off``) take any of them, and
``named`` finds one. Beside them stand an odometer, which says what an
adaptive run has spent so far, the calculus of trade-off functions, and an adapter by which
dp-accounting's own tools can ask an accountant of ours. Everything is on the host, never JAX.
"""

from __future__ import annotations

from privopt.accounting import trade_off
from privopt.accounting.adapter import DpAccountant
from privopt.accounting.clt import CLT, ApproximateCurve, Approximation, Estimator
from privopt.accounting.compared import (
    ACCOUNTANTS,
    ESTIMATORS,
    Advanced,
    Basic,
    Moments,
    advanced_epsilon,
    named,
    optimal_delta,
    optimal_epsilon,
)
from privopt.accounting.odometers import ZCDPOdometer

__all__ = [
    "ACCOUNTANTS",
    "CLT",
    "ESTIMATORS",
    "Advanced",
    "ApproximateCurve",
    "Approximation",
    "Basic",
    "DpAccountant",
    "Estimator",
    "Moments",
    "ZCDPOdometer",
    "advanced_epsilon",
    "named",
    "optimal_delta",
    "optimal_epsilon",
    "trade_off",
]
