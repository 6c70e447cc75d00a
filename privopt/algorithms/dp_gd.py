"""DP-GD: full-batch gradient descent with Gaussian noise."""

from __future__ import annotations

from privopt.algorithms.descent import IN_STEPS, Descent, Optimiser
from privopt.convex import ConstraintSet, Output, StepSizes
from privopt.core import Algorithm, Plan, planner
from privopt.mechanisms import Noise
from privopt.spec import Budget, Norm, ProblemClass


@planner
def dp_gd(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    steps: int | None = None,
    step_size: float | StepSizes | None = None,
    clip_norm: float | None = None,
    norm: Norm | str = Norm.L2,
    update: Optimiser | None = None,
    output: Output | str | None = None,
    noise: Noise | str | None = None,
    post: ConstraintSet | str | None = None,
    record: int | str = 0,
) -> Plan:
    """Return a plan for DP-GD.

    ``w_{t+1} = Proj(w_t - eta_t (grad F(w_t) + z_t))`` with ``z_t ~ N(0, sigma^2 I)``. For losses
    with kinks and large ``n mu/sqrt(d)``, :func:`privopt.accelerated_dp_gd` has a smaller bound.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex, ``L``-Lipschitz losses; finite ``radius`` unless ``step_size`` is given.
    budget : Budget
        Privacy budget with ``delta > 0``.
    steps : int, optional
        Number of steps ``T``. Default: :func:`privopt.theory.descent_steps`, after which the error
        of the noise exceeds the optimisation error: ``ceil(n^2 mu^2 / (0.84 d))`` (replace-one), at
        most ten thousand, or ``H R n mu / (2 L sqrt d)`` if less and the losses are smooth, or the
        number for strongly convex losses.
    step_size : float or StepSizes, optional
        Step sizes ``eta_t``. Default: those of the theorem with the smallest bound
        (:func:`privopt.theory.descent_numbers`): ``1/(H + sqrt(d T) sigma/R)`` for smooth losses;
        ``R/(G sqrt(T + 1))`` with ``G^2 = L^2 + d sigma^2`` for others, in linear decay if the last
        iterate is returned; ``2/(m (t + 1))`` for strongly convex losses that are not smooth.
    clip_norm : float, optional
        Per-example clipping norm ``C``. Default: ``L``, so no gradient is clipped.
    norm : Norm or its name
        Norm of gradients that ``C`` bounds. For ``"linf"`` the Euclidean sensitivity is ``sqrt(d)``
        times as large, and ``L`` is ``lipschitz_linf``.
    update : optax optimiser or Update, optional
        Optimiser. Default: plain descent. Any other optimiser is post-processing, with the same
        guarantee and without a rate. A factory (``optax.adam``, or
        ``Update.of(optax.adam, b1=0.8)``) receives ``step_size`` as its learning rate. A
        constructed optimiser (``optax.adam(0.1)``) has its own learning rate and excludes
        ``step_size``. It is a constant of the program, so another learning rate triggers
        recompilation (:class:`privopt.convex.Update`). On a constraint set such updates receive the
        gradient mapping (:mod:`privopt.convex.first_order`); with gradients they would stop at
        other points than the minimiser.
    output : Output or its name in ``theory.OutputRule``, optional
        Default: the output of the same theorem: the last iterate; the average with weights ``t``
        for steps ``2/(m (t + 1))``; for constant steps the average, after each step if they are
        short.
    noise : Noise or one of ``factorisations.FACTORISATIONS``, optional
        Default: independent Gaussian noise in every step. There is no rate for other noise.
    post : ConstraintSet or "sparse", optional
        Set onto which every noisy gradient is projected. ``"sparse"`` is the set ``{|v|_1 <= L
        sqrt(s), |v|_2 <= L}`` for declared ``sparsity``, which contains the mean gradient. The
        default ``T`` is then the minimiser of the bound below. There is no rate for other sets.
    record : int or "all"
        Number of recorded points of the path, on a logarithmic scale of steps, or every step.

    Formal guarantee
    ----------------
    ``T`` adaptive releases of the clipped mean gradient, of sensitivity ``s = 2C/n``
    (``replace_one``) or ``C/n`` (``zero_out``, ``add_or_remove_one``), are
    ``s sqrt(T) / sigma``-Gaussian DP. ``sigma`` is calibrated to ``budget``. The guarantee covers
    all iterates, for every data set and loss, because clipping enforces the sensitivity.

    Rate
    ----
    The smallest bound that applies (replace-one)::

        smooth             E F(w) - F* <= H R^2/(2 T) + 2 L R sqrt(d)/(n mu)
        any                E F(w) - F* <= L R sqrt(1/T + 4 d/(n mu)^2)
        strongly convex    E F(w) - F* <= 2 G^2/(m (T + 2)), of order L^2 d/(m n^2 mu^2)

        post "sparse"      E F(w) - F* <= R^2/(2 eta T) + eta e^2/(2 (1 - eta H)) + 2 R e

    with the squared error ``e^2`` of a projected gradient, at most ``sqrt(2) L sigma sqrt(s ln
    2d)`` or ``d sigma^2``. For losses that are not smooth: ``R L/sqrt(T + 1) + 2 R e``. The bias
    ``e`` does not decrease with ``T``.

    Without ``post``, for the default ``T`` below its limit, the first two are at most 3 and 2.2
    times ``L R sqrt(d)/(n mu)``. There is no rate for ``clip_norm < L``, other updates or other
    outputs.

    Source: :func:`privopt.theory.descent_rate`; Bassily, Smith and Thakurta 2014
    (arXiv:1405.7085), Theorem 2.4. Exact Gaussian accounting (Dong, Roth and Su 2022,
    arXiv:1905.02383, Theorem 2.7 and Corollary 3.3) replaces their composition.

    Examples
    --------
    >>> facts = ProblemClass(n=4000, dim=50, lipschitz=1.0, radius=1.0)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> dp_gd(facts, budget, steps=100).params.mechanism.event(budget.relation).count
    100
    """
    method = Descent(
        steps=steps, clip_norm=clip_norm, norm=norm, noise=noise, post=post,
        update=update, step_size=step_size, output=output, record=record,
    )  # fmt: skip
    return method.calibrate(problem_class, budget, DP_GD)


DP_GD = Algorithm(
    name="dp_gd",
    summary="full-batch gradient descent with Gaussian noise",
    plan=dp_gd,
    **IN_STEPS,
    cites=("bassily2014",),
)
