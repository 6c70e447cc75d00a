"""Accountants: certified bounds of the privacy of events.

Every guarantee evaluates the accountants in ``TIGHT``. The others never improve on them.
Accountants for comparison are in ``privopt.accounting``.
"""

from __future__ import annotations

from privopt.privacy.accountants.exact import (
    ZCDP,
    Accountant,
    GaussianDP,
    NonPrivate,
    PureDP,
    Respondent,
)
from privopt.privacy.accountants.fourier import Fourier
from privopt.privacy.accountants.mixture import Group, Mixture
from privopt.privacy.accountants.renyi import Renyi

__all__ = [
    "ACCOUNTANTS",
    "ACCURACY",
    "TIGHT",
    "ZCDP",
    "Accountant",
    "Fourier",
    "GaussianDP",
    "Group",
    "Mixture",
    "NonPrivate",
    "PureDP",
    "Renyi",
    "Respondent",
]

ACCURACY = 1e-4  # relative accuracy of calibrated noise and of guarantees

TIGHT: tuple[Accountant, ...] = (
    NonPrivate(),
    GaussianDP(),
    PureDP(),
    Fourier(accuracy=ACCURACY),
    Renyi(),
)
ACCOUNTANTS: tuple[Accountant, ...] = (*TIGHT, ZCDP())
