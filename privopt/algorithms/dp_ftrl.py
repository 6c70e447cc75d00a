"""DP-FTRL: follow the regularised leader of noisy prefix sums; neither sampling nor shuffling."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from privopt.algorithms.choices import clipped_gradient, require_delta, step_rule
from privopt.algorithms.first_order import IN_STEPS, descend
from privopt.algorithms.theorems import one_step_noise, unmoving
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


class Declared(NamedTuple):
    """What the rate speaks of."""

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
    clip: float | None = None,
    clipping: str = "norm",
    output: Output | str | None = None,
    record: int | str = 0,
) -> Plan:
    """Plan DP-FTRL: ``w_{t+1} = Proj(w_1 - V_t/Lambda)``, ``V_t = gamma V_{t-1} + g_1 + .. + g_t``.

    ``g_t = (1/b) sum_{i in B_t} clip_C(grad l(w_t; x_i)) + sigma z_t``, with noise ``z`` whose
    prefix sums are ``B xi``, ``A = B C`` a factorisation of the matrix of prefix sums: their error
    grows like a power of ``log T``, that of fresh noise like ``sqrt(T)``. There are ``T = epochs
    ceil(n/b)`` steps, every pass in the same order.

    Parameters
    ----------
    problem_class : ProblemClass
        Clipping makes the guarantee hold for any loss; rates need convex, ``L``-Lipschitz ones.
        Finite ``radius`` unless ``regularisation`` is given.
    budget : Budget
        ``delta > 0``; ``replace_one`` or ``zero_out``.
    epochs : int
        Passes over the records.
    momentum : float
        ``gamma`` in ``[0, 1)``.
    batch_size : int, optional
        ``b``. The last batch of a pass may be smaller; the divisor is ``b``. Default that of
        :func:`privopt.theory.ftrl_batch` for the population risk, 1 for the regret.
    noise, band, optimise
        A name in ``factorisations.FACTORISATIONS``, with what ``factorise`` takes beside it, or a
        noise of your own.
    restart : bool
        Whether every pass starts fresh noise, and a new leader from where the last one stands.
    order : {"random", "stored"}
        One order for all passes: drawn without a look at the data, or that of a stream.
    regularisation : float, optional
        ``Lambda``; default :func:`privopt.theory.ftrl_regularisation` for ``quantity``, over
        ``1 - gamma``, with which the leader goes as far as without momentum.
    quantity : {"population risk", "regret"}
        What the rate speaks of; ``regret`` is ``sum_t f_t(w_t) - min_w sum_t f_t(w)`` over all
        ``T`` steps, ``f_t`` the loss of a batch.
    clip, clipping, record
        As in ``dp_sgd``.
    output : Output or its name in ``theory.OutputRule``, optional
        Default the average of ``w_1..w_{T+1}``: every point *before* the record that it is asked
        about, and the last before a record that is nobody's.

    Formal guarantee
    ----------------
    Neighbours are lists that differ at one place. A place is in one batch of every pass, at steps
    exactly a pass apart. All ``T`` adaptive answers together are one Gaussian mechanism whose
    sensitivity is that of ``C`` under this participation, twice as large under ``replace_one`` as
    under ``zero_out``. The guarantee rests on no sampling and no shuffling, and covers all
    iterates, for every data set and loss.

    Rate
    ----
    With ``y`` the mean over ``t`` of ``sqrt((B B^T)_tt)``, at the default ``Lambda``::

        E regret <= R sqrt(T (L^2 + 2 L sigma sqrt(d) y))

    in any order of the stream, over all passes; what restarts add is in
    :func:`privopt.theory.ftrl_rate`. The population risk after one pass is that over ``T``, up to
    lower orders, for records in the order that they were drawn in, or in a random one. In a second
    pass they are no fresh draws, and no population risk is claimed. With momentum, or at
    ``clip < L``, nothing is.

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
    spoken = Quantity.named("quantity", quantity)
    if spoken not in (Quantity.POPULATION_RISK, Quantity.REGRET):
        raise ValueError(f"quantity must be population risk or regret, got {shown(quantity)}")
    query = clipped_gradient(problem_class, clip, clipping)
    if batch_size is None and spoken is Quantity.REGRET:
        batch_size = 1  # every record is a round
    elif batch_size is None:
        unit_noise = problem_class.n * one_step_noise(query, budget)
        clipped = replace(problem_class, lipschitz=query.clip)
        batch_size = ftrl_batch(clipped, unit_noise=unit_noise)
    batches = OrderedBatches.of(batch_size, problem_class.n, epochs=epochs, order=order)
    steps, leaders = epochs * batches.period, epochs if restart else 1
    batches.participation(steps, budget.relation)  # refuses a relation before a long calculation
    followed = steps // leaders  # steps of one leader
    fresh = noise_of(noise, followed, band, optimise)
    added: Noise = fresh if leaders == 1 else RestartedNoise(fresh, followed)
    mechanism = PrivateGradient.calibrated(query, budget, steps, batches, added)
    if regularisation is None:
        told = _told(_bounded(problem_class, query), mechanism, spoken)
        chosen = ftrl_regularisation(**told) / (1.0 - float(momentum))
    else:
        chosen = positive_number("regularisation", regularisation)
    period = None if leaders == 1 else followed
    update = Update.of(projected_leader, momentum=float(momentum), period=period)
    return descend(
        DP_FTRL, problem_class, budget, mechanism, step_size=1.0 / chosen, update=update,
        output=Average() if output is None else output, record=record, declared=Declared(spoken),
    )  # fmt: skip


