"""What a report is about, and what the words in its tables mean."""

from __future__ import annotations

from privopt.lab.show.theorems import ALPHA

__all__ = ["LEAD", "LEGEND", "ORACLE_TUNED", "UNLIKE"]

ORACLE_TUNED = "oracle-tuned"
"""The label of every method whose numbers were chosen after looking at what they give."""

UNLIKE = (0.05, 0.10)
"""How far the wrong exponents are away whose chances to pass are told."""

LEAD = (
    "Private optimisers are run on the problems that are hardest for them, to see whether their "
    "risk depends on records, dimension and privacy as the theorems say, constants included."
)

LEGEND = (
    (
        "measured ± margin",
        "Exponent of the mean excess risk, at the worst strength of the family on which the "
        "theorem is tight. It *holds* if the whole interval lies within the margin about the "
        "theorem’s exponent, is *refuted* if the whole interval lies outside, and else is "
        f"*undecided*. All intervals of an experiment err with probability {ALPHA:.0%} at most.",
    ),
    (
        "noise off, noise bent",
        "Controls: the same sweep without noise, and with noise that grows by a further power 0.1 "
        "along the axis. They must be *told apart* from the theorem. Where one *survives*, the "
        "slope is *inherited*: it comes from the choices of the plan and tests no theorem.",
    ),
    (
        "second key",
        "Whether the sweep measures the same exponent from another root key.",
    ),
    (
        "chance to pass",
        "How likely the interval was to lie within the margin if the theorem’s exponent is right, "
        f"and if it is {UNLIKE[0]:.2f} or {UNLIKE[1]:.2f} off.",
    ),
    (
        "bound itself",
        "Exponent of the upper bound over the same cells, and how much mean ÷ bound drifts. "
        "A bound that does not own its exponent there leaves the slope undecided.",
    ),
    (
        ORACLE_TUNED,
        "At the best of a grid of hyperparameters that knows no theory, which no private run "
        "could find: what the method can do. Beside it the slope *at theory’s numbers*.",
    ),
)
