"""NoisyAdam: Adam with clipped, noisy mini-batch gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import optax

from privopt.algorithms.descent import IN_STEPS, Batching, Descent
from privopt.arguments import real, shown
from privopt.convex import Output, StepSizes, Update, corrected_adam
from privopt.core import Algorithm, Plan, planner
from privopt.mechanisms import Batches, IndependentNoise, Noise
from privopt.spec import Budget, Norm, ProblemClass


@planner
def noisy_adam(
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
    output: Output | str | None = None,
    clip_norm: float | None = None,
    norm: Norm | str = Norm.L2,
    clipping: str = "norm",
    sampler: str | Batches = "poisson",
    capacity: int | None = None,
    cycle: int | None = None,
    noise: Noise | str | None = None,
    record: int | str = 0,
) -> Plan:
    r"""Return a plan for NoisyAdam.

    ``w <- Proj(w - eta m_hat/(sqrt(u_hat) + 1e-8))`` with the gradients of DP-SGD. ``m_hat`` and
    ``u_hat`` are moments of the gradient mapping of the noisy gradients
    (:mod:`privopt.convex.first_order`), which equals the noisy gradient far from the boundary of
    the set. With the noisy gradients, Adam would not converge to a minimiser on the boundary, in
    particular for small noise.

    Parameters
    ----------
    problem_class, budget, batch_size, rate, clip_norm, norm, clipping, sampler, capacity
        See ``dp_sgd``, also for ``cycle``, ``noise`` and ``record``.
    steps : int, optional
        Number of steps ``T``. Default: as for ``dp_sgd`` and losses that are not strongly convex,
        because these step sizes do not depend on the curvature.
    step_size : float or StepSizes, optional
        Step sizes ``eta_t``. Default: ``R/sqrt(d T)`` in linear decay, from public facts, without a
        theorem. For default steps the measured risk decreases with epsilon.
    b1, b2 : float
        Decay rates of the means of gradients and of their squares, in ``[0, 1)``.
    weight_decay : float
        ``lambda`` of AdamW, ``w <- w - eta lambda w``; independent of the data, so it has no
        privacy cost.
    noise_correction : bool
        If True, the variance of the noise is subtracted from ``u_hat``, see
        :func:`privopt.convex.corrected_adam`.
    output : Output, optional
        Default: the last iterate.

    Formal guarantee
    ----------------
    The guarantee of ``dp_sgd`` with the same steps, batches and clip: Adam is post-processing of
    the noisy gradients.

    Rate
    ----
    No rate is known that improves with the privacy budget.

    Source: Abadi et al. 2016 (the noisy moments); Kingma and Ba 2015; Loshchilov and Hutter 2019
    (weight decay).

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
    >>> plan = noisy_adam(facts, budget, steps=100, batch_size=50)
    >>> plan.params.descent.update.numbers
    {'b1': 0.9, 'b2': 0.999, 'weight_decay': 0.0}
    """
    for name, value in (("b1", b1), ("b2", b2)):
        if not 0.0 <= real(name, value) < 1.0:
            raise ValueError(f"{name} must lie in [0, 1), got {shown(value)}")
    if not 0.0 <= real("weight_decay", weight_decay) < float("inf"):
        raise ValueError(f"weight_decay must be non-negative and finite, got {shown(weight_decay)}")
    if noise_correction and weight_decay:
        raise ValueError(f"weight_decay must be 0 with noise_correction, got {shown(weight_decay)}")
    means: dict[str, float] = {"b1": float(b1), "b2": float(b2)}
    method = Descent(
        steps=steps, batches=Batching(batch_size, rate, sampler, capacity, cycle),
        clip_norm=clip_norm, norm=norm, clipping=clipping, noise=noise,
        update=Update.of(optax.adamw, **means, weight_decay=float(weight_decay)),
        step_size=step_size, output=output, record=record,
    )  # fmt: skip
    plan = method.calibrate(problem_class, budget, NOISY_ADAM)
    if not noise_correction:
        return plan
    mechanism: Any = plan.params.mechanism
    if not isinstance(mechanism.noise, IndependentNoise):
        raise ValueError(
            "noise must be independent with noise_correction, which takes the same variance out "
            f"of every step, got {shown(noise)}"
        )
    corrected = Update.of(corrected_adam, noise_variance=mechanism.scale**2, **means)
    method = replace(method, update=corrected)
    return method.plan(NOISY_ADAM, problem_class, budget, mechanism, plan.declared)


NOISY_ADAM = Algorithm(
    name="noisy_adam",
    summary="Adam on clipped Poisson batches with Gaussian noise",
    plan=noisy_adam,
    **IN_STEPS,
    gathers=True,
    cites=("abadi2016", "kingma2015"),
)