def rate(plan: Plan) -> Rate:
    """Of the stream, or of the population."""
    params: Any = plan.params
    (mechanism, method), facts, declared = params, plan.problem_class, plan.declared
    assert isinstance(declared, Declared)
    quantity, update, batches = declared.quantity, method.update, mechanism.batches
    if not isinstance(batches, OrderedBatches):
        return no_rate("the batches are not those of passes in one order", quantity=quantity)
    epochs, rest = divmod(mechanism.steps, batches.period)
    noise, leader = mechanism.noise, dict(update.options)
    restarted = noise.period if isinstance(noise, RestartedNoise) else None
    reason = unmoving(params)
    if getattr(noise, "variance", None) is None:
        reason = "the noise does not say its variance"
    elif update.factory is not projected_leader or leader.get("period") != restarted:
        reason = "the update is not the leader of this noise"
    elif step_rule(method.step_sizes) != StepRule(method.step_sizes.scale):
        reason = "the leader's regularisation changes"
    elif rest or batches.n != facts.n:
        reason = "the steps are no whole passes over the records"
    elif quantity is Quantity.POPULATION_RISK and method.output != Average():
        reason = "the theorem speaks of the average of all iterates"
    if reason:
        return no_rate(reason, quantity=quantity)
    return ftrl_rate(
        epochs=epochs, plain=update.numbers.get("momentum") == 0.0,
        regularisation=1.0 / method.step_sizes.scale, clipped=mechanism.query.changes(facts),
        **_told(facts, mechanism, quantity),
    )  # fmt: skip


def _told(
    problem_class: ProblemClass, mechanism: PrivateGradient, quantity: Quantity
) -> dict[str, Any]:
    """What the theorem asks for."""
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


def _bounded(problem_class: ProblemClass, query: ClippedGradient) -> ProblemClass:
    """What a regularisation is chosen for: the ball, and gradients that are clipped if need be."""
    if math.isinf(problem_class.radius):
        raise ValueError("regularisation must be given where radius is infinite, got None")
    steepest = min(problem_class.lipschitz, query.clip)
    return replace(problem_class, lipschitz=steepest, strong_convexity=0.0)


def _prefix_error(noise: Noise, steps: int, epochs: int) -> PrefixError:
    """Of the noise that every leader hears, in steps of whole passes."""
    if isinstance(noise, IndependentNoise):
        return PrefixError(0.0, increment=1.0)
    leaders = 1
    if isinstance(noise, RestartedNoise):
        leaders, noise = max(1, steps // int(noise.period)), noise.noise
    length = steps // leaders
    deviations = np.sqrt(noise.factorisation(length).variances())

    def error(steps: int) -> float:
        """At so many steps of as many passes."""
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
    """In closed form over so many steps: one that grows as that of ``noise``, of ``length``."""
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
    **IN_STEPS,
    rate=rate,
    declares=Declared,
    gathers=True,
    relations=frozenset({Relation.REPLACE_ONE, Relation.ZERO_OUT}),
    cites=("kairouz2021", "denisov2022"),
)
