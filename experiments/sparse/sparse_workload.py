"""Texts: what sparse and dense algorithms make of documents of few words, at one guarantee.

Nothing is tuned: DP-GD takes the step sizes of the theorem on descent, projected DP-GD those of the
theorem on descent with biased gradients. What is compared are the two theorems' methods, not the
best that either can do: ``concentrated_gradients`` tunes both.
"""

from dataclasses import replace

from privopt.lab import Axis, Experiment, Setting
from privopt.problems import FAMILIES

experiment = Experiment(
    name="sparse_workload",
    title="On texts a projection helps one release; of many, steps matter more than it does",
    description=(
        "Logistic regression on documents of at most 128 words of a large vocabulary, rows of norm "
        "at most 1, over the ball of radius 10, every method at the same budget with its theory's "
        "numbers, nothing tuned on the data: drawn texts of a long-tailed vocabulary (4,096 "
        "documents of 64 draws from 16,384 words), and, where their files are found, the extracts "
        "of RCV1 (1,500 of 47,236) and Industry Sector (9,619 of 55,197). Gradients are sparse, "
        "and there are far more words than documents, as the theory of sparse gradients wants it. "
        "DP-GD is run without a projection at 30 steps, and with one at the same 30 and at the "
        "number that theory chooses for projected gradients, 4 to 22. "
        "The projection of a noisy minimiser in the distance of the largest coordinate is better "
        "than the Euclidean one on every set at every epsilon. Projected noisy gradients are worse "
        "than plain ones on every set at every epsilon, at either number of steps; but the steps "
        "of the two are those of two different theorems. It is the steps that make the difference: "
        "with both at their best, in concentrated_gradients, the two are within a few per cent of "
        "each other on the drawn texts, and where records agree more than texts do projecting "
        "wins by far. From epsilon = 4 on theory's fewer "
        "steps are the worse of the two: the bound of which they are the best is far above what is "
        "measured. DP-SGD and DP-GD are the best or near it, and "
        "the projected minimiser is better on RCV1 at epsilon = 1 and on Industry Sector at "
        "epsilon = 16. All gain little on the zero predictor. Steps of descent without a "
        "projection are fixed to bound the cost. Slopes are not compared. All bounds are above "
        "what the zero predictor has, and say nothing here."
    ),
    algorithms={
        "dp_gd": {"steps": 30},
        "projected_dp_gd": ("dp_gd", {"post": "sparse"}),
        "projected_dp_gd_30": ("dp_gd", {"steps": 30, "post": "sparse"}),
        "dp_sgd": {"steps": 100, "batch_size": 128},
        "output_perturbation": {},
        "linf_output_perturbation": {},
    },
    families=(
        replace(FAMILIES["vocabulary_logistic"], name="drawn_texts", dim=16_384, max_n=4_096),
    ),
    if_present=("rcv1_logistic", "sector_logistic"),
    base=Setting(epsilon=4.0),
    axes=(Axis("epsilon", (1.0, 4.0, 16.0)),),
    relation="replace_one",
    delta=1e-6,
    checks=("bound",),
    replicates={"full": 20},
)
