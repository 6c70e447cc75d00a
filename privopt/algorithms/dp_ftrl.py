"""DP-FTRL: descent or the regularised leader with correlated noise, in batches of a fixed order."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from privopt.algorithms.descent import IN_STEPS, Descent, clipped_gradient
from privopt.algorithms.descent_rates import is_plain, no_step, one_step_noise, step_rule
from privopt.algorithms.shared import require_delta
from privopt.arguments import count, positive_number, real, shown
from privopt.convex import (
    Average,
    Output,
    StepSizes,
    Update,
    average_after_step,
    last_iterate,
    projected_leader,
)
from privopt.core import Algorithm, Plan, planner
from privopt.factorisations import Factorisation, ToeplitzFactorisation, factorise
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
    Gains,
    PrefixError,
    PrefixVariance,
    Quantity,
    Rate,
    StepRule,
    ftrl_batch,
    ftrl_rate,
    ftrl_regularisation,
    local_exponent,
    no_rate,
    passes_rate,
    quadratic_gains,
)

PASSES, MAX_BATCHES = 32, 64  # for the empirical risk; the batches are in a pass
MAX_STEPS = 4096  # up to which the risk on quadratic losses is computed
_STEP_SIZES = tuple(2.0**-k for k in range(11))  # in units of 1/H
_NOISE = "banded_inverse"


class FtrlDeclaration(NamedTuple):
    """Quantity that the rate bounds."""

    quantity: Quantity


@planner
def dp_ftrl(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    noise: Noise | str | None = None,
    epochs: int | None = None,
    batch_size: int | None = None,
    step_size: float | StepSizes | None = None,
    output: Output | str | None = None,
    quantity: str | None = None,
    band: int | None = None,
    optimise: bool = False,
    order: str = "random",
    regularisation: float | None = None,
    momentum: float = 0.0,
    restart: bool = False,
    clip_norm: float | None = None,
    clipping: str = "norm",
    record: int | str = 0,
) -> Plan:
    """Return a plan for DP-FTRL.

    The gradients ``g_t = (1/b) sum_{i in B_t} clip_C(grad l(w_t; x_i)) + sigma z_t`` of ``T =
    epochs ceil(n/b)`` batches in a fixed order have correlated noise: the prefix sums of ``z`` are
    ``B xi``, for a factorisation ``A = B C`` of the matrix of prefix sums. ``quantity`` selects the
    update::

        empirical risk               w_{t+1} = Proj(w_t - eta_t g_t)
        population risk, regret      w_{t+1} = Proj(w_1 - V_t/Lambda), V_t = gamma V_{t-1}
                                               + g_1 + .. + g_t

    Without projection and momentum, both are the same for constant ``eta_t = 1/Lambda``.

    Parameters
    ----------
    problem_class : ProblemClass
        The guarantee holds for any loss, because gradients are clipped. Rates need convex,
        ``L``-Lipschitz losses.
    budget : Budget
        Privacy budget with ``delta > 0`` under ``replace_one`` or ``zero_out``.
    noise, band, optimise
        A name in ``factorisations.FACTORISATIONS`` with the further arguments of ``factorise``, or
        a noise object. Default: ``"banded_inverse"`` for the empirical risk, else ``"tree"``.
    epochs : int, optional
        Number of passes over the records. Default: 32 for the empirical risk, else 1.
    batch_size : int, optional
        Batch size ``b``. The last batch of a pass may be smaller; the divisor is ``b``. Default:
        see below; for the leader :func:`privopt.theory.ftrl_batch`, or 1 for the regret.
    step_size : float or StepSizes, optional
        Step sizes ``eta_t`` for the empirical risk. Default: linear decay from a power of 2
        divided by ``H``, at most ``1/H``; see below.
    output : Output or its name in ``theory.OutputRule``, optional
        Default: the last iterate for the empirical risk; else the average of ``w_1..w_{T+1}``, that
        is, every point *before* its record, and the last point.
    quantity : {"empirical risk", "population risk", "regret"}, optional
        ``regret`` is ``sum_t f_t(w_t) - min_w sum_t f_t(w)`` over all ``T`` steps, where ``f_t`` is
        the loss of a batch. Default: the empirical risk if ``step_size`` is given, or for smooth
        losses on a bounded set with at most 4096 steps and no argument of the leader; otherwise
        the population risk.
    order : {"random", "stored"}
        Order of all passes: random and independent of the data, or as stored.
    regularisation : float, optional
        ``Lambda`` of the leader. Default: :func:`privopt.theory.ftrl_regularisation` for
        ``quantity``, divided by ``1 - gamma``, so that momentum does not change the total step.
    momentum, restart : float, bool
        Momentum ``gamma`` of the leader, in ``[0, 1)``. With ``restart``, every pass has new noise
        and a new leader, which starts at the last iterate.
    clip_norm, clipping, record
        See ``dp_sgd``.

    Formal guarantee
    ----------------
    Neighbours are lists that differ in one place. A place belongs to one batch of every pass, and
    these steps are exactly one pass apart. All ``T`` adaptive answers together are one Gaussian
    mechanism. Its sensitivity is the sensitivity of ``C`` for this participation, and is twice as
    large under ``replace_one`` as under ``zero_out``. The guarantee needs neither sampling nor
    shuffling. It covers all iterates, for every data set and loss.

    Default numbers
    ---------------
    For the empirical risk there are 32 passes, or fewer if ``batch_size`` would give more than 4096
    steps. The number of batches in a pass (a power of 2, at most 64) and the first step size
    minimise the largest risk of the last iterate over quadratic losses
    (:func:`privopt.theory.quadratic_gains`; :ref:`Regret, Theorem 3 <theory-regret-3>`). This bound
    depends on the problem class and the budget, never on data. The batches are those for banded
    inverse noise, the steps those for ``noise``.

    Rate
    ----
    The default has none: Theorem 3 is for quadratic losses. For constant steps below ``1/H`` and
    the output ``"average_after_step"``, see :func:`privopt.theory.passes_rate`.

    For the leader, let ``y`` be the mean over ``t`` of ``sqrt((B B^T)_tt)``. With the default
    ``Lambda``::

        E regret <= R sqrt(T (L^2 + 2 L sigma sqrt(d) y))

    for any order of the stream, over all passes. See :func:`privopt.theory.ftrl_rate` for restarts.
    The population risk after one pass is at most the regret divided by ``T``, up to lower orders,
    for records in a random order or in the order of sampling. There is no bound of the population
    risk for more passes, because their records are not fresh samples. There is no rate with
    momentum or for ``clip_norm < L``.

    Source: Kairouz, McMahan, Song, Thakkar, Thakurta and Xu 2021 (arXiv:2103.00039), Algorithm 1
    and Theorem C.1; Denisov, McMahan, Rush, Smith and Thakurta 2022 (arXiv:2202.08312), for
    factorisations and adaptive answers; Choquette-Choo, McMahan, Rush and Thakurta 2023
    (arXiv:2211.06530) for several passes. Sensitivities are exact or proved upper bounds.

    Examples
    --------
    >>> facts = ProblemClass(n=4000, dim=20, lipschitz=1.0, radius=5.0, smoothness=0.25)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> plan = dp_ftrl(facts, budget)
    >>> plan.params.mechanism.batches, plan.params.descent.step_sizes.scale
    (OrderedBatches(batch_size=1000, n=4000, epochs=32, order='random'), 4.0)
    >>> dp_ftrl(facts, budget, quantity="population risk").params.mechanism.batches.epochs
    1
    """
    require_delta("dp_ftrl", budget)
    if not 0.0 <= real("momentum", momentum) < 1.0:
        raise ValueError(f"momentum must lie in [0, 1), got {shown(momentum)}")
    query = clipped_gradient(problem_class, clip_norm, clipping)
    clipped = replace(problem_class, lipschitz=query.clip_norm)
    unit_noise = problem_class.n * one_step_noise(query, budget)
    period = 1 if batch_size is None else OrderedBatches.of(batch_size, problem_class.n).period
    passes = 1 if epochs is None else count("epochs", epochs)
    of_leader = {"regularisation": regularisation, "momentum": momentum, "restart": restart}
    unset = {"regularisation": None, "momentum": 0.0, "restart": False}
    given = [name for name, value in of_leader.items() if value != unset[name]]
    if quantity is not None:
        bounded = Quantity.named("quantity", quantity)
    elif step_size is not None or (
        _is_smooth(problem_class) and not given and passes * period <= MAX_STEPS
    ):
        bounded = Quantity.EMPIRICAL_RISK
    else:
        bounded = Quantity.POPULATION_RISK
    descends = bounded is Quantity.EMPIRICAL_RISK
    if not descends and bounded not in (Quantity.POPULATION_RISK, Quantity.REGRET):
        raise ValueError(
            f"quantity must be empirical risk, population risk or regret, got {shown(quantity)}"
        )
    if descends and given:
        name = given[0]
        raise ValueError(f"{name} must be left out for the {bounded}, got {shown(of_leader[name])}")
    if not descends and step_size is not None:
        raise ValueError(f"step_size must be left out for the {bounded}, got {shown(step_size)}")
    if batch_size is None and descends and (step_size is None or _is_smooth(problem_class)):
        batch_size = _default_batch(clipped, unit_noise, PASSES if epochs is None else passes)
    elif batch_size is None:
        is_regret = bounded is Quantity.REGRET  # every record is a round
        batch_size = 1 if is_regret else ftrl_batch(clipped, unit_noise=unit_noise)
    batches = OrderedBatches.of(batch_size, problem_class.n)
    if descends and epochs is None:
        passes = max(1, min(PASSES, MAX_STEPS // batches.period))
    noise = (_NOISE if descends else "tree") if noise is None else noise
    batches = replace(batches, epochs=passes, order=order)
    steps, leaders = passes * batches.period, passes if restart else 1
    batches.participation(steps, budget.relation)  # check the relation before a long calculation
    length = steps // leaders  # steps of one leader
    fresh = noise_of(noise, length, band, optimise)
    added: Noise = fresh if leaders == 1 else RestartedNoise(fresh, length)
    mechanism = PrivateGradient.calibrated(query, budget, steps, batches, added)
    if descends:
        step_size = _decaying_steps(clipped, mechanism) if step_size is None else step_size
        output = last_iterate() if output is None else output
        method = Descent(step_size=step_size, output=output, record=record)
        return method.plan(DP_FTRL, problem_class, budget, mechanism, FtrlDeclaration(bounded))
    if regularisation is None:
        facts = _with_clipped_lipschitz(problem_class, query)
        arguments = _theorem_arguments(facts, mechanism, bounded)
        value = ftrl_regularisation(**arguments) / (1.0 - float(momentum))
    else:
        value = positive_number("regularisation", regularisation)
    restarts = None if leaders == 1 else length
    update = Update.of(projected_leader, momentum=float(momentum), period=restarts)
    output = Average() if output is None else output
    method = Descent(update=update, step_size=1.0 / value, output=output, record=record)
    return method.plan(DP_FTRL, problem_class, budget, mechanism, FtrlDeclaration(bounded))


def _default_batch(problem_class: ProblemClass, unit_noise: float, epochs: int) -> int:
    """Return the batch size with the smallest risk on quadratic losses."""
    facts, curvature = problem_class, _curvature(problem_class)

    def risk(size: int) -> float:
        batches = -(-facts.n // size)
        sensitivity, gains = _default_gains(epochs, batches, facts.strong_convexity / curvature)
        noise_std = sensitivity * unit_noise / size
        return min(each.risk(facts, noise_std=noise_std, batch_size=size).total for each in gains)

    numbers = [2**k for k in range(MAX_BATCHES.bit_length())]
    most = min(facts.n, max(1, MAX_STEPS // epochs))
    return min((-(-facts.n // number) for number in numbers if number <= most), key=risk)


@lru_cache(maxsize=1024)
def _default_gains(passes: int, batches: int, modulus: float) -> tuple[float, tuple[Gains, ...]]:
    """Return the sensitivity of the default noise and its gains for all step sizes."""
    factorisation = factorise(_NOISE, passes * batches)
    sensitivity = factorisation.sensitivity(passes, batches, even=True)
    return sensitivity, tuple(_gains(factorisation, batches, modulus))


def _gains(factorisation: Factorisation, batches: int, modulus: float) -> Iterator[Gains]:
    """Yield the gains for each of ``_STEP_SIZES``, in linear decay."""
    increments = _increments(factorisation)
    for size in _STEP_SIZES:
        sizes = StepRule(size, decay=1.0).sizes(factorisation.steps)
        yield quadratic_gains(sizes, increments, batches=batches, modulus=modulus)


def _increments(factorisation: Factorisation) -> npt.NDArray[np.float64]:
    """Return the coefficients of a Toeplitz ``C^-1``, or the increments of ``B``."""
    if isinstance(factorisation, ToeplitzFactorisation):
        return factorisation.inverse()
    return np.diff(factorisation.decoder(), axis=0, prepend=0.0)


def _decaying_steps(problem_class: ProblemClass, mechanism: PrivateGradient) -> StepSizes:
    """Return linearly decaying steps with the smallest risk on quadratic losses."""
    batches, noise, steps = mechanism.batches, mechanism.noise, mechanism.steps
    assert isinstance(batches, OrderedBatches)
    assert noise is not None
    if steps > MAX_STEPS:
        raise ValueError(f"step_size must be given for more than {MAX_STEPS} steps, got {steps}")
    curvature = _curvature(problem_class)
    gains = _gains(
        noise.factorisation(steps), batches.period, problem_class.strong_convexity / curvature
    )
    risks = [
        each.risk(problem_class, noise_std=mechanism.scale, batch_size=batches.batch_size).total
        for each in gains
    ]
    return StepSizes.linear_decay(_STEP_SIZES[int(np.argmin(risks))] / curvature)


def _is_smooth(problem_class: ProblemClass) -> bool:
    """Return True if ``H`` is declared and positive, and the set is bounded."""
    return bool(problem_class.smoothness) and math.isfinite(problem_class.radius)


def _curvature(problem_class: ProblemClass) -> float:
    """Return ``H``, which the default batches and steps for the empirical risk need."""
    if math.isinf(problem_class.radius):
        raise ValueError("step_size must be given where radius is infinite, got None")
    if not problem_class.smoothness:
        raise ValueError(
            "smoothness must be declared and positive for default batches and steps of the "
            f"empirical risk, got {shown(problem_class.smoothness)}"
        )
    return problem_class.smoothness


def rate(plan: Plan) -> Rate:
    """Return the bound of the regret or of the population risk."""
    params: Any = plan.params
    (mechanism, method), facts, declared = params, plan.problem_class, plan.declared
    assert isinstance(declared, FtrlDeclaration)
    quantity, update, batches = declared.quantity, method.update, mechanism.batches
    if not isinstance(batches, OrderedBatches):
        return no_rate("the batches are not passes in one order", quantity=quantity)
    if quantity is Quantity.EMPIRICAL_RISK:
        return _passes_rate(plan)
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


def _passes_rate(plan: Plan) -> Rate:
    """Return the bound of the empirical risk of the average after constant steps."""
    params: Any = plan.params
    (mechanism, method), facts = params, plan.problem_class
    batches, noise = mechanism.batches, mechanism.noise
    epochs, rest = divmod(mechanism.steps, batches.period)
    reason = no_step(params)
    if getattr(noise, "variance", None) is None:
        reason = "the variance of the noise is unknown"
    elif rest or batches.n != facts.n:
        reason = "the steps are not whole passes over the records"
    elif batches.order != "random" and batches.period > 1:
        reason = "the order of the batches is not random"
    elif method.output != average_after_step() or not step_rule(method.step_sizes).constant:
        reason = "the bound for decaying steps and other outputs is for quadratic losses"
    if reason:
        return no_rate(reason)
    factorisation = noise.factorisation(mechanism.steps)
    if isinstance(factorisation, ToeplitzFactorisation):
        variance = PrefixVariance.of_toeplitz(factorisation.decoded())
    else:
        variance = PrefixVariance(float(factorisation.variances().mean()))
    return passes_rate(
        facts,
        epochs=epochs,
        batch_size=batches.batch_size,
        step_size=float(method.step_sizes.scale),
        noise_std=mechanism.scale * math.sqrt(noise.variance),
        variance=variance,
        clipped=mechanism.query.changes(facts),
        plain=is_plain(method.update),
    )


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
    summary="descent with correlated noise over passes in a fixed order, without sampling",
    plan=dp_ftrl,
    **{**IN_STEPS, "rate": rate, "declares": FtrlDeclaration, "public_terms": False},
    gathers=True,
    relations=frozenset({Relation.REPLACE_ONE, Relation.ZERO_OUT}),
    cites=("kairouz2021", "denisov2022"),
)
