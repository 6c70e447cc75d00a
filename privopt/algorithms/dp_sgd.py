"""DP-SGD: stochastic gradient descent with clipped, noisy mini-batch gradients."""

from __future__ import annotations

from privopt.algorithms.descent import IN_STEPS, Batching, Descent, Optimiser
from privopt.convex import ConstraintSet, Output, StepSizes
from privopt.core import Algorithm, Plan, planner
from privopt.mechanisms import Batches, Noise
from privopt.spec import Budget, Norm, ProblemClass


@planner
def dp_sgd(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    batch_size: float | None = None,
    rate: float | None = None,
    step_size: float | StepSizes | None = None,
    update: Optimiser | None = None,
    output: Output | str | None = None,
    clip_norm: float | None = None,
    norm: Norm | str = Norm.L2,
    clipping: str = "norm",
    sampler: str | Batches = "poisson",
    capacity: int | None = None,
    cycle: int | None = None,
    noise: Noise | str | None = None,
    post: ConstraintSet | str | None = None,
    record: int | str = 0,
) -> Plan:
    """Return a plan for DP-SGD.

    ``w_{t+1} = Proj(w_t - eta_t ((1/b) sum_{i in batch} clip_C(g_i) + z_t))``.

    Parameters
    ----------
    problem_class : ProblemClass
        The guarantee holds for any loss, because gradients are clipped. Rates need convex,
        ``L``-Lipschitz losses.
    budget : Budget
        Privacy budget with ``delta > 0``.
    steps : int, optional
        Number of steps ``T``. Default: :func:`privopt.theory.descent_steps`, about as many as for
        ``dp_gd``.
    batch_size : float, optional
        Expected batch size ``b``, which is also the divisor. Default: ``max(sqrt(n), 4 sqrt(d))``,
        the smallest size for which the cost of sampling and of a small noise multiplier is small;
        for smooth losses and default steps :func:`privopt.theory.descent_batch`, if larger.
    rate : float, optional
        Sampling rate ``q = b/n`` in ``(0, 1]``; replaces ``batch_size``.
    step_size : float or StepSizes, optional
        Step sizes ``eta_t``. Default: as for ``dp_gd``, with ``V = v L^2 + d sigma^2`` for ``d
        sigma^2`` in ``1/(H + sqrt(V T)/R)``, and ``G^2 = a L^2 + d sigma^2``; ``a`` and ``v`` are
        defined in :func:`privopt.theory.batch_moments`.
    update : optax optimiser or Update, optional
        See ``dp_gd``: ``Update.of(optax.sgd, momentum=0.9)`` or ``optax.adagrad`` with
        ``step_size``, or a constructed optimiser such as ``optax.adam(0.1)`` without it. Updates
        are post-processing and do not affect the guarantee.
    output, clip_norm, norm, record
        See ``dp_gd``. Default output of other updates: the last iterate.
    clipping : {"norm", "automatic"}
        ``g min(1, C/|g|)`` or ``g C/(|g| + C/100)``.
    sampler : {"poisson", "without_replacement", "shuffled", "cyclic_poisson"} or Batches
        Batch sampler. ``"without_replacement"`` is for ``replace_one`` only. ``"shuffled"`` and
        ``"cyclic_poisson"`` are not for ``add_or_remove_one``. ``"shuffled"`` has no amplification
        by sampling. ``"cyclic_poisson"`` also amplifies banded noise. A sampler object defines the
        batch size.
    capacity : int, optional
        Number of places in a Poisson batch. By default the records beyond the capacity cost a
        thousandth of ``delta``.
    cycle : int, optional
        Number of blocks of ``cyclic_poisson`` batches, at most ``n/b``. It must be at least the
        bandwidth of the noise.
    noise : Noise or one of ``factorisations.FACTORISATIONS``, optional
        Default: independent Gaussian noise in every step. Correlated noise needs batches in passes
        (``"shuffled"``), or banded noise and ``cyclic_poisson`` batches. There is no rate for it.
    post : ConstraintSet or "sparse", optional
        See ``dp_gd``. The rate for ``"sparse"`` and batches of fixed size is
        ``E F(w) - F* <= R L/sqrt(T + 1) + 2 R e``.

    Formal guarantee
    ----------------
    The noise is calibrated to ``budget`` by the accountant that is proved for the sampler under
    the relation; see ``PoissonBatches``, ``FixedSizeBatches``, ``ShuffledBatches`` and
    ``CyclicPoissonBatches``. The guarantee covers all iterates, for every data set and loss. Under
    ``add_or_remove_one`` the data set has at most ``n`` records.

    Rate
    ----
    Poisson and fixed-size batches: ``E F(w) - F* <= R G/sqrt(T + 1)``; smooth losses:
    ``H R^2/(2 T) + R sqrt(V/T)``, if less; strongly convex losses: ``2 G^2/(m (T + 2))``. There is
    no rate for shuffled passes and cycles, because their gradients are biased given the past.

    Source: Abadi et al. 2016 (arXiv:1607.00133); Bassily, Smith and Thakurta 2014
    (arXiv:1405.7085), Theorem 2.4; :func:`privopt.theory.descent_rate`.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
    >>> plan = dp_sgd(facts, budget, steps=100, batch_size=50)
    >>> plan.params.mechanism.batches.rate
    0.05000000074505806
    """
    method = Descent(
        steps=steps, batches=Batching(batch_size, rate, sampler, capacity, cycle),
        clip_norm=clip_norm, norm=norm, clipping=clipping, noise=noise, post=post,
        update=update, step_size=step_size, output=output, record=record,
    )  # fmt: skip
    return method.calibrate(problem_class, budget, DP_SGD)


DP_SGD = Algorithm(
    name="dp_sgd",
    summary="stochastic gradient descent on clipped Poisson batches with Gaussian noise",
    plan=dp_sgd,
    **IN_STEPS,
    gathers=True,
    cites=("abadi2016", "bassily2014"),
)
