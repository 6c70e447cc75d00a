"""An audit by one run beside one by 10^5 runs: what a single run can show of epsilon."""

from functools import cache

import jax
import numpy as np
from dp_accounting import GaussianDpEvent

from privopt import Budget
from privopt.audit import audit, one_run, worst_pair
from privopt.lab import Claim, Column, Line, Listing, Panel, Plot, Study, stream
from privopt.privacy import Guarantee

BUDGET = Budget(epsilon=4.0, delta=1e-5, relation="zero_out")
METHODS = ("dp_gd", "output_perturbation")
SIZES = {
    "quick": {"runs": 20_000, "keys": 2, "canaries": (100, 300)},
    "full": {"runs": 100_000, "keys": 20, "canaries": (100, 200, 400, 800, 1600, 3200)},
}
FAILURE = 0.05


@cache
def by_many(method, runs):
    """An epsilon as of a Gaussian mechanism whose neighbours are as far apart as was found."""
    found = audit(
        worst_pair(method, BUDGET),
        key=stream(0, role="noise", method=method),
        runs=runs,
        failure=FAILURE,
    )
    mechanism = Guarantee(GaussianDpEvent(1.0 / found.attack.found), BUDGET.relation)
    return mechanism.epsilon(BUDGET.delta).lower


def bounds(profile):
    """By the number of canaries; mean, least and largest over the keys."""
    size = SIZES[profile]
    for method in METHODS:
        keys = jax.random.split(stream(0, role="noise", method=method, by="one run"), size["keys"])
        for canaries in size["canaries"]:
            runs = [
                one_run(method, BUDGET, key=key, canaries=canaries, failure=FAILURE) for key in keys
            ]
            found = np.array([each.epsilon for each in runs])
            yield {
                "label": f"{method}, {canaries} canaries",
                "method": method,
                "canaries": canaries,
                "guesses": runs[0].guesses,
                "right": float(np.mean([each.right for each in runs])),
                **{each: float(found.mean()) if each == method else np.nan for each in METHODS},
                "one": float(found.mean()),
                "least": float(found.min()),
                "largest": float(np.sort(found)[-2]),
                "many": by_many(method, size["runs"]),
                "claimed": runs[0].claimed,
            }


experiment = Study(
    name="one_run",
    title="One run shows less than many: audits of two methods",
    description=(
        "At ε = 4, δ = 1e-5, zero-out. **Many runs**: two neighbours, 100,000 runs on each, "
        "failure 5 %; drawn as the ε of Gaussian noise that keeps them as far apart as was found. "
        "**One run** (Steinke, Nasr and Jagielski 2023): a coin decides for each canary whether it "
        "takes part, a twentieth of the coins is guessed, failure 5 %; mean over 20 keys. Canaries "
        "are orthogonal records of linear losses, one a dimension, so no canary disturbs another. "
        "The bound of one run is for the claim (ε, δ) alone, and treats all guesses as an "
        "adversary's; it rises with the canaries, as more guesses can be sure, and stays below."
    ),
    parts={"bounds": bounds},
    claims=(
        Claim("no audit by many runs is above the claim", "bounds", "many <= claimed"),
        Claim("nor 19 of 20 audits by one run", "bounds", "largest <= claimed"),
        Claim("one run shows less than many", "bounds", "one < many"),
    ),
    plots=(
        Plot(
            "epsilon",
            "What one run shows, and many: ε = 4, δ = 0.00001, zero-out",
            Panel(
                part="bounds",
                x="canaries",
                x_label="canaries",
                y_label="ε is at least",
                log="x",
                lines=(
                    Line("claimed", "claimed: at most", "grey"),
                    Line("many", "100,000 runs", "green", "points"),
                    Line("output_perturbation", "one run, output perturbation", "orange", "points"),
                    Line("dp_gd", "one run, DP-GD", "blue", "points"),
                ),
            ),
        ),
    ),
    listings=(
        Listing(
            "bounds",
            "ε is at least",
            Column("method", "{label}"),
            Column("right guesses", "{right:.1f} of {guesses}"),
            Column("one run, mean", "{one:.2f}", "one < many"),
            Column("least", "{least:.2f}"),
            Column("largest but one", "{largest:.2f}", "largest <= claimed"),
            Column("many runs", "{many:.2f}", "many <= claimed"),
            Column("claimed", "{claimed:.2f}"),
        ),
    ),
)
