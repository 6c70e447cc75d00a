"""Every accountant there is, and every estimator."""

from __future__ import annotations

from privopt import privacy
from privopt.accounting.advanced import Advanced
from privopt.accounting.approximation import Estimator
from privopt.accounting.basic import Basic
from privopt.accounting.clt import CLT
from privopt.accounting.moments import Moments
from privopt.accounting.optimal import OptimalComposition
from privopt.privacy import Accountant

__all__ = ["ACCOUNTANTS", "ESTIMATORS"]

ACCOUNTANTS: tuple[Accountant, ...] = (
    *privacy.ACCOUNTANTS,
    OptimalComposition(),
    Advanced("kov"),
    Advanced("drv"),
    Basic(),
    Moments(),
)
ESTIMATORS: tuple[Estimator, ...] = (CLT(),)
