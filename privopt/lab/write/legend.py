"""What a report is about, and what the words in its tables mean."""

from __future__ import annotations

from privopt.lab.judge.equivalence import DRIFT, MARGIN, WRONG
from privopt.lab.judge.verdict import ORACLE_TUNED
from privopt.lab.judge.verdicts import ALPHA
from privopt.lab.make.cells import BEND

TITLE = "Measured against the theorem"

LEAD = (
    "Which private optimiser lands closest to the optimum, and is it what the theorem says? "
    "privopt runs them by the thousand, and sets the risks that it measures beside the theorems "
    "in records, dimension and privacy, constants included."
)

COMPARISON = (
    "Excess risk of nine methods on synthetic logistic regression, all (ε, 10⁻⁶)-differentially "
    "private under replace-one, hyperparameters set by theory. A method is better the lower its "
    "line ends; the picture names the ties; at the height of the zero predictor nothing is learnt. "
    "Made by `privopt compare logistic --axis epsilon --n 2000 --dim 20`.",
    "Excess risk of nine methods along epsilon from 0.25 to 4, beside that of the zero predictor, "
    "each line labelled with its risk at epsilon 4",
)
"""Caption and ``alt`` of ``compare_logistic.png``, which that command draws."""

FAMILIES = {
    "first_order": "Noisy gradients, step by step: whole data, batches, one pass.",
    "one_shot": "Solved once, noised once: output, objective and exponential mechanism.",
    "streams": "Records that arrive in turn, and noise that is correlated over time.",
    "sparse": "Records with few numbers that are not zero.",
    "accounting": "What different accountants say of the same mechanism.",
    "compared": "Methods side by side on the same data.",
}
"""The folders of experiments, in the order of the report, with what is in them."""

LEGEND = (
    (
        "measured, theorem",
        "A risk that moves like a power has an exponent: −1 in n says that twice the records halve "
        "it. Measured is that of the mean excess risk, on the problems for which the theorem is "
        "tight, at the strength of the data that hurts most. It *holds* if the whole interval lies "
        f"within {MARGIN:g} of the theorem’s exponent, or within a quarter of a small one, and is "
        "*undecided* if the interval reaches across. In an experiment a wrong exponent holds with "
        f"probability {ALPHA:.0%} at most.",
    ),
    (
        "refuted, not tight here",
        "If the interval lies above the margin, the risk falls more slowly than the theorem says, "
        "which is *refuted*. If the interval lies below, the risk falls faster than its upper "
        "bound: no theorem forbids that, and the bound is *not tight here*.",
    ),
    (
        "noise off, noise bent",
        "Controls: the same sweep without noise, and with noise that bends the risk by a further "
        f"power {BEND:g} along the axis. Each must be *told apart* from the measured exponent, by "
        f"{MARGIN:g} or more. Where one *survives*, the slope is *inherited*: it comes from step "
        "counts and step sizes, which follow the theorem’s formula, and tests nothing.",
    ),
    (
        "second key",
        "The same sweep with other random numbers. If it measures another exponent, the slope is "
        "undecided.",
    ),
    (
        "chance to pass",
        "How likely the interval was to lie within the margin if the theorem’s exponent is right, "
        f"and if it is {WRONG[0]:g} or {WRONG[1]:g} off.",
    ),
    (
        "bound itself",
        "Exponent of the upper bound over the same cells, and how much the ratio of mean to bound "
        "changes along them (drift). A bound without the theorem’s exponent there, or a drift over "
        f"{DRIFT:g}, leaves the slope undecided.",
    ),
    (
        ORACLE_TUNED,
        "Hyperparameters picked after seeing the results, from a fixed grid. That is not private; "
        "it shows what the method could reach. Beside it stands the slope *at theory’s numbers*.",
    ),
    (
        "vacuous, attained",
        "A bound is *vacuous* where it lies above the risk of the public centre in every cell: "
        "doing nothing is certified to be as good, so the check could not fail and counts for "
        "nothing. A bound is *attained* where the exact mean equals it.",
    ),
)
