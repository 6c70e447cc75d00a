"""NoisyAdam: Adam on clipped, noised batches."""

from __future__ import annotations

import optax

from privopt.algorithms.batches import Batches
from privopt.algorithms.first_order import run
from privopt.convex import Output, StepSizes, Update, corrected_adam
from privopt.core import Algorithm, Plan, planner
from privopt.mechanisms import MICROBATCH
from privopt.spec import Budget, ProblemClass

__all__ = ["NOISY_ADAM"]


@planner
def plan(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    batch_size: float | None = None,
    rate: float | None = None,
    step_size: float | StepSizes | None = None,
    b1: float = 0.9,
    b2: float = 0.999,
    weight_decay: float = 0.0,
    noise_correction: bool = False,
    output: Output | None = None,
    clip: float | None = None,
    clipping: str = "norm",
    sampler: str = "poisson",
    capacity: int | None = None,
    record: int = 0,
    microbatch: int = MICROBATCH,
) -> Plan:
    r"""Plan NoisyAdam: ``w <- Proj(w - eta m_hat/(sqrt(u_hat) + 1e-8))`` on the moments of DP-SGD.

    Parameters
    ----------
    problem_class, budget, steps, batch_size, rate, clip, clipping, sampler, capacity, record, \
    microbatch
        As in ``dp_sgd``.
    step_size : float or StepSizes, optional
        ``eta_t``; default ``R/sqrt(d T)``: no theorem's, but from public facts.
    b1, b2 : float
        Decay of the means of gradients and of their squares, in ``[0, 1)``.
    weight_decay : float
        ``lambda`` of AdamW, ``w <- w - eta lambda w``: data-free, and so free.
    noise_correction : bool
        Whether the noise's variance is taken out of ``u_hat``, see
        :func:`privopt.convex.corrected_adam`.
    output : Output, optional
        Default the last iterate.

    Formal guarantee
    ----------------
    That of ``dp_sgd`` with the same steps, batches and clip: Adam sees the noisy gradients alone.

    Rate
    ----
    None is known that its privacy improves. Source: Abadi et al. 2016 (the noisy moments);
    Kingma and Ba 2015; Loshchilov and Hutter 2019 (weight decay).
    """
    for name, value in (("b1", b1), ("b2", b2)):
        if not 0.0 <= value < 1.0:
            raise ValueError(f"{name} must lie in [0, 1), got {value!r}")
    if not 0.0 <= weight_decay < float("inf"):
        raise ValueError(f"weight_decay must be non-negative and finite, got {weight_decay!r}")
    if noise_correction and weight_decay:
        raise ValueError(f"weight_decay must be 0 with noise_correction, got {weight_decay!r}")
    batches = Batches.calibrated(
        problem_class, budget, steps=steps, batch_size=batch_size, rate=rate, clip=clip,
        clipping=clipping, sampler=sampler, capacity=capacity, microbatch=microbatch,
        plain=False,
    )  # fmt: skip
    b1, b2 = float(b1), float(b2)
    if noise_correction:
        variance = batches.mechanism.scale**2
        update = Update.of(corrected_adam, noise_variance=variance, b1=b1, b2=b2)
    else:
        update = Update.of(optax.adamw, b1=b1, b2=b2, weight_decay=float(weight_decay))
    return batches.plan(
        NOISY_ADAM, step_size=step_size, update=update, output=output, record=record
    )


NOISY_ADAM = Algorithm(
    name="noisy_adam",
    summary="Adam on clipped Poisson batches with Gaussian noise",
    plan=plan,
    run=run,
    gathers=True,
)
