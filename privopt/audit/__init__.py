"""Attacks on complete algorithms: how much of a claimed guarantee two data sets show to be spent.

An audit runs a plan many times on two neighbours and guesses, from what is released, on which.
No guess may be better than the claimed trade-off curve allows.
"""

from privopt.audit.distinguishing import Audit, Finding, Releases, audit, finding, least_runs
from privopt.audit.mechanisms import MECHANISMS, MechanismPair, mechanism_pair
from privopt.audit.one_run import OneRun, least_epsilon, least_mu, one_run
from privopt.audit.pairs import Pair, attackable, worst_pair
from privopt.audit.picture import curves, picture
from privopt.audit.replay import replay
from privopt.audit.sensitivity import Furthest, furthest_neighbours

__all__ = [
    "MECHANISMS",
    "Audit",
    "Finding",
    "Furthest",
    "MechanismPair",
    "OneRun",
    "Pair",
    "Releases",
    "attackable",
    "audit",
    "curves",
    "finding",
    "furthest_neighbours",
    "least_epsilon",
    "least_mu",
    "least_runs",
    "mechanism_pair",
    "one_run",
    "picture",
    "replay",
    "worst_pair",
]
