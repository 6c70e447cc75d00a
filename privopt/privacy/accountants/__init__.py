"""Accountants: what proves or estimates something about an event, one file each.

``ACCOUNTANTS`` prove; those in ``TIGHT``, the first of them, leave nothing for the others to
improve. ``ESTIMATORS`` prove nothing and answer in a type of their own. To add one, write a class
with the methods of ``Accountant`` or ``Estimator`` in its own file and list an instance here.
"""

from __future__ import annotations

from privopt.privacy.accountants.accountant import Accountant, Estimator
from privopt.privacy.accountants.advanced import Advanced
from privopt.privacy.accountants.basic import Basic
from privopt.privacy.accountants.clt import CLT
from privopt.privacy.accountants.edgeworth import Edgeworth
from privopt.privacy.accountants.fourier import Fourier
from privopt.privacy.accountants.gaussian_dp import GaussianDP
from privopt.privacy.accountants.moments import Moments
from privopt.privacy.accountants.non_private import NonPrivate
from privopt.privacy.accountants.optimal import OptimalComposition
from privopt.privacy.accountants.pure_dp import PureDP
from privopt.privacy.accountants.renyi import Renyi
from privopt.privacy.accountants.zcdp import ZCDP

__all__ = [
    "ACCOUNTANTS",
    "ACCURACY",
    "CLT",
    "ESTIMATORS",
    "TIGHT",
    "ZCDP",
    "Accountant",
    "Advanced",
    "Basic",
    "Edgeworth",
    "Estimator",
    "Fourier",
    "GaussianDP",
    "Moments",
    "NonPrivate",
    "OptimalComposition",
    "PureDP",
    "Renyi",
]

ACCURACY = 1e-4  # relative: to which noise is calibrated, and answers are read back

TIGHT: tuple[Accountant, ...] = (
    NonPrivate(),
    GaussianDP(),
    PureDP(),
    Fourier(accuracy=ACCURACY),
    Renyi(),
)
ACCOUNTANTS: tuple[Accountant, ...] = (
    *TIGHT,
    ZCDP(),
    OptimalComposition(),
    Advanced("kov"),
    Advanced("drv"),
    Basic(),
    Moments(),
)
ESTIMATORS: tuple[Estimator, ...] = (CLT(), Edgeworth())
