"""What a report is about, and what the words in its tables mean."""

from __future__ import annotations

from privopt.lab.make.trials import BEND
from privopt.lab.show.equivalence import DRIFT, MARGIN, WRONG
from privopt.lab.show.theorems import ALPHA

__all__ = ["LEAD", "LEGEND", "ORACLE_TUNED"]

ORACLE_TUNED = "oracle-tuned"
"""The label of every method whose numbers were chosen after looking at what they give."""

LEAD = (
    "Private optimisers are run on the problems that are hardest for them, to see whether their "
    "risk depends on records, dimension and privacy as the theorems say, constants included."
)

LEGEND = (
    (
        "measured, theorem",
        "Exponent of the mean excess risk, at the worst strength of the family on which the "
        "theorem is tight. It *holds* if the whole interval lies within "
        f"{MARGIN:g} of the theorem’s, is *refuted* if the whole interval lies outside, and else "
        f"is *undecided*. In an experiment a wrong exponent holds with probability {ALPHA:.0%} "
        "at most.",
    ),
    (
        "noise off, noise bent",
        f"Controls: the same sweep without noise, and with noise that grows by a further power "
        f"{BEND:g} along the axis. They must be *told apart* from the theorem. Where one "
        "*survives*, the slope is *inherited*: it comes from the choices of the plan and tests no "
        "theorem.",
    ),
    (
        "second key",
        "Whether the sweep measures the same exponent from another root key. If it does not, "
        "the slope is undecided.",
    ),
    (
        "chance to pass",
        "How likely the interval was to lie within the margin if the theorem’s exponent is right, "
        f"and if it is {WRONG[0]:g} or {WRONG[1]:g} off.",
    ),
    (
        "bound itself",
        "Exponent of the upper bound over the same cells, and the drift of mean ÷ bound along "
        f"them. A bound without the theorem’s exponent there, or a drift over {DRIFT:g}, leaves "
        "the slope undecided.",
    ),
    (
        ORACLE_TUNED,
        "At the best of a grid of hyperparameters that knows no theory, which no private run "
        "could find: what the method can do. Beside it the slope *at theory’s numbers*.",
    ),
)
