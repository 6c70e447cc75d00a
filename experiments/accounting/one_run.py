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


def of_gaussian(mu):
    """The epsilon of Gaussian noise that keeps two neighbours so far apart."""
    if mu == 0.0:
        return 0.0
    return Guarantee(GaussianDpEvent(1.0 / mu), BUDGET.relation).epsilon(BUDGET.delta).lower


@cache
def by_many(method, runs):
    """An epsilon as of a Gaussian mechanism whose neighbours are as far apart as was found."""
    found = audit(
        worst_pair(method, BUDGET),
        key=stream(0, role="noise", method=method),
        runs=runs,
        failure=FAILURE,
    )
    return of_gaussian(found.attack.separation)


def bounds(profile):
    """By the number of canaries; mean, least and largest over the keys."""
    size = SIZES[profile]
    for method in METHODS:
        keys = jax.random.split(stream(0, role="noise", method=method, by="one run"), size["keys"])
        for canaries in size["canaries"]:
            runs = [
                one_run(method, BUDGET, key=key, canaries=canaries, failure=FAILURE) for key in keys
            ]
            pair = np.array([each.epsilon for each in runs])
            curve = np.array([of_gaussian(each.mu) for each in runs])
            yield {
                "label": f"{method.replace('_', ' ')}, {canaries:,} canaries",
                "canaries": canaries,
                "guesses": runs[0].guesses,
                "right": float(np.mean([each.right for each in runs])),
                **{f"{each}_{form}": np.nan for each in METHODS for form in ("pair", "curve")},
                f"{method}_pair": float(pair.mean()),
                f"{method}_curve": float(curve.mean()),
                "pair": float(pair.mean()),
                "curve": float(curve.mean()),
                "largest": float(max(np.sort(pair)[-2], np.sort(curve)[-2])),
                "many": by_many(method, size["runs"]),
                "claimed": runs[0].claimed,
            }


experiment = Study(
    name="one_run",
    title="One run shows less than many: audits of two methods",
    description=(
        "At ε = 4, δ = 1e-5, zero-out. **Many runs**: two neighbours, 100,000 runs on each, "
        "failure 5 %; drawn as the ε of Gaussian noise that keeps them as far apart as was found. "
        "**One run**: a coin decides for each canary whether it takes part, a tenth of the coins "
        "is guessed, failure 5 %; mean over 20 keys; the quick profile has fewer runs and keys. "
        "Canaries are orthogonal records of linear "
        "losses, one a dimension, so no canary disturbs another. One run is judged twice: by the "
        "claim (ε, δ) alone (Steinke, Nasr and Jagielski 2023), and by a whole trade-off curve, "
        "that of Gaussian noise (Mahloujifar, Melis and Chaudhuri 2024). Both bounds rise with the "
        "canaries and stay below the claim: they are proved for any dependence of the guesses."
    ),
    parts={"bounds": bounds},
    claims=(
        Claim("no audit by many runs is above the claim", "bounds", "many <= claimed"),
        Claim("nor 19 of 20 audits by one run", "bounds", "largest <= claimed"),
        Claim("one run shows less than many", "bounds", "curve < many"),
        Claim("a whole curve shows more than (ε, δ) alone", "bounds", "pair < curve"),
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
                    Line(
                        "output_perturbation_curve", "output perturbation, by its curve", "orange"
                    ),
                    Line("dp_gd_curve", "DP-GD, by its curve", "blue"),
                    Line(
                        "output_perturbation_pair",
                        "output perturbation, by (ε, δ)",
                        "orange",
                        "dashes",
                    ),
                    Line("dp_gd_pair", "DP-GD, by (ε, δ)", "blue", "dashes"),
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
            Column("one run, by (ε, δ)", "{pair:.2f}", "pair < curve"),
            Column("one run, by its curve", "{curve:.2f}", "curve < many"),
            Column("largest but one", "{largest:.2f}", "largest <= claimed"),
            Column("many runs", "{many:.2f}", "many <= claimed"),
            Column("claimed", "{claimed:.2f}"),
        ),
    ),
)
