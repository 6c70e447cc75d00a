"""Accountants for comparison with the certified ones of ``privopt.privacy``.

``ACCOUNTANTS`` return certified bounds. ``ESTIMATORS`` return values of another type, without
a certificate. ``privopt.privacy.epsilon``, ``delta`` and ``trade_off`` take any of them,
and ``named`` returns one by name. The package also contains an odometer, which bounds the privacy
loss of an adaptive run at any time, the calculus of trade-off functions, and an adapter for
dp-accounting's tools. It runs on the host and never imports JAX.
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
