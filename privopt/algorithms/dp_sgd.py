"""DP-SGD: stochastic gradient descent on clipped, noised batches."""

from __future__ import annotations

from privopt.algorithms.choices import Optimiser, checked_update, is_plain, needs_mapping
from privopt.algorithms.first_order import IN_STEPS, descend, private_gradient
from privopt.algorithms.theorems import rate_of
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
    clip: float | None = None,
    clip_norm: Norm | str = Norm.L2,
    clipping: str = "norm",
    sampler: str | Batches = "poisson",
    capacity: int | None = None,
    cycle: int | None = None,
    noise: Noise | str | None = None,
    post: ConstraintSet | str | None = None,
    record: int | str = 0,
) -> Plan:
    """Plan DP-SGD: ``w_{t+1} = Proj(w_t - eta_t ((1/b) sum_{i in batch} clip_C(g_i) + z_t))``.

    Parameters
    ----------
    problem_class : ProblemClass
        Clipping makes the guarantee hold for any loss; rates need convex, ``L``-Lipschitz ones.
    budget : Budget
        ``delta > 0``.
    steps : int, optional
        ``T``; default: about as many as ``dp_gd``, :func:`privopt.theory.descent_steps`.
    batch_size : float, optional
        ``b``, the *expected* size, and the divisor; default ``max(sqrt(n), 4 sqrt(d))``, the least
        at which neither sampling nor a small noise multiplier costs much, or for smooth losses and
        default steps :func:`privopt.theory.descent_batch`, if that is more.
    rate : float, optional
        ``q = b/n`` in ``(0, 1]``, in place of ``batch_size``.
    step_size : float or StepSizes, optional
        ``eta_t``; default as in ``dp_gd``, with ``V = v L^2 + d sigma^2`` for ``d sigma^2`` in
        ``1/(H + sqrt(V T)/R)`` and ``G^2 = a L^2 + d sigma^2``, ``a`` and ``v`` of
        :func:`privopt.theory.batch_moments`.
    update : optax optimiser or Update, optional
        As in ``dp_gd``: ``Update.of(optax.sgd, momentum=0.9)`` or ``optax.adagrad`` with
        ``step_size``, or a made optimiser such as ``optax.adam(0.1)`` without. All are
        post-processing, under the same guarantee.
    output, clip, clip_norm, record
        As in ``dp_gd``; by default the last iterate of other updates.
    clipping : {"norm", "automatic"}
        ``g min(1, C/|g|)`` or ``g C/(|g| + C/100)``.
    sampler : {"poisson", "without_replacement", "shuffled", "cyclic_poisson"} or Batches
        How batches are drawn. The second for ``replace_one`` only; the last two not for
        ``add_or_remove_one``; the third without any amplification by sampling. The last amplifies
        banded noise too. A sampler of your own brings its batch size along.
    capacity : int, optional
        Places in a Poisson batch; default so many that records left out cost a thousandth of
        ``delta``.
    cycle : int, optional
        Blocks that take turns in ``cyclic_poisson`` batches, at most ``n/b``; a band of noise must
        be no wider.
    noise : Noise or one of ``factorisations.FACTORISATIONS``, optional
        What is added; default fresh Gaussian noise in every step. Noise that remembers needs
        batches in passes (``"shuffled"``), or a band on ``cyclic_poisson`` ones; no rate is known
        for it.
    post : ConstraintSet or "sparse", optional
        As in ``dp_gd``; a rate is known for ``"sparse"`` and batches of fixed size,
        ``E F(w) - F* <= R L/sqrt(T + 1) + 2 R e``.

    Formal guarantee
    ----------------
    The noise is calibrated to ``budget`` by the accountant that is proved for the sampler under
    the relation; see ``PoissonBatches``, ``FixedSizeBatches``, ``ShuffledBatches`` and
    ``CyclicPoissonBatches``. It covers all iterates, for every data set and loss. Under
    ``add_or_remove_one`` there are at most ``n`` records.

    Rate
    ----
    Poisson and fixed-size batches: ``E F(w) - F* <= R G/sqrt(T + 1)``; smooth losses, if it is
    less, ``H R^2/(2 T) + R sqrt(V/T)``; strongly convex ``2 G^2/(m (T + 2))``. None for shuffled
    passes and cycles, whose gradients are biased given the past.

    Source: Abadi et al. 2016 (arXiv:1607.00133); Bassily, Smith and Thakurta 2014
    (arXiv:1405.7085), Theorem 2.4; :func:`privopt.theory.descent_rate`.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="add_or_remove_one")
    >>> plan = dp_sgd(facts, budget, steps=100, batch_size=50)
    >>> plan.params.mechanism.batches.rate, plan.params.descent.output
    (0.05000000074505806, Last())
    """
    optimiser = checked_update(update)
    mechanism = private_gradient(
        "dp_sgd", problem_class, budget,
        steps=steps, clip=clip, clip_norm=clip_norm, clipping=clipping,
        batch_size=batch_size, rate=rate, sampler=sampler, capacity=capacity, cycle=cycle,
        noise=noise, post=post, output=output,
        plain=is_plain(optimiser),
    )  # fmt: skip
    return descend(
        DP_SGD, problem_class, budget, mechanism, sparse=post == "sparse",
        step_size=step_size, update=optimiser, gradient_mapping=needs_mapping(optimiser),
        output=output, record=record,
    )  # fmt: skip


DP_SGD = Algorithm(
    name="dp_sgd",
    summary="stochastic gradient descent on clipped Poisson batches with Gaussian noise",
    plan=dp_sgd,
    **IN_STEPS,
    rate=rate_of,
    gathers=True,
    public_terms=True,
    cites=("abadi2016", "bassily2014"),
)
