"""Accountants: what proves something about an event, one file each.

``ACCOUNTANTS`` lists them; a guarantee takes the best of those that support its event. To add
one, write a class with the methods of ``Accountant`` in its own file and list an instance here.
"""

from __future__ import annotations

from privopt.privacy.accountants.accountant import Accountant
from privopt.privacy.accountants.gaussian_dp import GaussianDP
from privopt.privacy.accountants.non_private import NonPrivate
from privopt.privacy.accountants.pure_dp import PureDP

__all__ = ["ACCOUNTANTS", "Accountant", "GaussianDP", "NonPrivate", "PureDP"]

ACCOUNTANTS: tuple[Accountant, ...] = (NonPrivate(), GaussianDP(), PureDP())
