"""DP-SGD: stochastic gradient descent on clipped, noised batches."""

from __future__ import annotations

from typing import Any

from privopt.algorithms.batches import Batches
from privopt.algorithms.first_order import run
from privopt.convex import Output, StepSizes
from privopt.core import Algorithm, Plan, planner
from privopt.mechanisms import MICROBATCH
from privopt.spec import Budget, ProblemClass

__all__ = ["DP_SGD"]


@planner
def plan(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    batch_size: float | None = None,
    rate: float | None = None,
    step_size: float | StepSizes | None = None,
    update: Any = None,
    output: Output | None = None,
    clip: float | None = None,
    clipping: str = "norm",
    sampler: str = "poisson",
    capacity: int | None = None,
    record: int = 0,
    microbatch: int = MICROBATCH,
) -> Plan:
    """Plan DP-SGD: ``w_{t+1} = Proj(w_t - eta_t ((1/b) sum_{i in batch} clip_C(g_i) + z_t))``.

    Parameters
    ----------
    problem_class : ProblemClass
        Clipping makes the guarantee hold for any loss; rates need convex, ``L``-Lipschitz ones.
    budget : Budget
        ``delta > 0``.
    steps : int, optional
        ``T``; default: as many as ``dp_gd``, times ``1 + 1/b``.
    batch_size : float, optional
        ``b``, the *expected* size; default ``max(sqrt(n), 4 sqrt(d))``, the least at which neither
        sampling nor a small noise multiplier costs much. The divisor, whatever comes.
    rate : float, optional
        ``q = b/n`` in ``(0, 1]``, in place of ``batch_size``.
    step_size : float or StepSizes, optional
        ``eta_t``; default ``R/(G sqrt T)``, ``G^2 = L^2 (1 + (1 - q)/b) + d sigma^2``; for strongly
        convex losses ``2/(m (t + 1))``.
    update : optax optimiser or Update, optional
        Default plain descent. ``Update.of(optax.sgd, momentum=0.9)``, ``optax.adagrad``, a
        transformation of your own: all are post-processing, under the same guarantee.
    output : Output, optional
        Default the average; in proportion to ``t`` for strongly convex losses; the last iterate
        for other updates.
    clip : float, optional
        ``C``, per-example clip norm; default ``L``, at which nothing is clipped.
    clipping : {"norm", "automatic"}
        ``g min(1, C/|g|)`` or ``g C/(|g| + C/100)``.
    sampler : {"poisson", "without_replacement", "shuffled"}
        How batches are drawn. The second for ``replace_one`` only; the last not for
        ``add_or_remove_one``, and without any amplification by sampling.
    capacity : int, optional
        Places in a Poisson batch; default so many that records left out cost a thousandth of
        ``delta``.
    record : int
        How many points of the path to record, on a logarithmic scale of steps.
    microbatch : int
        So many gradients of a general loss are in memory at once.

    Formal guarantee
    ----------------
    The noise is calibrated to ``budget`` by the accountant that is proved for the sampler under
    the relation; see ``PoissonGradient``, ``FixedSizeGradient`` and ``ShuffledGradient``. It covers
    all iterates, for every data set and loss. Under ``add_or_remove_one`` there are at most
    ``n`` records.

    Rate
    ----
    Poisson and fixed-size batches: ``E F(w) - F* <= R G/sqrt T``; strongly convex
    ``2 G^2/(m (T + 1))``. None for shuffled passes, whose gradients are biased given the past.

    Source: Abadi et al. 2016; Bassily, Smith and Thakurta 2014, Theorem 2.4.
    """
    batches = Batches.calibrated(
        problem_class, budget, steps=steps, batch_size=batch_size, rate=rate, clip=clip,
        clipping=clipping, sampler=sampler, capacity=capacity, microbatch=microbatch,
        plain=update is None,
    )  # fmt: skip
    return batches.plan(DP_SGD, step_size=step_size, update=update, output=output, record=record)


DP_SGD = Algorithm(
    name="dp_sgd",
    summary="stochastic gradient descent on clipped Poisson batches with Gaussian noise",
    plan=plan,
    run=run,
    gathers=True,
)
