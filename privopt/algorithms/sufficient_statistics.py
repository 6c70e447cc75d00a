"""Sufficient statistics: least squares from second moments with noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float, Key

from privopt.algorithms.shared import NoiseKind, Static, least_bound, noise_kinds
from privopt.arguments import real, shown
from privopt.convex import EmpiricalRisk
from privopt.convex.quadratic import FLATTEST, eigenbasis, minimise_quadratic
from privopt.core import Algorithm, Execution, Plan, Run, planner
from privopt.mechanisms import ClippedMoments, GaussianMechanism, NormLaplaceMechanism
from privopt.random import stream
from privopt.spec import Budget, ProblemClass
from privopt.theory import Rate, no_rate, sufficient_statistics_rate, sufficient_statistics_weight

Mechanism = GaussianMechanism[ClippedMoments] | NormLaplaceMechanism[ClippedMoments]


class StatisticsParams(NamedTuple):
    """The mechanism, and the least eigenvalue of the regularised matrix."""

    mechanism: Mechanism
    floor: float


class StatisticsSecret(NamedTuple):
    """The moments before noise, and the number of changed records.

    The bound requires that no record is changed.
    """

    moments: Float[Array, " moments"]
    clipped: Float[Array, ""]


@planner
def sufficient_statistics(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    floor: float | None = None,
    label_clip: float | None = None,
    weight: float | None = None,
    noise: str | None = None,
) -> Plan:
    """Return a plan for least squares from noisy moments.

    ``argmin_W v^T (A + E + lambda I) v/2 - <b + e, v>``, for squared losses. The risk is a
    function of ``A = (1/n) sum_i x_i x_i^T`` and ``b = (1/n) sum_i r_i x_i``, with ``v = w - c``
    and ``r_i = y_i - <x_i, c>``. There is one noisy answer. The data are read once, and sparse
    features stay sparse. The minimisation is post-processing.

    Parameters
    ----------
    problem_class : ProblemClass
        Squared losses, with ``smoothness``: features are clipped to ``X = sqrt(H)``.
    budget : Budget
        Privacy budget. ``delta = 0`` is pure differential privacy by norm-Laplace noise: a uniform
        direction and a Gamma-distributed norm.
    floor : float, optional
        Least eigenvalue ``f`` of the regularised noisy matrix: ``lambda = max(0, f - l)`` for the
        least eigenvalue ``l`` of the noisy matrix. Public. Default: ``nu = sigma sqrt(2(d + 1))``,
        which bounds the mean norm of the matrix noise. With ``-inf`` there is no regularisation:
        the noisy quadratic, convex or not, is minimised over the ball exactly. That has the smaller
        bound, but in measurements a far larger risk if the noise is as large as the matrix.
    label_clip : float, optional
        Clipping norm ``Y`` of residuals at the centre. Default: ``L/X - R X``.
    weight : float, optional
        Weight ``w`` of ``b`` relative to ``A`` in the noise: standard deviations ``sigma/w`` and
        ``sigma``. Default: the minimiser of the bound.
    noise : {"gaussian", "norm_laplace"}, optional
        See :func:`output_perturbation`.

    Formal guarantee
    ----------------
    Each record is clipped, so the moments have the sensitivity of
    :class:`privopt.mechanisms.ClippedMoments`, for all data. Under ``replace_one`` it is less than
    twice as large as under ``zero_out`` and ``add_or_remove_one``.

    Rate
    ----
    ``R sigma sqrt((d + 1)(1/w^2 + R^2/2)) + R^2 (nu + f)/2``, where ``sigma = sqrt(2) (X^2 + w^2
    Y^2/2)/(n mu)`` under ``replace_one``; only the first term without a ridge. Both are of order
    ``L R sqrt(d)/(n mu)``. Pure: of order ``L R d^(3/2)/(n epsilon)``.

    Source: Wang 2018 (AdaSSP). The vector of both moments, its sensitivity and the bound are
    derived here.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=3.0, radius=2.0, smoothness=1.0)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> round(sufficient_statistics(facts, budget).rate.upper, 3)
    0.173
    >>> round(sufficient_statistics(facts, budget, floor=-math.inf).rate.upper, 3)
    0.073
    """
    raised = floor is None or real("floor", floor) > -math.inf
    if floor is not None and raised and not 0.0 <= floor < math.inf:
        raise ValueError(
            f"floor must be at least 0 and finite, or -inf for none, got {shown(floor)}"
        )
    if not raised and math.isinf(problem_class.radius):
        raise ValueError("floor must be finite where radius is infinite, got -inf")
    query = ClippedMoments.of(problem_class, label_clip=label_clip)
    if weight is None:
        weight = sufficient_statistics_weight(
            lambda weight: query._replace(weight=weight).sensitivity(budget.relation),
            radius=problem_class.radius,
            ridges=2.0 if floor is None else float(raised),
            feature_clip=query.feature_clip,
            label_clip=query.label_clip,
        )
    query = ClippedMoments.of(problem_class, label_clip=label_clip, weight=weight)
    flattest = FLATTEST * query.feature_clip**2 if raised else -math.inf

    def with_noise(kind: NoiseKind) -> Plan:
        mechanism = kind.calibrated(query, budget)
        least = matrix_noise(mechanism) if floor is None else float(floor)
        params = StatisticsParams(mechanism, max(least, flattest))
        return Plan(SUFFICIENT_STATISTICS, problem_class, budget, params, Static(problem_class.dim))

    return least_bound(map(with_noise, noise_kinds(noise, budget)))


def rate(plan: Plan) -> Rate:
    """Return the rate, by the noise and the least eigenvalue."""
    params = plan.params
    assert isinstance(params, StatisticsParams)
    mechanism, query = params.mechanism, params.mechanism.query
    if query.changes(plan.problem_class):
        return no_rate("records may be clipped below the declared norm", whole_class=False)
    return sufficient_statistics_rate(
        plan.problem_class,
        noise_std=noise_std(mechanism),
        weight=query.weight,
        floor=params.floor,
        balanced=params.floor == matrix_noise(mechanism),
        gaussian=isinstance(mechanism, GaussianMechanism),
    )


def noise_std(mechanism: Mechanism) -> float:
    """Return ``sigma`` of Gaussian noise with at least the mean norm of the noise.

    The norm of ``D`` standard normal numbers has a mean of at least ``sqrt(D - 1/2)``.
    """
    if isinstance(mechanism, GaussianMechanism):
        return mechanism.scale
    numbers = mechanism.query.numbers
    return mechanism.noise_norm(numbers) / math.sqrt(numbers - 0.5)


def matrix_noise(mechanism: Mechanism) -> float:
    """Return ``nu``, a bound on the mean largest eigenvalue of the matrix noise, or 0."""
    return noise_std(mechanism) * math.sqrt(2.0 * (mechanism.query.dim + 1))


def run(
    static: Static,
    params: StatisticsParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
) -> Run:
    """Clip, sum, add noise, compute the eigenvectors, minimise."""
    del execution
    mechanism, dim, constraint = params.mechanism, static.dim, objective.constraint
    centre = constraint.centre_point(dim, objective.dtype)
    moments, clipped = mechanism.query.answer(objective, centre)
    noisy = mechanism.add_noise(stream(key, "noise"), moments)
    matrix, linear = mechanism.query.parts(noisy, dim)
    eigenvalues, vectors = eigenbasis(matrix)
    eigenvalues = eigenvalues + jnp.maximum(params.floor - eigenvalues[0], 0.0)
    point = minimise_quadratic(eigenvalues, vectors, linear, constraint, centre)
    return Run(
        jnp.where(jnp.isfinite(point).all(), point, centre), StatisticsSecret(moments, clipped)
    )


SUFFICIENT_STATISTICS = Algorithm(
    name="sufficient_statistics",
    summary="least squares from second moments with noise",
    plan=sufficient_statistics,
    mechanism=Mechanism,
    run=run,
    rate=rate,
    float64=True,
    cites=("wang2018",),
)
