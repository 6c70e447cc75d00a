"""Attacks on algorithms: lower bounds on the privacy loss, compared with the claimed guarantee.

An audit runs a plan many times on two neighbours and tests from the releases which one was used.
No test may exceed the claimed trade-off curve.
"""

from privopt.audit.distinguishing import Audit, Finding, Releases, audit, finding, least_runs
from privopt.audit.figures import curves, picture
from privopt.audit.mechanisms import MECHANISMS, MechanismPair, mechanism_pair
from privopt.audit.one_run import OneRun, least_epsilon, least_mu, one_run
from privopt.audit.pairs import Pair, attackable, worst_pair
from privopt.audit.replay import replay

__all__ = [
    "MECHANISMS",
    "Audit",
    "Finding",
    "MechanismPair",
    "OneRun",
    "Pair",
    "Releases",
    "attackable",
    "audit",
    "curves",
    "finding",
    "least_epsilon",
    "least_mu",
    "least_runs",
    "mechanism_pair",
    "one_run",
    "picture",
    "replay",
    "worst_pair",
]
