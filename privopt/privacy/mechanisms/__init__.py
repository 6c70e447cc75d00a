"""The mechanisms: each file states the theorems on a kind of release, for every accountant.

A release is registered under the event that describes it (``Release``). Accountants, filters and
exports flatten a composition and evaluate each release. They do not depend on the kinds. A new kind
is a new file; importing it here registers it.
"""

from __future__ import annotations

from privopt.privacy.mechanisms import (
    compressed,
    gaussian,
    laplace,
    mixtures,
    objective,
    pure,
    sampling,
    selection,
)

__all__ = [
    "compressed",
    "gaussian",
    "laplace",
    "mixtures",
    "objective",
    "pure",
    "sampling",
    "selection",
]
