"""DP-FTRL: the regularised leader of noisy prefix sums, without sampling or shuffling."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from privopt.algorithms.descent import IN_STEPS, Descent, clipped_gradient
from privopt.algorithms.descent_rates import no_step, one_step_noise, step_rule
from privopt.algorithms.shared import require_delta
from privopt.arguments import positive_number, real, shown
from privopt.convex import Average, Output, Update, projected_leader
from privopt.core import Algorithm, Plan, planner
from privopt.factorisations import Factorisation, factorise
from privopt.mechanisms import (
    ClippedGradient,
    IndependentNoise,
    Noise,
    OrderedBatches,
    PrivateGradient,
    TreeNoise,
    noise_of,
)
from privopt.mechanisms.noise import BufferedNoise, HonakerNoise, RestartedNoise, SeriesNoise
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    PrefixError,
    Quantity,
    Rate,
    StepRule,
    ftrl_batch,
    ftrl_rate,
    ftrl_regularisation,
    local_exponent,
    no_rate,
)


class FtrlDeclaration(NamedTuple):
    """Quantity that the rate bounds."""

    quantity: Quantity


@planner
def dp_ftrl(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    noise: Noise | str = "tree",
    epochs: int = 1,
    momentum: float = 0.0,
    batch_size: int | None = None,
    band: int | None = None,
    optimise: bool = False,
    restart: bool = False,
    order: str = "random",
    regularisation: float | None = None,
    quantity: str = "population risk",
    clip_norm: float | None = None,
    clipping: str = "norm",
    output: Output | str | None = None,
    record: int | str = 0,
) -> Plan:
    """Return a plan for DP-FTRL.

    ``w_{t+1} = Proj(w_1 - V_t/Lambda)`` with ``V_t = gamma V_{t-1} + g_1 + .. + g_t`` and
    ``g_t = (1/b) sum_{i in B_t} clip_C(grad l(w_t; x_i)) + sigma z_t``. The prefix sums of the
    noise ``z`` are ``B xi``, for a factorisation ``A = B C`` of the matrix of prefix sums. Their
    error is a power of ``log T``; for independent noise it is ``sqrt(T)``. The number of steps is
    ``T = epochs ceil(n/b)``. All passes use the same order.

    Parameters
    ----------
    problem_class : ProblemClass
        The guarantee holds for any loss, because gradients are clipped. Rates need convex,
        ``L``-Lipschitz losses. ``radius`` must be finite unless ``regularisation`` is given.
    budget : Budget
        Privacy budget with ``delta > 0`` under ``replace_one`` or ``zero_out``.
    epochs : int
        Number of passes over the records.
    momentum : float
        Momentum ``gamma`` in ``[0, 1)``.
    batch_size : int, optional
        Batch size ``b``. The last batch of a pass may be smaller; the divisor is ``b``. Default:
        :func:`privopt.theory.ftrl_batch` for the population risk, 1 for the regret.
    noise, band, optimise
        A name in ``factorisations.FACTORISATIONS`` with the further arguments of ``factorise``, or
        a noise object.
    restart : bool
        If True, every pass has new noise and a new leader, which starts at the last iterate.
    order : {"random", "stored"}
        Order of all passes: random and independent of the data, or as stored.
    regularisation : float, optional
        Regularisation ``Lambda``. Default: :func:`privopt.theory.ftrl_regularisation` for
        ``quantity``, divided by ``1 - gamma``, so that momentum does not change the total step.
    quantity : {"population risk", "regret"}
        Quantity that the rate bounds. ``regret`` is ``sum_t f_t(w_t) - min_w sum_t f_t(w)`` over
        all ``T`` steps, where ``f_t`` is the loss of a batch.
    clip_norm, clipping, record
        See ``dp_sgd``.
    output : Output or its name in ``theory.OutputRule``, optional
        Default: the average of ``w_1..w_{T+1}``, that is, every point *before* its record, and the
        last point.

    Formal guarantee
    ----------------
    Neighbours are lists that differ in one place. A place belongs to one batch of every pass, and
    these steps are exactly one pass apart. All ``T`` adaptive answers together are one Gaussian
    mechanism. Its sensitivity is the sensitivity of ``C`` for this participation, and is twice as
    large under ``replace_one`` as under ``zero_out``. The guarantee needs neither sampling nor
    shuffling. It covers all iterates, for every data set and loss.

    Rate
    ----
    Let ``y`` be the mean over ``t`` of ``sqrt((B B^T)_tt)``. For the default ``Lambda``::

        E regret <= R sqrt(T (L^2 + 2 L sigma sqrt(d) y))

    for any order of the stream, over all passes. See :func:`privopt.theory.ftrl_rate` for restarts.
    The population risk after one pass is at most the regret divided by ``T``, up to lower orders,
    for records in a random order or in the order of sampling. There is no bound of the population
    risk for more passes, because their records are not fresh samples. There is no rate with
    momentum or for ``clip_norm < L``.

    Source: Kairouz, McMahan, Song, Thakkar, Thakurta and Xu 2021 (arXiv:2103.00039), Algorithm 1
    and Theorem C.1; Denisov, McMahan, Rush, Smith and Thakurta 2022 (arXiv:2202.08312), for
    factorisations and adaptive answers. Sensitivities are exact or proved upper bounds.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> plan = dp_ftrl(facts, budget, noise="banded_inverse", batch_size=10)
    >>> plan.params.mechanism.steps, len(plan.params.mechanism.noise.denominator)
    (100, 16)
    """
    require_delta("dp_ftrl", budget)
    if not 0.0 <= real("momentum", momentum) < 1.0:
        raise ValueError(f"momentum must lie in [0, 1), got {shown(momentum)}")
    bounded = Quantity.named("quantity", quantity)
    if bounded not in (Quantity.POPULATION_RISK, Quantity.REGRET):
        raise ValueError(f"quantity must be population risk or regret, got {shown(quantity)}")
    query = clipped_gradient(problem_class, clip_norm, clipping)
    if batch_size is None and bounded is Quantity.REGRET:
        batch_size = 1  # every record is a round
    elif batch_size is None:
        unit_noise = problem_class.n * one_step_noise(query, budget)
        clipped = replace(problem_class, lipschitz=query.clip_norm)
        batch_size = ftrl_batch(clipped, unit_noise=unit_noise)
    batches = OrderedBatches.of(batch_size, problem_class.n, epochs=epochs, order=order)
    steps, leaders = epochs * batches.period, epochs if restart else 1
    batches.participation(steps, budget.relation)  # check the relation before a long calculation
    length = steps // leaders  # steps of one leader
    fresh = noise_of(noise, length, band, optimise)
    added: Noise = fresh if leaders == 1 else RestartedNoise(fresh, length)
    mechanism = PrivateGradient.calibrated(query, budget, steps, batches, added)
    if regularisation is None:
        facts = _with_clipped_lipschitz(problem_class, query)
        arguments = _theorem_arguments(facts, mechanism, bounded)
        value = ftrl_regularisation(**arguments) / (1.0 - float(momentum))
    else:
        value = positive_number("regularisation", regularisation)
    period = None if leaders == 1 else length
    update = Update.of(projected_leader, momentum=float(momentum), period=period)
    output = Average() if output is None else output
    method = Descent(update=update, step_size=1.0 / value, output=output, record=record)
    return method.plan(DP_FTRL, problem_class, budget, mechanism, FtrlDeclaration(bounded))


def rate(plan: Plan) -> Rate:
    """Return the bound of the regret or of the population risk."""
    params: Any = plan.params
    (mechanism, method), facts, declared = params, plan.problem_class, plan.declared
    assert isinstance(declared, FtrlDeclaration)
    quantity, update, batches = declared.quantity, method.update, mechanism.batches
    if not isinstance(batches, OrderedBatches):
        return no_rate("the batches are not passes in one order", quantity=quantity)
    epochs, rest = divmod(mechanism.steps, batches.period)
    noise, options = mechanism.noise, dict(update.options)
    restarted = noise.period if isinstance(noise, RestartedNoise) else None
    reason = no_step(params)
    if getattr(noise, "variance", None) is None:
        reason = "the variance of the noise is unknown"
    elif update.factory is not projected_leader or options.get("period") != restarted:
        reason = "the update is not the leader of this noise"
    elif step_rule(method.step_sizes) != StepRule(method.step_sizes.scale):
        reason = "the leader's regularisation changes"
    elif rest or batches.n != facts.n:
        reason = "the steps are not whole passes over the records"
    elif quantity is Quantity.POPULATION_RISK and method.output != Average():
        reason = "the theorem is for the average of all iterates"
    if reason:
        return no_rate(reason, quantity=quantity)
    return ftrl_rate(
        epochs=epochs, plain=update.numbers.get("momentum") == 0.0,
        regularisation=1.0 / method.step_sizes.scale, clipped=mechanism.query.changes(facts),
        **_theorem_arguments(facts, mechanism, quantity),
    )  # fmt: skip


def _theorem_arguments(
    problem_class: ProblemClass, mechanism: PrivateGradient, quantity: Quantity
) -> dict[str, Any]:
    """Return the arguments of the theorem that depend on the mechanism."""
    noise = mechanism.noise
    assert noise is not None
    assert isinstance(mechanism.batches, OrderedBatches)
    spread = math.sqrt(getattr(noise, "variance", None) or 1.0)
    return {
        "problem_class": problem_class,
        "steps": mechanism.steps,
        "noise_std": mechanism.scale * spread,
        "error": _prefix_error(noise, mechanism.steps, mechanism.steps // mechanism.batches.period),
        "quantity": quantity,
        "batch_size": mechanism.batches.batch_size,
    }


def _with_clipped_lipschitz(problem_class: ProblemClass, query: ClippedGradient) -> ProblemClass:
    """Return the class for which a regularisation is chosen: a ball and clipped gradients."""
    if math.isinf(problem_class.radius):
        raise ValueError("regularisation must be given where radius is infinite, got None")
    steepest = min(problem_class.lipschitz, query.clip_norm)
    return replace(problem_class, lipschitz=steepest, strong_convexity=0.0)


def _prefix_error(noise: Noise, steps: int, epochs: int) -> PrefixError:
    """Return the error of the prefix sums of every leader's noise, over whole passes."""
    if isinstance(noise, IndependentNoise):
        return PrefixError(0.0, increment=1.0)
    leaders = 1
    if isinstance(noise, RestartedNoise):
        leaders, noise = max(1, steps // int(noise.period)), noise.noise
    length = steps // leaders
    deviations = np.sqrt(noise.factorisation(length).variances())

    def error(steps: int) -> float:
        """Return the mean error for this number of steps, with proportionally many passes."""
        of_length, passes = _closed(noise, length, steps), min(steps, epochs // leaders)
        sensitivity = of_length.sensitivity(passes, steps // passes, even=True)
        return sensitivity * float(np.sqrt(of_length.variances()).mean())

    return PrefixError(
        float(deviations.mean()),
        growth=local_exponent(error, length),
        restarts=leaders - 1,
        restarted=float(deviations[-1]),
    )


def _closed(noise: Noise, length: int, steps: int) -> Factorisation:
    """Return a closed-form factorisation of ``steps`` rows of the same kind as ``noise``."""
    match noise:
        case TreeNoise():
            return factorise("tree", steps)
        case HonakerNoise():
            return factorise("honaker", steps)
        case BufferedNoise(omega=buffers):
            return factorise("buffered", steps, min(np.size(buffers), steps))
        case SeriesNoise(numerator=whole, denominator=band) if np.size(whole) == 1:
            return factorise("banded_inverse", steps, min(np.size(band), steps))
        case SeriesNoise(numerator=band) if np.size(band) < length:
            return factorise("banded", steps, min(np.size(band), steps))
    return factorise("toeplitz", steps)


DP_FTRL = Algorithm(
    name="dp_ftrl",
    summary="follow the regularised leader of private prefix sums, without sampling",
    plan=dp_ftrl,
    **{**IN_STEPS, "rate": rate, "declares": FtrlDeclaration, "public_terms": False},
    gathers=True,
    relations=frozenset({Relation.REPLACE_ONE, Relation.ZERO_OUT}),
    cites=("kairouz2021", "denisov2022"),
)
