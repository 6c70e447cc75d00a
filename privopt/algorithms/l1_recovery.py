"""l1 recovery: the mean of sparse vectors from few noisy measurements, by basis pursuit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from jax import Array
from jaxtyping import Float, Key
from numpy.typing import ArrayLike, NDArray

from privopt.algorithms.projection_mechanism import MeanSecret, check_paper, rate_of, rate_with
from privopt.algorithms.projection_mechanism import run as run_projection
from privopt.algorithms.shared import MODES, OneShotParams, Static, planned, require_delta
from privopt.arguments import count, described, member, shown
from privopt.convex import EmpiricalRisk
from privopt.core import Algorithm, Execution, Plan, Run, planner
from privopt.mechanisms import ClippedMean, CompressedMean, ProjectedMean
from privopt.privacy.calibration import CALIBRATIONS
from privopt.random import stream
from privopt.release import Pytree
from privopt.spec import Budget, ProblemClass
from privopt.theory import Rate, l1_recovery_rate

_MIN_MEASUREMENTS = 8
_SMALL, _LARGE = 1e-50, 1e50


@planner
def l1_recovery(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    mode: str = "tight",
    calibration: str = "mixture",
    measurements: int | None = None,
    matrix: ArrayLike | None = None,
    clip_norm: float | None = None,
) -> Plan:
    """Return a plan for l1 recovery.

    ``argmin {|z|_1 : A z = A zbar + N(0, sigma^2 I_m)}``, projected. The method is for squared
    distances with sparse records; the minimiser is their mean ``zbar``. The matrix ``A`` with
    ``m`` rows is public randomness of the run. This is a baseline: the projection mechanism is
    faster, and in measurements its error is not larger.

    The decision to compress depends on public numbers only. For the default ``m``, the projection
    mechanism onto ``K'`` is used if ``s >= d``, ``m >= d``, ``d < m ln^2 m`` (no theorem on
    recovery from noise of unknown size) or ``m < 8``.

    Parameters
    ----------
    problem_class : ProblemClass
        With ``sparsity``, the ``s`` of every record.
    budget : Budget
        Privacy budget with ``delta > 0``.
    mode : {"tight", "paper"}
        The published noise is ``sigma^2 = 18 L^2 ln(2.5/delta)/(n epsilon)^2`` (``replace_one``),
        for ``epsilon <= 1``. It is refused if it is not private, which happens for tiny ``m``.
    calibration : {"mixture", "renyi", "split"}
        Calibration in mode ``"tight"``: the least noise, or the noise of two simpler proofs
        (:func:`privopt.privacy.compressed_noise_multiplier`).
    measurements : int, optional
        Number of measurements ``m``, from 1 to ``d - 1``. Default:
        ``floor(n epsilon sqrt(s ln(d/s)/ln(1/delta)))``.
    matrix : array, optional
        Matrix ``A`` of shape ``(m, d)``, public and independent of the data; it may be reused. The
        sensitivity is then ``2 L kappa/n`` with a certified ``kappa``
        (:func:`privopt.mechanisms.means.largest_gain`).
    clip_norm : float, optional
        Clipping norm ``L``; see the projection mechanism.

    Formal guarantee
    ----------------
    The clipped mean has sensitivity ``2L/n`` (``replace_one``), and half of it under the other
    relations. Compression by a new random matrix, which is also released, gives a mixture of
    Gaussian mechanisms. Its shift is ``sqrt(chi2_m/m)`` times the shift of the mean. The guarantee
    holds for all data.

    Rate
    ----
    ``C L (s ln(d/s) ln(1/delta))^{1/4}/sqrt(n epsilon)`` for the error, its square for the risk,
    with an unknown constant ``C``, if ``d >= m ln^2 m``.

    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), theorem 3.4,
    without its condition on a restricted isometry: see :class:`privopt.mechanisms.CompressedMean`.
    The point is projected onto ``K'``; the paper uses a gate at ``2L``.

    Examples
    --------
    >>> facts = ProblemClass(n=64, dim=4096, lipschitz=2.0, radius=1.0, smoothness=1.0,
    ...                      strong_convexity=1.0, sparsity=4)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> l1_recovery(facts, budget).params.mechanism.measurements
    90
    """
    require_delta("l1_recovery", budget)
    member("mode", mode, MODES)
    member("calibration", calibration, CALIBRATIONS)
    if problem_class.sparsity is None:
        raise ValueError("sparsity must be declared for l1_recovery, got None")
    if mode == "paper":
        check_paper(budget)
        calibration = "published"
        if matrix is not None:
            raise ValueError("matrix must be left out for mode='paper', which samples a new matrix")
    query = ClippedMean.of(problem_class, clip_norm)
    array = None if matrix is None else _checked_matrix(matrix, measurements, problem_class.dim)
    rows = measurements if array is None else array.shape[0]
    rows = _rows(problem_class, budget) if rows is None else _checked_rows(rows, problem_class.dim)
    mechanism: CompressedMean | ProjectedMean
    if rows is None:
        mechanism = ProjectedMean.calibrated(query, budget, classic=mode == "paper")
    else:
        mechanism = CompressedMean.calibrated(
            query, budget, measurements=rows, calibration=calibration, matrix=array
        )
    return planned(L1_RECOVERY, problem_class, budget, mechanism)


def rate(plan: Plan) -> Rate:
    """Return the rate of l1 recovery, or of the projection mechanism if it is used instead."""
    params: Any = plan.params
    (mechanism,), facts = params, plan.problem_class
    if isinstance(mechanism, ProjectedMean):
        return rate_of(facts, mechanism)
    query = mechanism.query
    return rate_with(facts, query, l1_recovery_rate(facts, clip_norm=query.l2_clip))


def _rows(problem_class: ProblemClass, budget: Budget) -> int | None:
    """Return ``m``, or None for no compression, from public numbers only."""
    sparsity, dim = problem_class.sparsity, problem_class.dim
    assert sparsity is not None
    if sparsity >= dim:
        return None
    spread = sparsity * math.log(dim / sparsity) / math.log(1.0 / budget.delta)
    rows = math.floor(problem_class.n * budget.epsilon * math.sqrt(spread))
    if rows < _MIN_MEASUREMENTS or rows >= dim or dim < rows * math.log(rows) ** 2:
        return None
    return rows


def _checked_rows(rows: object, dim: int) -> int:
    rows = count("measurements", rows)
    if rows >= dim:
        raise ValueError(f"measurements must be below dim = {dim}, got {rows}")
    return rows


def _checked_matrix(matrix: ArrayLike, rows: object, dim: int) -> NDArray[np.float64]:
    if rows is not None:
        raise ValueError(f"measurements must be left out with matrix, got {shown(rows)}")
    try:
        entries = np.asarray(matrix)
    except (TypeError, ValueError):  # a key of JAX, or rows of many lengths
        raise ValueError(f"matrix must have shape (m, {dim}), got {described(matrix)}") from None
    if entries.dtype.kind not in "fiu":
        raise ValueError(f"matrix must hold real numbers, got dtype {entries.dtype}")
    array = entries.astype(np.float64)
    if array.ndim != 2 or array.shape[1] != dim or array.shape[0] == 0:
        raise ValueError(f"matrix must have shape (m, {dim}), got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("matrix must be finite, got entries that are not")
    largest = float(np.abs(array).max())
    if not _SMALL <= largest <= _LARGE:  # so that products are neither 0 nor infinite
        raise ValueError(
            f"matrix must have its largest entry in [1e-50, 1e50], got {shown(largest)}"
        )
    return array


def public_randomness(static: Static, params: OneShotParams, key: Key[Array, ""]) -> Pytree:
    """Return the public matrix."""
    mechanism = params.mechanism
    return mechanism.draw(key, static.dim) if isinstance(mechanism, CompressedMean) else ()


def run(
    static: Static,
    params: OneShotParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
    matrix: Float[Array, "m d"],
) -> Run:
    """Clip, sum, measure with noise, recover, project."""
    mechanism = params.mechanism
    if isinstance(mechanism, ProjectedMean):
        return run_projection(static, params, objective, key, execution)
    mean = mechanism.query.mean_of(objective)
    measured = mechanism.measure(stream(key, "noise"), matrix, mean)
    point = objective.constraint.project(mechanism.recover(matrix, measured))
    return Run(point, MeanSecret(mean, mechanism.query.clipped(objective)))


L1_RECOVERY = Algorithm(
    name="l1_recovery",
    summary="few noisy measurements of a mean of sparse vectors, recovered by basis pursuit",
    plan=l1_recovery,
    mechanism=CompressedMean | ProjectedMean,
    run=run,
    rate=rate,
    float64=True,
    public_randomness=public_randomness,
    cites=("ghazi2024",),
)
