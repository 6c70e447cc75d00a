"""Which cells have a law: an exact expected value at finite size, from the numbers of the plan.

Measured over law tests the code, not a theorem. A pair that is missing here has no closed law.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from privopt.algorithms.descent_rates import is_plain, output_rule, step_rule
from privopt.convex import WholeSpace
from privopt.core import Plan
from privopt.mechanisms import AllRecords, GaussianMechanism, IndependentNoise
from privopt.theory import (
    OutputRule,
    RadialLoss,
    gaussian_perturbation,
    gibbs_draw,
    noisy_descent_on_squares,
    norm_laplace_perturbation,
)

FiniteSizeLaw: TypeAlias = Callable[[Plan, RadialLoss], float | None]


def law_of(plan: Plan, family_name: str, strength: float) -> float | None:
    """The expected value of a run of ``plan`` on a family, exactly; None where none is closed.

    Of a control the law is that of the noise which it adds.
    """
    law = LAWS.get((plan.algorithm.name, family_name))
    return None if law is None else law(plan, _LOSSES[family_name](plan, strength))


def _output_perturbation(plan: Plan, loss: RadialLoss) -> float:
    """The minimiser is the centre, and no regulariser moves it: what is released is the noise."""
    mechanism, dim = _mechanism(plan), plan.problem_class.dim
    gaussian = isinstance(mechanism, GaussianMechanism)
    perturbation = gaussian_perturbation if gaussian else norm_laplace_perturbation
    return perturbation(loss, dim=dim, scale=mechanism.scale)


def _exponential_mechanism(plan: Plan, loss: RadialLoss) -> float:
    """But for ``2^-20`` of a temperature, to which the sampler rounds each loss."""
    mechanism = _mechanism(plan)
    return gibbs_draw(
        loss,
        dim=plan.problem_class.dim,
        temperature=mechanism.temperature,
        regularisation=mechanism.regularisation,
    )


def _dp_gd(plan: Plan, loss: RadialLoss) -> float | None:
    """Plain descent with fresh noise, where no gradient of the ball is clipped."""
    params: Any = plan.params
    mechanism, method = params
    query = mechanism.query
    usual = (
        isinstance(mechanism.noise, IndependentNoise)
        and isinstance(mechanism.batches, AllRecords)
        and mechanism.post is None
        and query.gamma is None
        and query.clip_norm >= loss.curvature * loss.radius
        and is_plain(method.update)
    )
    steps = int(mechanism.steps)
    weights = _weights(output_rule(method.output), steps)
    if not usual or weights is None:
        return None
    sizes, times = step_rule(method.step_sizes), np.arange(1.0, steps + 1.0)
    shrunk = 1.0 - sizes.decay * (times - 1.0) / steps
    return noisy_descent_on_squares(
        loss,
        dim=plan.problem_class.dim,
        noise_std=mechanism.scale,
        step_sizes=sizes.scale * (times + sizes.offset) ** -sizes.power * shrunk,
        weights=weights,
    )


def _raw_mean(plan: Plan, loss: RadialLoss) -> float | None:
    """The noise alone, wherever the minimiser lies; None where it is projected onto a body."""
    mechanism, dim = _mechanism(plan), plan.problem_class.dim
    if not isinstance(mechanism.body, WholeSpace):
        return None
    return 0.5 * loss.curvature * float(mechanism.noisy.noise_square(dim))


def _weights(output: OutputRule | None, steps: int) -> npt.NDArray[np.float64] | None:
    """``a_1 .. a_{T+1}`` of an output rule that is a fixed mean."""
    times = np.arange(1.0, steps + 2.0)
    shares = {
        OutputRule.AVERAGE: np.ones(steps + 1),
        OutputRule.AVERAGE_AFTER_STEP: 1.0 * (times > 1.0),
        OutputRule.WEIGHTED_AVERAGE: times,
        OutputRule.LAST: 1.0 * (times > steps),
    }
    if output not in shares:
        return None
    return np.asarray(shares[output] / shares[output].sum(), np.float64)


def _mechanism(plan: Plan) -> Any:
    return plan.params.mechanism


def _radius(plan: Plan) -> float:
    return plan.problem_class.radius


def _square(plan: Plan, strength: float) -> RadialLoss:
    del strength
    return RadialLoss(0.0, 1.0, _radius(plan))


_CENTRED: Mapping[str, Callable[[Plan, float], RadialLoss]] = MappingProxyType(
    {
        "distance": lambda plan, _: RadialLoss(1.0, 0.0, _radius(plan)),
        "regularised_distance": lambda plan, m: RadialLoss(1.0, m, _radius(plan)),
        "squared_distance": _square,
    }
)
_LOSSES = MappingProxyType({**_CENTRED, "sparse_silence": _square})

LAWS: Mapping[tuple[str, str], FiniteSizeLaw] = MappingProxyType(
    {
        **{("output_perturbation", family): _output_perturbation for family in _CENTRED},
        ("projection_mechanism", "sparse_silence"): _raw_mean,
        ("exponential_mechanism", "distance"): _exponential_mechanism,
        ("dp_gd", "squared_distance"): _dp_gd,
    }
)
"""By the names of algorithm and family."""
