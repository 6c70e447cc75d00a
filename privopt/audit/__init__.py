"""Attacks on complete algorithms: how much of a claimed guarantee two data sets show to be spent.

An audit runs a plan many times on two neighbours and guesses, from what is released, on which.
No guess may be better than the claimed trade-off curve allows.
"""

from privopt.audit.distinguishing import Audit, audit, least_runs
from privopt.audit.pairs import Pair, attackable, worst_pair

__all__ = ["Audit", "Pair", "attackable", "audit", "least_runs", "worst_pair"]
